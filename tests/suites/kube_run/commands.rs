//! Commands on sessions in a pod (`spec/kubernetes.md#commands`).

use std::fs;

use aifo_tests::{Outcome, Terminal, eventually};

use super::Cluster;

impl Cluster {
    /// The sessions whose cluster this machine has recorded.
    fn recorded(&self) -> usize {
        let state = self.setup.scratch().join("home/.local/state/aifo/pods");
        let entries = fs::read_dir(state).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().join("cluster.json").exists()).count()
    }
}

#[test]
fn a_session_is_found_in_the_cluster_that_it_was_started_in() {
    let cluster = Cluster::with_agent("echo begin; read -r word; exit 3");
    let mut run = cluster.run(&["--detach", "--context", "c", "--namespace", "n"]);
    let id = Outcome::of(&mut run).exited(0).text();
    let id = &id[..8];
    assert_eq!(cluster.recorded(), 1);
    eventually("the session runs", || {
        Outcome::of(&mut cluster.coder(&["log", id])).code() == Some(0)
    });
    let detached = Outcome::of(&mut cluster.coder(&["detach", id]));
    let expected = format!("attach --backend kubernetes --context c --namespace n {id}");
    assert!(detached.exited(0).stderr.contains(&expected), "{}", detached.stderr);
    let refused = Outcome::of(&mut cluster.coder(&["exec", "--session", id, "--", "nothing"]));
    assert!(refused.stderr.contains("tool 'nothing' is not allowed"), "{}", refused.stderr);
    let kept = Outcome::of(&mut cluster.coder(&["cleanup", id]));
    assert!(kept.exited(0).stderr.contains("is running"), "{}", kept.stderr);
    let terminal = Terminal::sized(80, 24);
    let attach = terminal.start(&cluster.coder(&["attach", id]));
    terminal.expect("begin");
    terminal.press("x\r");
    assert_eq!(attach.finish(), Ok(3), "{}", terminal.shown());
    let calls = cluster.read("calls");
    let mut with_target = calls.lines().filter(|call| !call.starts_with("version"));
    assert!(with_target.all(|call| call.starts_with("--context=c --namespace=n ")), "{calls}");
    assert_eq!(cluster.recorded(), 0, "the pod is deleted");
    let unknown = Outcome::of(&mut cluster.coder(&["log", id]));
    let hint = "hint: for a session in a cluster add --backend kubernetes";
    assert!(unknown.exited(1).stderr.contains(hint), "{}", unknown.stderr);
}

#[test]
fn a_record_has_the_current_cluster_and_is_removed_when_the_pod_is_gone() {
    let cluster = Cluster::with_agent("exec sleep 600");
    cluster.put("context", "ctx");
    cluster.put("namespace", "team");
    let id = Outcome::of(&mut cluster.run(&["--detach"])).exited(0).text();
    assert_eq!(cluster.recorded(), 1);
    cluster.put("context", "other");
    cluster.put("namespace", "");
    cluster.put("calls", "");
    let running = Outcome::of(&mut cluster.coder(&["cleanup", &id[..8]]));
    assert!(running.exited(0).stderr.contains("is running"), "{}", running.stderr);
    let calls = cluster.read("calls");
    assert!(calls.contains("--context=ctx --namespace=team "), "{calls}");
    fs::rename(cluster.directory.join("manifests"), cluster.directory.join("gone")).unwrap();
    let missing = Outcome::of(&mut cluster.coder(&["log", &id[..8]]));
    assert!(missing.exited(1).stderr.contains("no session in the cluster"), "{}", missing.stderr);
    assert_eq!(cluster.recorded(), 0);
}

#[test]
fn a_pod_with_unfetched_work_is_kept_and_the_fetch_is_named() {
    let cluster = Cluster::with_agent("echo made > made; exit 6");
    cluster.put("no-changes", "error: unable to upgrade connection: broken pipe");
    let terminal = Terminal::sized(160, 24);
    let run = terminal.start(&cluster.run_in(&[]));
    assert_eq!(run.finish(), Ok(6), "{}", terminal.shown());
    eventually("the pod waits", || cluster.directory.join("tmp/aifo-ended").exists());
    let manifests = cluster.read("manifests");
    let id = manifests.lines().find_map(|line| line.strip_prefix("  name: aifo-")).unwrap();
    let fetch = format!("aifo-coder kube fetch --backend kubernetes {}", &id[..8]);
    let id = &id[..8];

    let again = Terminal::sized(160, 24);
    let attach = again.start(&cluster.coder(&["attach", id]));
    assert_eq!(attach.finish(), Ok(1), "{}", again.shown());
    again.expect(&format!("get its work with: {fetch}"));
    let all = Outcome::of(&mut cluster.on_pods(&["cleanup"]));
    assert!(all.exited(0).stderr.contains("waits: the agent has ended"), "{}", all.stderr);
    let one = Outcome::of(&mut cluster.coder(&["cleanup", id]));
    assert!(one.exited(1).stderr.contains(&fetch), "{}", one.stderr);
    assert!(one.stderr.contains("kubectl delete pod aifo-"), "{}", one.stderr);
    assert_eq!(cluster.read("deleted"), "");

    fs::remove_file(cluster.directory.join("no-changes")).unwrap();
    Outcome::of(&mut cluster.coder(&["kube", "fetch", id])).exited(0);
    let made = fs::read_to_string(cluster.setup.workspace().join("made")).unwrap();
    assert_eq!((made.as_str(), cluster.recorded()), ("made\n", 0));
    assert!(!cluster.read("deleted").is_empty());
}

