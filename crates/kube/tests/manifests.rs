//! Rendered manifests are those of Kubernetes' own types, and obey Pod Security *restricted*.
//!
//! Proves `spec/kubernetes.md#the-pod`, `spec/kubernetes.md#rights`.

#[path = "manifests/policy.rs"]
mod policy;

use std::collections::BTreeMap;

use aifo_kube::{
    Keys, KindContainer, Limits, PodAgent, PodNetwork, Right, Role, SessionPod, Subject,
    WorkspaceSource,
};
use aifo_types::Kind;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role as RoleObject, RoleBinding};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn session() -> SessionPod {
    let kind = |name: &str, caches: &[&str]| KindContainer {
        kind: Kind::parse(name).unwrap(),
        image: format!("registry.example:5000/aifo-toolchain-{name}:latest"),
        variables: vec![("CC".to_owned(), "gcc $(HOME)".to_owned())],
        caches: caches.iter().map(|cache| (*cache).to_owned()).collect(),
    };
    SessionPod {
        session: "0000000000000001".to_owned(),
        namespace: Some("team".to_owned()),
        launcher_image: "aifo-launcher:latest".to_owned(),
        arguments: ["run", "--backend", "pod", "codex", "a: \"b\"\n$(X)"]
            .map(str::to_owned)
            .to_vec(),
        settings: "\"env\" = { \"set\" = { \"A\" = \"$(B)\" } }\n".to_owned(),
        client: " --backend kubernetes --namespace team".to_owned(),
        agent_variables: vec![("AIFO_ENV_MODEL".to_owned(), "large".to_owned())],
        terminal: true,
        agent: PodAgent {
            name: "codex".to_owned(),
            image: "aifo-agent-codex:latest".to_owned(),
            variables: vec![("SHELL".to_owned(), "/bin/bash".to_owned())],
            git: vec![("user.name".to_owned(), "Jo \"J\" $(X)".to_owned())],
            private: vec!["/tmp/sockets".to_owned()],
        },
        kinds: vec![kind("rust", &[]), kind("go", &["/var/cache/aifo/go"])],
        workspace: WorkspaceSource::Git {
            url: "https://git.example/p.git".to_owned(),
            reference: Some("main".to_owned()),
            secret: Some("git-login".to_owned()),
            is_pushed: false,
        },
        serves_files: false,
        keys: Some(Keys {
            secret: "aifo-keys".to_owned(),
            variables: vec!["OPENAI_API_KEY".to_owned()],
        }),
        pull_secrets: vec!["registry".to_owned()],
        restrictions: vec!["io-uring".to_owned(), "set-id".to_owned()],
        limits: Limits { memory: Some(1 << 30), milli_cpus: Some(1500) },
        deadline_secs: Some(3600),
        user: 1000,
        further_tools: vec!["javac".to_owned()],
        in_place: vec!["git".to_owned()],
        network: PodNetwork::Ports(vec![22, 443]),
        addresses: Vec::new(),
        dns: Vec::new(),
        api_server: Vec::new(),
        warnings: vec!["two\nlines".to_owned()],
    }
}

/// Returns the documents of a manifest.
fn documents(text: &str) -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(text);
    documents.map(|one| Value::deserialize(one).expect(text)).filter(|one| !one.is_null()).collect()
}

/// Parses a document by a type, and checks that the type has all of its fields.
fn typed<T: DeserializeOwned + Serialize>(document: &Value) -> T {
    let typed: T = serde_json::from_value(document.clone()).unwrap();
    let printed = serde_json::to_value(&typed).unwrap();
    assert_eq!(without_empty(&printed), without_empty(document), "a field is lost");
    typed
}

