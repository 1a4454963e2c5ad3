//! `aifo-coder doctor` checks the machine, suggests fixes, and leaves nothing.

use std::fs;

use aifo_tests::{Outcome, SessionSetup, Tool, files_below};
use serde_json::Value;

/// A machine with the tools that doctor measures with.
fn setup() -> SessionSetup {
    let tools = ["true", "readlink", "touch", "cat"];
    tools.into_iter().fold(SessionSetup::new(), |setup, name| {
        setup.tool(name, Tool::Link(format!("/usr/bin/{name}").into()))
    })
}

#[track_caller]
fn findings(outcome: &Outcome) -> Vec<Value> {
    let found: Value =
        serde_json::from_str(&outcome.text()).unwrap_or_else(|_| panic!("{outcome:?}"));
    found.as_array().expect("a list").clone()
}

#[track_caller]
fn finding<'a>(findings: &'a [Value], check: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no '{check}' in {findings:?}"))
}

#[test]
fn local_sidecars_are_tried_and_nothing_is_left() {
    let setup = setup();
    let doctor = |more: &[&str]| {
        let mut doctor = setup.coder();
        Outcome::of(doctor.args(["doctor", "--backend=local", "--toolchain=rust"]).args(more))
    };
    let text = doctor(&[]).exited(0).text();
    for line in [
        "ok    config: toolchains of a session here: rust\n",
        "ok    killed sessions: none\n",
        "ok    local descriptors: tools write to the caller's pipe directly\n",
        "ok    local files: files that tools create in the workspace are yours\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let begins = |line: &&str| {
        ["ok    ", "warn  ", "fail  ", "      fix: "].iter().any(|word| line.starts_with(word))
    };
    assert!(text.lines().all(|line| begins(&line)), "{text}");

    let found = findings(doctor(&["--json"]).exited(0));
    let call = finding(&found, "local call");
    assert!(call["finding"].as_str().unwrap().contains(" x native"), "{call}");
    for finding in &found {
        let status = finding["status"].as_str().unwrap();
        assert_eq!(finding["fix"].is_null(), status == "ok", "{finding}");
    }

    for place in [setup.workspace(), setup.runtime(), setup.scratch().join("home")] {
        assert_eq!(files_below(&place), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn without_a_project_the_machine_is_measured() {
    let setup = setup();
    let home = setup.scratch().join("home");
    let doctor = |more: &[&str]| {
        let mut doctor = setup.coder();
        doctor.current_dir(&home).args(["doctor", "--backend=local", "--json"]).args(more);
        Outcome::of(&mut doctor)
    };
    let found = findings(doctor(&[]).exited(0));
    let workspace = finding(&found, "workspace");
    assert_eq!(workspace["status"], "warn", "{workspace}");
    assert!(workspace["finding"].as_str().unwrap().contains("your home directory"), "{workspace}");
    assert_eq!(finding(&found, "local files")["status"], "ok");
    assert!(!found.iter().any(|finding| finding["check"] == "config"), "{found:?}");
    assert_eq!(files_below(&setup.runtime()), Vec::<std::path::PathBuf>::new());
    // A named workspace must be usable.
    let found = findings(doctor(&["--workspace", home.to_str().unwrap()]).exited(1));
    assert_eq!(finding(&found, "workspace")["status"], "fail");
}

#[test]
fn failures_are_reported_with_a_remedy() {
    let setup = setup().env("AIFO_SHIM_BIN", "/nonexistent/aifo-shim");
    fs::write(setup.workspace().join(".aifo.toml"), "verbose = true\n").unwrap();
    let outcome = Outcome::of(setup.coder().args(["doctor", "--backend=podman", "--json"]));
    let found = findings(outcome.exited(1));
    for (check, part) in [("versions", "aifo-shim was not found"), ("config", ".aifo.toml:1")] {
        let finding = finding(&found, check);
        assert_eq!(finding["status"], "fail", "{finding}");
        assert!(finding["finding"].as_str().unwrap().contains(part), "{finding}");
        assert!(finding["fix"].is_string(), "{finding}");
    }
}

#[test]
fn an_engine_that_was_asked_for_and_is_not_there_is_a_failure() {
    let setup = setup();
    let mut doctor = setup.coder();
    let doctor = doctor.args(["doctor", "--toolchain=rust", "--backend=podman", "--json"]);
    let found = findings(Outcome::of(doctor).exited(1));
    assert_eq!(finding(&found, "podman")["finding"], "not found in PATH");
    let outcome = Outcome::of(setup.coder().args(["doctor", "--backend=lxc"]));
    outcome.exited(2);
}

#[test]
fn an_engine_that_does_not_answer_is_a_failure_with_its_words() {
    let setup = setup().script("docker", "echo 'Cannot connect to the daemon' >&2; exit 1");
    let mut doctor = setup.coder();
    let found = findings(
        Outcome::of(doctor.args(["doctor", "--toolchain=rust", "--backend=auto", "--json"]))
            .exited(1),
    );
    let docker = finding(&found, "docker");
    assert_eq!(docker["status"], "fail");
    assert!(
        docker["finding"].as_str().unwrap().contains("Cannot connect to the daemon"),
        "{docker}"
    );
    assert_eq!(finding(&found, "local descriptors")["status"], "ok", "the others go on");
}

#[test]
fn a_dead_engine_is_named_before_the_missing_images_of_another() {
    let info = r#"{"host":{"distribution":{"distribution":"debian"},"kernel":"6","cgroupVersion":"v2",
        "memTotal":1,"security":{"apparmorEnabled":false,"rootless":true,"seccompEnabled":true,
        "selinuxEnabled":false},"ociRuntime":{"name":"runc","version":"runc version 1.1.5"}},
        "version":{"Version":"5"}}"#;
    let setup = setup()
        .script("docker", "echo 'Cannot connect to the daemon' >&2; exit 1")
        .script("podman", &format!("[ \"$1\" = info ] || exit 1; echo '{info}'"));
    let mut run = setup.coder();
    run.args(["run", "--backend=auto", "--toolchain=rust", "codex"]);
    let stderr = Outcome::of(&mut run).exited(86).stderr.clone();
    let cause =
        "aifo-coder: docker does not answer: Cannot connect to the daemon; podman has no image";
    assert!(stderr.starts_with(cause), "{stderr}");

    let mut doctor = setup.coder();
    doctor.args(["doctor", "--toolchain=rust", "--backend=auto", "--json"]);
    let certificates = tempfile::NamedTempFile::new().unwrap();
    doctor.env("SSL_CERT_FILE", certificates.path());
    let found = findings(Outcome::of(&mut doctor).exited(1));
    for (check, text) in [("podman runc", "CVE-2024-21626"), ("certificates", "SSL_CERT_FILE")] {
        let found = finding(&found, check);
        assert_eq!(found["status"], "warn", "{found}");
        assert!(found["finding"].as_str().unwrap().contains(text), "{found}");
    }
}
