//! Checks of objects that sessions in a cluster use: the namespace, secrets, and the launcher image.

use aifo_agents::{AgentSpec, key_variables, known_agents};
use aifo_types::Finding;

use super::probe::{Got, Probe};

/// The phase of a namespace, and its level of Pod Security.
const NAMESPACE_FIELDS: &str = "--output=jsonpath={.status.phase} \
    {.metadata.labels.pod-security\\.kubernetes\\.io/enforce}";

pub(super) async fn namespace(probe: &Probe<'_>) -> Vec<Finding> {
    let name = &probe.kube_context.namespace;
    vec![match probe.get("cluster namespace", &["namespace", name, NAMESPACE_FIELDS]).await {
        Ok(Got::Text(text)) => judge_namespace(name, &text),
        Ok(Got::Forbidden) => Finding::ok(
            "cluster namespace",
            format!("{name}; not checked, as your role cannot read namespaces"),
        ),
        Ok(Got::Absent) => Finding::fail(
            "cluster namespace",
            format!("'{name}' does not exist"),
            "name another with --namespace, or create it",
        ),
        Err(finding) => finding,
    }]
}

fn judge_namespace(name: &str, text: &str) -> Finding {
    let (phase, level) = text.split_once(' ').unwrap_or((text, ""));
    if phase.trim() == "Terminating" {
        let text = format!("'{name}' is being deleted");
        return Finding::fail("cluster namespace", text, "name another with --namespace");
    }
    match level.trim() {
        "" => Finding::ok("cluster namespace", format!("{name}, without a level of Pod Security")),
        level => Finding::ok("cluster namespace", format!("{name}, Pod Security {level}")),
    }
}

/// The names of a secret's keys. Their values are not printed.
const KEY_NAMES: &str = "--output=go-template={{range $key, $value := .data}}{{$key}} {{end}}";

pub(super) async fn model_keys(probe: &Probe<'_>) -> Vec<Finding> {
    let secret = &probe.config.keys_secret.value;
    let create = format!(
        "kubectl create secret generic {secret} --namespace {} --from-literal=OPENAI_API_KEY=..",
        probe.kube_context.namespace
    );
    vec![match probe.get("model keys", &["secret", secret, KEY_NAMES]).await {
        Ok(Got::Text(text)) => judge_keys(secret, &text, &probe.kube_context.namespace),
        Ok(Got::Forbidden) => Finding::ok(
            "model keys",
            format!("secret '{secret}' not checked, as your role cannot read secrets"),
        ),
        Ok(Got::Absent) => {
            let text = format!("secret '{secret}' does not exist, so agents have no model");
            Finding::warn("model keys", text, create)
        }
        Err(finding) => finding,
    }]
}

fn judge_keys(secret: &str, text: &str, namespace: &str) -> Finding {
    let agents = known_agents();
    let is_known = |name: &&str| {
        let has_name = |agent: &AgentSpec| {
            key_variables(agent).contains(name) || agent.variables.iter().any(|it| it == name)
        };
        agents.iter().any(has_name)
    };
    let names: Vec<&str> = text.split_whitespace().collect();
    let list = match names.as_slice() {
        [] => "no key".to_owned(),
        _ => names.join(", "),
    };
    match names.iter().any(is_known) {
        true => Finding::ok("model keys", format!("secret '{secret}' has {list}")),
        false => {
            let text = format!("secret '{secret}' has {list}: none is a variable of a known agent");
            let edit = format!(
                "add a key: kubectl edit secret {secret} --namespace {namespace}; or name another in \
                 keys_secret of [kubernetes]"
            );
            Finding::warn("model keys", text, edit)
        }
    }
}

/// The types of secrets with logins of registries.
const REGISTRY_TYPES: [&str; 2] = ["kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"];

pub(super) async fn pull_secrets(probe: &Probe<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for secret in &probe.config.pull_secrets.value {
        let fix = format!(
            "kubectl create secret docker-registry {secret} --namespace {} \
             --from-file=.dockerconfigjson=FILE",
            probe.kube_context.namespace
        );
        let check = "pull secrets";
        let got = probe.get(check, &["secret", secret, "--output=jsonpath={.type}"]).await;
        findings.push(match got {
            Ok(Got::Text(kind)) if REGISTRY_TYPES.contains(&kind.trim()) => {
                Finding::ok(check, secret)
            }
            Ok(Got::Text(kind)) => {
                let text = format!("'{secret}' has no login of a registry, its type is '{kind}'");
                Finding::warn(
                    check,
                    text,
                    format!(
                        "name one of type {} in pull_secrets of [kubernetes]",
                        REGISTRY_TYPES[0]
                    ),
                )
            }
            Ok(Got::Forbidden) => Finding::ok(
                check,
                format!("'{secret}' not checked, as your role cannot read secrets"),
            ),
            Ok(Got::Absent) => Finding::warn(check, format!("'{secret}' does not exist"), fix),
            Err(finding) => finding,
        });
    }
    findings
}

pub(super) async fn launcher_image(probe: &Probe<'_>) -> Vec<Finding> {
    let config = probe.config;
    let image = crate::client::launcher_image(config);
    vec![judge_image(&image, config.launcher_image.value.is_some() || probe.is_local())]
}

/// The default image has a registry only with a prefix. A cluster of this machine may have it without one.
fn judge_image(image: &str, is_chosen: bool) -> Finding {
    let host = image.split_once('/').map(|(host, _)| host).unwrap_or_default();
    let has_registry = host.contains(['.', ':']) || host == "localhost";
    if has_registry || is_chosen {
        return Finding::ok("launcher image", image);
    }
    Finding::warn(
        "launcher image",
        format!("'{image}' has no registry, so a node must have it already"),
        "push it: aifo-coder images push REGISTRY/PREFIX launcher; then image_prefix = \
         \"REGISTRY/PREFIX/\" in [containers] of your configuration",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::FindingStatus as Status;

    #[test]
    fn a_namespace_has_a_level_or_ends() {
        let judge = |text| judge_namespace("team", text);
        assert_eq!(judge("Active restricted").text, "team, Pod Security restricted");
        assert_eq!(judge("Active ").text, "team, without a level of Pod Security");
        assert_eq!(judge("Terminating baseline").status, Status::Fail);
    }

    #[test]
    fn keys_are_those_of_known_agents() {
        let rows = [
            ("OPENAI_API_KEY ", Status::Ok, "secret 's' has OPENAI_API_KEY"),
            ("x y ", Status::Warn, "secret 's' has x, y: none is a variable of a known agent"),
            ("", Status::Warn, "secret 's' has no key: none is a variable of a known agent"),
        ];
        for (text, status, finding) in rows {
            let judged = judge_keys("s", text, "team");
            assert_eq!((judged.status, judged.text.as_str()), (status, finding));
        }
    }

    #[test]
    fn an_image_without_a_registry_is_reported() {
        let rows = [
            ("aifo-launcher:latest", false, Status::Warn),
            ("team/aifo-launcher:latest", false, Status::Warn),
            ("aifo-launcher:latest", true, Status::Ok),
            ("registry.example/team/aifo-launcher:latest", false, Status::Ok),
            ("localhost:5000/aifo-launcher:latest", false, Status::Ok),
        ];
        for (image, is_chosen, status) in rows {
            assert_eq!(judge_image(image, is_chosen).status, status, "{image}");
        }
    }
}