/// Removes empty lists, which the types leave out, but not empty objects.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept =
                fields.iter().filter(|(_, value)| value.as_array().is_none_or(|it| !it.is_empty()));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_empty(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

fn rendered(session: &SessionPod) -> (NetworkPolicy, Pod) {
    let documents = documents(&session.render().unwrap());
    let [policy, pod] = documents.as_slice() else { panic!("{documents:?}") };
    (typed(policy), typed(pod))
}

fn all_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// Sessions that together use every field.
fn sessions() -> Vec<SessionPod> {
    let claim = WorkspaceSource::Claim("project".to_owned());
    let anonymous = WorkspaceSource::Git {
        url: "https://git.example/p.git".to_owned(),
        reference: None,
        secret: None,
        is_pushed: true,
    };
    let open = SessionPod { workspace: anonymous, network: PodNetwork::Open, ..session() };
    let none = SessionPod {
        workspace: claim,
        network: PodNetwork::None,
        namespace: None,
        terminal: false,
        keys: None,
        pull_secrets: Vec::new(),
        restrictions: Vec::new(),
        limits: Limits::default(),
        deadline_secs: None,
        kinds: Vec::new(),
        ..session()
    };
    let upload = SessionPod { workspace: WorkspaceSource::Upload, ..session() };
    vec![session(), open, none, upload]
}

#[test]
fn only_the_container_of_an_upload_writes_the_workspace_before_the_agent() {
    let (_, pod) = rendered(&SessionPod { workspace: WorkspaceSource::Upload, ..session() });
    let spec = pod.spec.unwrap();
    let inits = spec.init_containers.unwrap();
    let names: Vec<_> = inits.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["install", "upload"]);
    let upload = &inits[1];
    let command = ["/usr/local/bin/aifo-coder", "_workspace", "wait"].map(str::to_owned);
    assert_eq!(upload.command.as_deref(), Some(&command[..]));
    let mounts = |container: &Container| -> Vec<_> {
        let mounts = container.volume_mounts.iter().flatten();
        mounts.map(|it| (it.mount_path.clone(), it.read_only.unwrap_or_default())).collect()
    };
    assert_eq!(mounts(upload), [("/workspace".to_owned(), false), ("/tmp".to_owned(), false)]);
    assert!(mounts(&spec.containers[0]).contains(&("/workspace".to_owned(), true)));
    for container in all_containers(&rendered(&session()).1.spec.unwrap()) {
        let has = container.env.iter().flatten().any(|it| it.name == "AIFO_POD_UPLOAD");
        assert!(!has, "{} would wait for a fetch", container.name);
    }
    let launcher = spec.containers[0].env.iter().flatten();
    assert_eq!(launcher.filter(|it| it.name == "AIFO_POD_UPLOAD").count(), 1);
}

#[test]
fn git_accepts_the_root_of_a_volume_in_every_container_that_runs_it() {
    let (_, pod) = rendered(&session());
    for container in all_containers(&pod.spec.unwrap()) {
        let value = |name: &str| {
            let found = container.env.iter().flatten().find(|it| it.name == name)?;
            found.value.clone()
        };
        let expected = !["install", "clone", "aifo"].contains(&container.name.as_str());
        assert_eq!(value("GIT_CONFIG_KEY_0").is_some(), expected, "{}", container.name);
        assert_eq!(value("GIT_CONFIG_VALUE_0").is_some_and(|it| it == "/workspace"), expected);
        // Only the agent commits in the user's name.
        let is_agent = container.name == "agent";
        assert_eq!(value("GIT_CONFIG_KEY_1").is_some_and(|it| it == "user.name"), is_agent);
        let count = expected.then_some(if is_agent { "2" } else { "1" });
        assert_eq!(value("GIT_CONFIG_COUNT").as_deref(), count, "{}", container.name);
    }
}

