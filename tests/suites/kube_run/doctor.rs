//! `aifo-coder doctor --backend kubernetes` (`spec/cli.md#doctor`).
//!
//! Proves `spec/cli.md#doctor-of-a-cluster`.

use std::fs;

use aifo_tests::{Outcome, write_executable};
use serde_json::Value;

use super::Cluster;

/// A finding: status, text and fix.
type Found = (String, String, String);

impl Cluster {
    fn doctor(&self, code: i32, flags: &[&str]) -> Vec<Value> {
        let doctor = ["doctor", "--backend=kubernetes", "--toolchain=rust", "--json"];
        let outcome = Outcome::of(&mut self.coder(&[&doctor, flags].concat()));
        assert_eq!(outcome.code(), Some(code), "{outcome:?}");
        let found: Value = serde_json::from_str(&outcome.text()).expect("JSON");
        found.as_array().expect("a list").clone()
    }
}

fn text_of(finding: &Value, field: &str) -> String {
    finding[field].as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn found(findings: &[Value], check: &str) -> Found {
    let finding = findings.iter().find(|finding| finding["check"] == check);
    let finding = finding.unwrap_or_else(|| panic!("no '{check}' in {findings:?}"));
    (text_of(finding, "status"), text_of(finding, "finding"), text_of(finding, "fix"))
}

fn has(findings: &[Value], check: &str) -> bool {
    findings.iter().any(|finding| finding["check"] == check)
}

#[test]
fn a_cluster_with_all_objects_is_ok() {
    let cluster = Cluster::new();
    cluster.put("context", "dev");
    cluster.put("secret-aifo-keys", "OPENAI_API_KEY ");
    cluster.put("secret-login", "kubernetes.io/dockerconfigjson");
    cluster.configure(
        "[containers]\nimage_prefix = \"registry.example/team/\"\n[kubernetes]\npull_secrets = [\"login\"]\n",
    );
    let findings = cluster.doctor(0, &["--context", "c", "--namespace", "team"]);
    let kubectl = format!("v1.30.0, {}/kubectl", cluster.directory.display());
    for (check, text) in [
        ("kubectl", kubectl.as_str()),
        ("context", "dev, https://10.0.0.1:6443"),
        ("cluster", "Kubernetes v1.31.2"),
        ("cluster namespace", "team, Pod Security restricted"),
        ("rights", "all 18 that sessions need"),
        ("model keys", "secret 'aifo-keys' has OPENAI_API_KEY"),
        ("pull secrets", "login"),
        ("launcher image", "registry.example/team/aifo-launcher:latest"),
    ] {
        assert_eq!(found(&findings, check), ("ok".to_owned(), text.to_owned(), String::new()));
    }
    assert!(!has(&findings, "local call"), "no session of this machine is tried");
    let calls = cluster.read("calls");
    for call in calls.lines().filter(|call| !call.starts_with("version")) {
        let target = "--context=c --namespace=team --request-timeout=20s ";
        assert!(call.starts_with(target), "{call}");
    }
    // Neither a value of a secret nor a change of the cluster is requested.
    for part in [
        " auth can-i create pods --subresource=exec\n",
        " auth can-i list networkpolicies.networking.k8s.io\n",
        " get secret aifo-keys --output=go-template={{range $key, $value := .data}}{{$key}} {{end}}\n",
    ] {
        assert!(calls.contains(part), "{part}: {calls}");
    }
    assert!(!calls.contains("20s create ") && !calls.contains("20s delete "), "{calls}");
}

#[test]
fn a_kubectl_that_cannot_be_used_is_a_failure() {
    let cluster = Cluster::new();
    cluster.put("version", "v1.19.3");
    let (status, text, fix) = found(&cluster.doctor(1, &[]), "kubectl");
    assert_eq!((status.as_str(), fix.as_str()), ("fail", "install a newer kubectl"));
    assert_eq!(text, "kubectl is v1.19.3, but 1.20 or later is needed");
    // Only the one of the cluster is in this PATH.
    fs::remove_file(cluster.directory.join("kubectl")).unwrap();
    let doctor = ["doctor", "--backend=kubernetes", "--toolchain=rust"];
    let mut missing = cluster.coder(&doctor);
    let outcome = Outcome::of(missing.env("PATH", &cluster.directory));
    let text = outcome.exited(1).text();
    assert!(text.contains("fail  kubectl: kubectl is not installed\n      fix: install"), "{text}");
    assert!(!text.contains("rights:"), "{text}");
    write_executable(cluster.directory.join("kubectl"), "#!/bin/sh\necho none\n", 0o777);
    let outcome = Outcome::of(missing.env("PATH", &cluster.directory));
    let text = outcome.exited(1).text();
    assert!(text.contains("is not a trusted program"), "{text}");
}

#[test]
fn missing_rights_are_named_with_the_role_that_has_them() {
    let cluster = Cluster::new();
    cluster.put("secret-aifo-keys", "OPENAI_API_KEY ");
    cluster.put("namespace", "of-context");
    cluster.put("denied-rights", "list events\nget pods --subresource=log\n");
    let (status, text, fix) = found(&cluster.doctor(0, &[]), "rights");
    assert_eq!(status, "warn");
    assert_eq!(text, "missing, for reports and cleanup: get pods/log, list events");
    assert!(fix.contains("aifo-coder kube rbac --namespace of-context --user USER | "), "{fix}");
    cluster.put("denied-rights", "create pods --subresource=exec\nlist events\n");
    let (status, text, _) = found(&cluster.doctor(1, &[]), "rights");
    assert_eq!(
        (status.as_str(), text.as_str()),
        ("fail", "missing: create pods/exec, list events")
    );

    // A role of `kube rbac` reads neither namespaces nor secrets.
    fs::remove_file(cluster.directory.join("denied-rights")).unwrap();
    cluster
        .put("refusal", "Error from server (Forbidden): x is forbidden: User \"u\" cannot get it");
    let findings = cluster.doctor(0, &[]);
    for check in ["cluster namespace", "model keys"] {
        let (status, text, _) = found(&findings, check);
        assert!(status == "ok" && text.contains("your role cannot read"), "{text}");
    }
}

#[test]
fn missing_objects_are_warnings_with_the_command_that_creates_them() {
    let cluster = Cluster::new();
    cluster.configure("[kubernetes]\npull_secrets = [\"login\", \"other\"]\n");
    cluster.put("secret-login", "Opaque");
    let findings = cluster.doctor(0, &["--namespace", "team"]);
    let (status, text, fix) = found(&findings, "model keys");
    assert_eq!(status, "warn");
    assert_eq!(text, "secret 'aifo-keys' does not exist, so agents have no model");
    assert!(fix.starts_with("kubectl create secret generic aifo-keys --namespace team "), "{fix}");
    let pull: Vec<String> = findings
        .iter()
        .filter(|finding| finding["check"] == "pull secrets")
        .map(|finding| text_of(finding, "finding"))
        .collect();
    let expected =
        ["'login' has no login of a registry, its type is 'Opaque'", "'other' does not exist"];
    assert_eq!(pull, expected);
    let (status, text, fix) = found(&findings, "launcher image");
    assert_eq!(status, "warn");
    assert!(text.starts_with("'aifo-launcher:latest' has no registry"), "{text}");
    assert!(fix.contains("aifo-coder images push REGISTRY/PREFIX launcher"), "{fix}");
}

#[test]
fn a_server_that_does_not_answer_ends_the_checks() {
    let cluster = Cluster::new();
    cluster.put("away", "");
    let findings = cluster.doctor(1, &[]);
    let (status, text, fix) = found(&findings, "cluster");
    assert_eq!(status, "fail");
    assert!(text.starts_with("the cluster's API server does not answer: "), "{text}");
    assert_eq!(fix, "check the connection to the cluster: kubectl cluster-info");
    assert!(!has(&findings, "rights") && !has(&findings, "cluster namespace"), "{findings:?}");
    let local = Outcome::of(&mut cluster.coder(&["doctor", "--backend=local", "--context=c"]));
    let error = &local.exited(2).stderr;
    assert!(error.contains("--context is for sessions in a cluster"), "{error}");
}