#[test]
fn a_call_that_waits_names_the_command_that_answers_from_the_users_machine() {
    let cluster = Cluster::with_agent("git version >version && echo made || echo denied");
    cluster.configure("[[rule]]\nrun = \"git version\"\nthen = \"ask\"\nbecause = \"shared\"\n");
    let terminal = Terminal::sized(200, 24);
    let flags = ["--context", "c", "--namespace", "n"];
    let run = terminal.start(&cluster.run(&flags));
    let line = "answer with: aifo-coder approve --backend kubernetes --context c --namespace n ";
    terminal.expect(line);
    let shown = terminal.shown();
    let command = shown.split("answer with: aifo-coder ").nth(1).unwrap();
    let words: Vec<&str> = command.split_whitespace().take(8).collect();
    let answered =
        Outcome::of(&mut cluster.coder(&[&words[..], &["--answer", "q1", "once"]].concat()));
    answered.exited(0);
    terminal.expect("made");
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
    let calls = cluster.read("calls");
    assert!(calls.contains("--context=c --namespace=n exec "), "{calls}");
    assert!(
        !terminal.shown().contains("aifo-coder log"),
        "the pod is deleted: {}",
        terminal.shown()
    );
}

#[test]
fn why_explains_a_call_in_the_pod_and_other_commands_name_the_remedy() {
    let cluster = Cluster::with_agent("exec sleep 600");
    let mut run = cluster.run_in(&["--detach", "--namespace", "n"]);
    let id = Outcome::of(&mut run).exited(0).text();
    let (name, id) = (format!("aifo-{}", id.trim_end()), &id[..8]);
    for line in
        [&["why", "--session", id][..], &["why", "--backend", "kubernetes", "--namespace=n"]]
    {
        let line = [line, &["git", "version"]].concat();
        let explained = Outcome::of(&mut cluster.coder(&line)).exited(0).text();
        assert!(
            explained.contains("git version") && explained.contains("cluster/files"),
            "{explained}"
        );
    }
    let calls = cluster.read("calls");
    let call = "aifo-coder _command why --workspace /workspace --cwd /workspace -- git version";
    assert_eq!(calls.lines().filter(|line| line.ends_with(call)).count(), 2, "{calls}");
    for (line, remedy) in [
        (&["net", id][..], format!("kubectl --namespace=n describe networkpolicy {name}")),
        (
            &["publish", "--session", id, "3000"],
            format!("kubectl --namespace=n port-forward {name} PORT"),
        ),
    ] {
        let refused = Outcome::of(&mut cluster.coder(line));
        assert!(refused.exited(1).stderr.contains(&remedy), "{}", refused.stderr);
    }
}

#[test]
fn preferences_of_kubectl_have_no_effect_but_for_rules_on_plugins() {
    let cluster = Cluster::new();
    let home = cluster.setup.scratch().join("home/.kube");
    fs::create_dir_all(&home).unwrap();
    let preferences = r#"{"kind":"Preference","apiVersion":"kubectl.config.k8s.io/v1beta1",
        "defaults":[{"command":"delete","options":[{"name":"interactive","default":"true"}]}]}"#;
    fs::write(home.join("kuberc"), preferences).unwrap();
    cluster.put("version", "v1.36.4");
    let sessions = || Outcome::of(&mut cluster.on_pods(&["sessions"]));
    sessions().exited(0);
    assert_eq!(cluster.read("preferences"), "");

    let rules = preferences.replacen('{', r#"{"credentialPluginPolicy":"DenyAll","#, 1);
    fs::write(home.join("kuberc"), &rules).unwrap();
    cluster.put("kuberc", &rules);
    sessions().exited(0);
    let kept = cluster.read("preferences");
    assert!(kept.contains(r#""credentialPluginPolicy":"DenyAll""#), "{kept}");
    assert!(!kept.contains("defaults"), "{kept}");

    cluster.put("kuberc", "");
    let refused = sessions();
    let stderr = &refused.stderr;
    assert!(refused.code() != Some(0) && stderr.contains("hint: correct the file"), "{stderr}");
    fs::remove_file(cluster.directory.join("preferences")).unwrap();
    cluster.put("version", "v1.30.0");
    sessions().exited(0);
    assert_eq!(cluster.read("preferences"), "", "an older one has no such rules");
}

#[test]
fn an_end_that_kubectl_takes_for_a_success_is_a_lost_connection() {
    let cluster = Cluster::with_agent("exec sleep 600");
    let id = Outcome::of(&mut cluster.run(&["--detach"])).exited(0).text();
    let log = || Outcome::of(&mut cluster.coder(&["log", &id[..8]]));
    eventually("the session runs", || log().code() == Some(0));
    assert!(!log().stderr.contains("command terminated"), "kubectl's line is not shown");
    cluster.put("lost-connection", "");
    let lost = log();
    let expected = "the connection ended before the command";
    assert!(lost.exited(1).stderr.contains(expected), "{}", lost.stderr);
}