#[test]
fn manifests_survive_a_round_trip_through_the_types_of_kubernetes() {
    for session in sessions() {
        let (policy, pod) = rendered(&session);
        assert_eq!(policy.metadata.name, pod.metadata.name);
        for container in all_containers(pod.spec.as_ref().unwrap()) {
            assert_eq!(container.image_pull_policy.as_deref(), Some("IfNotPresent"));
        }
        assert_eq!(policy.metadata.namespace, session.namespace);
        assert_eq!(pod.spec.unwrap().active_deadline_seconds, session.deadline_secs.map(|_| 3600));
    }
    let subjects = [
        Subject::User("me".to_owned()),
        Subject::Group("us".to_owned()),
        Subject::ServiceAccount("it".to_owned()),
    ];
    for subject in subjects {
        let role = Role { namespace: "team".to_owned(), subject };
        let documents = documents(&role.render());
        let [role, binding] = documents.as_slice() else { panic!("{documents:?}") };
        let (role, binding): (RoleObject, RoleBinding) = (typed(role), typed(binding));
        assert_eq!(role.metadata.name, Some(binding.role_ref.name));
        let all = |values: &Option<Vec<String>>| values.iter().flatten().any(|one| one == "*");
        for rule in role.rules.iter().flatten() {
            assert!(!rule.verbs.iter().any(|verb| verb == "*"), "{rule:?}");
            assert!(!all(&rule.resources) && !all(&rule.api_groups), "{rule:?}");
        }
        let has =
            |list: &Option<Vec<String>>, word: &str| list.iter().flatten().any(|it| it == word);
        let grants = |right: &Right| {
            role.rules.iter().flatten().any(|rule| {
                has(&rule.api_groups, right.group)
                    && has(&rule.resources, right.resource)
                    && rule.verbs.iter().any(|verb| verb == right.verb)
            })
        };
        assert!(Role::rights().all(|right| grants(&right)));
        let count = |rule: &PolicyRule| rule.verbs.len() * rule.resources.as_ref().unwrap().len();
        let granted: usize = role.rules.iter().flatten().map(count).sum();
        assert_eq!(Role::rights().count(), granted, "each right of the role");
    }
}

#[test]
fn a_pod_is_restricted_rule_by_rule() {
    for session in sessions() {
        let spec = rendered(&session).1.spec.unwrap();
        for flag in [spec.host_network, spec.host_pid, spec.host_ipc] {
            assert_ne!(flag, Some(true), "host namespaces");
        }
        assert_ne!(spec.host_users, Some(true), "host users");
        for volume in spec.volumes.iter().flatten() {
            let restricted = volume.empty_dir.is_some() || volume.persistent_volume_claim.is_some();
            assert!(restricted, "volume types: {volume:?}");
        }
        let of_pod = spec.security_context.as_ref().unwrap();
        assert_eq!(of_pod.run_as_non_root, Some(true), "running as non-root");
        assert!(of_pod.run_as_user.is_some_and(|user| user > 0), "running as non-root user");
        let seccomp = of_pod.seccomp_profile.as_ref().unwrap();
        assert_eq!(seccomp.type_, "RuntimeDefault", "seccomp");
        assert_eq!(of_pod.sysctls, None, "sysctls");
        assert_eq!(of_pod.se_linux_options, None, "SELinux");
        assert_eq!(of_pod.app_armor_profile, None, "AppArmor");
        for container in all_containers(&spec) {
            let name = &container.name;
            let own = container.security_context.as_ref().unwrap();
            assert_eq!(own.allow_privilege_escalation, Some(false), "{name}: privilege escalation");
            let capabilities = own.capabilities.as_ref().unwrap();
            assert_eq!(
                capabilities.drop.as_deref(),
                Some(&["ALL".to_owned()][..]),
                "{name}: capabilities"
            );
            assert_eq!(capabilities.add, None, "{name}: capabilities");
            assert_ne!(own.privileged, Some(true), "{name}: privileged");
            assert_eq!(own.proc_mount, None, "{name}: /proc mount type");
            let overridden = (own.run_as_user, own.run_as_non_root, own.seccomp_profile.as_ref());
            assert_eq!(overridden, (None, None, None), "{name}: overrides the pod's");
            assert_eq!(own.read_only_root_filesystem, Some(true), "{name}: root");
            let ports = container.ports.iter().flatten();
            assert_eq!(
                ports.filter(|port| port.host_port.is_some()).count(),
                0,
                "{name}: host ports"
            );
            let hooks =
                (&container.lifecycle, &container.liveness_probe, &container.readiness_probe);
            assert_eq!(hooks, (&None, &None, &None), "{name}: hosts of probes");
        }
        assert_eq!(spec.automount_service_account_token, Some(false));
        assert_eq!(spec.enable_service_links, Some(false));
        assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
    }
}

#[test]
fn a_launcher_that_pushes_has_the_login_and_no_tool_has_it() {
    let WorkspaceSource::Git { url, reference, secret, .. } = session().workspace else { panic!() };
    let workspace = WorkspaceSource::Git { url, reference, secret, is_pushed: true };
    let spec = rendered(&SessionPod { workspace, ..session() }).1.spec.unwrap();
    for container in all_containers(&spec) {
        let variables = || container.env.iter().flatten();
        let names: Vec<_> = variables()
            .filter(|it| it.name.starts_with("AIFO_GIT_") || it.name == "AIFO_POD_PUSH")
            .map(|it| it.name.as_str())
            .collect();
        let expected: &[&str] = match container.name.as_str() {
            "aifo" => &["AIFO_POD_PUSH", "AIFO_GIT_USERNAME", "AIFO_GIT_PASSWORD"],
            "clone" => &["AIFO_GIT_USERNAME", "AIFO_GIT_PASSWORD"],
            _ => &[],
        };
        assert_eq!(names, expected, "{}", container.name);
        let is_plain = variables().any(|it| it.name == "AIFO_GIT_PASSWORD" && it.value.is_some());
        assert!(!is_plain, "{}", container.name);
    }
    for container in all_containers(&rendered(&session()).1.spec.unwrap()) {
        let mut variables = container.env.iter().flatten();
        assert!(variables.all(|it| it.name != "AIFO_POD_PUSH"), "{}", container.name);
    }
}

#[test]
fn only_the_launcher_has_keys_and_only_the_clone_the_login() {
    let spec = rendered(&session()).1.spec.unwrap();
    let secrets = |container: &Container| -> Vec<String> {
        let variables = container.env.iter().flatten();
        let sources = variables.filter_map(|variable| variable.value_from.as_ref());
        sources.map(|source| source.secret_key_ref.as_ref().unwrap().name.clone()).collect()
    };
    for container in all_containers(&spec) {
        let expected: &[&str] = match container.name.as_str() {
            "aifo" => &["aifo-keys"],
            "clone" => &["git-login", "git-login"],
            _ => &[],
        };
        assert_eq!(secrets(container), expected, "{}", container.name);
        assert_eq!(container.env_from, None);
    }
}

#[test]
fn each_side_has_only_its_own_sockets() {
    let spec = rendered(&session()).1.spec.unwrap();
    let mount = |container: &str, suffix: &str| {
        let container = spec.containers.iter().find(|it| it.name == container).unwrap();
        let volume = format!("aifo-0000000000000001-{suffix}");
        let mut mounts = container.volume_mounts.iter().flatten();
        mounts
            .find(|mount| mount.name == volume)
            .map(|mount| (mount.mount_path.clone(), mount.read_only == Some(true)))
    };
    for container in ["agent", "rust", "go"] {
        for other in ["agent", "rust", "go"] {
            let found = mount(container, &format!("back-{other}"));
            assert_eq!(found.is_some(), container == other, "{container} {other}");
            assert!(found.is_none_or(|(_, read_only)| read_only), "{container} {other}");
        }
        assert_eq!(mount(container, "bin"), Some(("/opt/aifo/bin".to_owned(), true)));
        assert_eq!(mount(container, "front").is_some(), container == "agent");
        assert_eq!(mount(container, "tmp-aifo"), None);
    }
    assert_eq!(mount("agent", "front"), Some(("/run/aifo".to_owned(), true)));
    assert_eq!(mount("aifo", "back-go"), Some(("/run/aifo-pod/back/go".to_owned(), false)));
    assert_eq!(mount("aifo", "workspace"), Some(("/workspace".to_owned(), true)));
}

/// A tool could replace what the agent programs map, execute or listen at.
#[test]
fn agent_and_tools_share_only_workspace_and_tmp() {
    let spec = rendered(&session()).1.spec.unwrap();
    let mut shared: BTreeMap<String, usize> = BTreeMap::new();
    for container in spec.containers.iter().filter(|it| it.name != "aifo") {
        let mounts = container.volume_mounts.iter().flatten();
        let writable = mounts.filter(|mount| !mount.read_only.unwrap_or_default());
        for mount in writable {
            *shared.entry(format!("{} {}", mount.name, mount.mount_path)).or_default() += 1;
        }
        let mounts = container.volume_mounts.iter().flatten();
        let paths: Vec<_> = mounts.map(|mount| mount.mount_path.as_str()).collect();
        for own in ["/dev/shm", "/home/coder", "/tmp/sockets"] {
            assert!(paths.contains(&own), "{}: {paths:?}", container.name);
        }
    }
    shared.retain(|_, containers| *containers > 1);
    let shared: Vec<_> = shared.into_keys().collect();
    let volume = |name: &str, path: &str| format!("aifo-0000000000000001-{name} {path}");
    assert_eq!(shared, [volume("tmp", "/tmp"), volume("workspace", "/workspace")]);
}

#[test]
fn arguments_reach_the_launcher_unchanged() {
    let spec = rendered(&session()).1.spec.unwrap();
    let launcher = spec.containers.iter().find(|it| it.name == "aifo").unwrap();
    let command = launcher.command.as_ref().unwrap();
    // Kubernetes replaces `$$` by `$`, and does not expand what follows.
    assert_eq!(command.last().unwrap(), "a: \"b\"\n$$(X)");
    assert_eq!((launcher.tty, launcher.stdin), (Some(true), Some(true)));
}

#[test]
fn agent_and_tools_do_not_find_the_api_server() {
    let spec = rendered(&session()).1.spec.unwrap();
    for container in spec.containers.iter().filter(|it| it.name != "aifo") {
        for name in ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"] {
            let found = container.env.iter().flatten().find(|it| it.name == name);
            assert_eq!(found.unwrap().value.as_deref(), Some(""), "{}: {name}", container.name);
        }
    }
}

#[test]
fn limits_are_those_of_every_container() {
    let spec =
        rendered(&SessionPod { workspace: WorkspaceSource::Upload, ..session() }).1.spec.unwrap();
    let quantity = |values: Option<&BTreeMap<String, Quantity>>, name: &str| {
        values.and_then(|values| values.get(name)).map(|it| it.0.clone())
    };
    for container in all_containers(&spec) {
        let (name, resources) = (&container.name, container.resources.as_ref().unwrap());
        let limit = |of: &str| quantity(resources.limits.as_ref(), of);
        assert_eq!(limit("cpu").as_deref(), Some("1500m"), "{name}");
        let memory = if name == "aifo" { "256Mi" } else { "1073741824" };
        assert_eq!(limit("memory").as_deref(), Some(memory), "{name}");
        let requested = quantity(resources.requests.as_ref(), "cpu");
        assert_eq!(requested.as_deref(), (name == "aifo").then_some("100m"), "{name}");
    }
}

#[test]
fn the_same_session_gives_the_same_short_text() {
    let text = session().render().unwrap();
    assert_eq!(text, session().render().unwrap());
    assert!(text.lines().count() < 300, "{} lines", text.lines().count());
    assert!(text.contains("# WARNING: two lines\n"), "{text}");
}

#[test]
fn a_session_that_is_no_pod_is_rejected() {
    let error = |session: SessionPod| session.render().unwrap_err().to_string();
    assert!(error(SessionPod { user: 0, ..session() }).contains("root"));
    let kind = |name: &str| {
        let kind = Kind::parse(name).unwrap();
        let kinds = vec![KindContainer { kind, ..session().kinds[0].clone() }];
        SessionPod { kinds, ..session() }
    };
    assert!(error(kind("aifo")).contains("'aifo' cannot be the name of a container"));
    let workspace = WorkspaceSource::Git {
        url: "--upload-pack=x".to_owned(),
        reference: None,
        secret: None,
        is_pushed: false,
    };
    assert!(error(SessionPod { workspace, ..session() }).contains("--upload-pack"));
}
