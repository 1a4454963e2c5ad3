//! `run --backend kubernetes` and the commands on its sessions (`spec/kubernetes.md#run`), with a script in
//! place of kubectl. Its pod is the real first process of a pod, on this machine.
//!
//! Proves `spec/kubernetes.md#the-terminal`, `spec/kubernetes.md#names`.

mod acp;
mod commands;
mod doctor;
mod result;
mod upload;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aifo_tests::{
    Outcome, SessionSetup, Signal, Terminal, argv, binaries, environment, eventually, send_signal,
    write_executable,
};

const LEAVE: &str = "\x1c\x04";

/// A cluster of one pod.
struct Cluster {
    setup: SessionSetup,
    directory: PathBuf,
}

impl Cluster {
    /// Writes the user's configuration.
    fn configure(&self, text: &str) {
        let directory = self.setup.scratch().join("home/.config/aifo");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.toml"), text).unwrap();
    }

    fn new() -> Self {
        let setup = SessionSetup::new();
        let directory = setup.scratch().join("cluster");
        fs::create_dir(&directory).unwrap();
        let cluster = Cluster { setup, directory };
        let script = include_str!("kube_run/kubectl.sh");
        write_executable(cluster.directory.join("kubectl"), script, 0o755);
        cluster
    }

    /// A cluster whose agent is this script.
    fn with_agent(script: &str) -> Self {
        let cluster = Cluster::new();
        cluster.put("script", script);
        cluster
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.directory.join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.join(name)).unwrap_or_default()
    }

    fn coder(&self, args: &[&str]) -> Command {
        let mut coder = self.setup.coder();
        let path = std::env::var("PATH").unwrap();
        coder.env("PATH", format!("{}:{path}", self.directory.display()));
        coder.env("AIFO_CODER_CLUSTER", &self.directory);
        coder.env("AIFO_CODER", &binaries().coder).env("TERM", "xterm-256color").args(args);
        coder
    }

    fn run(&self, flags: &[&str]) -> Command {
        self.run_in(&[&["--pvc", "project"], flags].concat())
    }

    /// A session with a workspace by these flags.
    fn run_in(&self, flags: &[&str]) -> Command {
        let run = ["run", "--backend", "kubernetes", "--image", "i"];
        self.coder(&[&run, flags, &["--", "sh"]].concat())
    }

    fn on_pods(&self, command: &[&str]) -> Command {
        self.coder(&[command, &["--backend", "kubernetes"]].concat())
    }

    /// The processes of its pod and its clients with this argument.
    fn processes(&self, word: &str) -> Vec<i32> {
        let variable = format!("AIFO_CODER_CLUSTER={}", self.directory.display());
        let all = fs::read_dir("/proc").unwrap().flatten();
        let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|pid| argv(*pid).iter().any(|it| it == word))
            .filter(|pid| environment(*pid).contains(&variable))
            .collect()
    }

    /// The file with an end that no client has read.
    fn has_unread_end(&self) -> bool {
        let mut entries = fs::read_dir(self.setup.runtime()).unwrap().flatten();
        entries.any(|entry| entry.path().join("ended").exists())
    }

    /// Runs it to its end, which deletes what it has created.
    fn refused(&self, flags: &[&str]) -> String {
        let outcome = Outcome::of(&mut self.run(&[&["--detach"], flags].concat()));
        assert!(outcome.code().is_some_and(|code| code != 0), "{}", outcome.stderr);
        assert_eq!(outcome.text(), "");
        outcome.stderr.clone()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A pod whose files are not uploaded yet.
        let _ = fs::remove_file(self.directory.join("manifests"));
        // After the first TERM it may wait for a client.
        for signal in std::iter::repeat_n(Signal::SIGTERM, 200).chain([Signal::SIGKILL]) {
            let processes = self.processes("_pod");
            if processes.is_empty() {
                return;
            }
            processes.into_iter().for_each(|pid| send_signal(pid, signal));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn the_exit_code_is_the_agents_and_the_pod_is_deleted() {
    let cluster = Cluster::with_agent("echo from the pod; read -r word; echo got $word; exit 7");
    let terminal = Terminal::sized(80, 24);
    let run = terminal.start(&cluster.run(&["--context", "c", "--namespace", "n"]));
    terminal.expect("from the pod");
    terminal.press("word\r");
    assert_eq!(run.finish(), Ok(7), "{}", terminal.shown());
    terminal.expect("got word");
    let calls = cluster.read("calls");
    let with_target = calls.lines().filter(|call| !call.starts_with("version"));
    for call in with_target {
        assert!(call.starts_with("--context=c --namespace=n "), "{call}");
    }
    let deleted = cluster.read("deleted");
    assert!(
        deleted.contains(" delete pod,networkpolicy --selector=dev.aifo.session="),
        "{deleted}"
    );
    assert_eq!(cluster.read("log"), "", "nothing of the screen is in the pod's log");
}

#[test]
fn the_pod_owns_its_network_policy_and_warnings_of_the_cluster_are_shown() {
    let cluster = Cluster::with_agent("exec sleep 600");
    cluster.put("warning", "would violate PodSecurity");
    let outcome = Outcome::of(&mut cluster.run(&["--detach"]));
    let id = outcome.exited(0).text();
    let warned = "the cluster warns: would violate PodSecurity\n";
    assert!(outcome.stderr.contains(warned), "{}", outcome.stderr);
    let calls = cluster.read("calls");
    let patch = calls.lines().find(|call| call.contains(" patch ")).expect(&calls);
    let name = format!(" patch networkpolicy aifo-{} --type=merge ", id.trim_end());
    let owner = format!(r#""kind":"Pod","name":"aifo-{}","uid":"uid-2""#, id.trim_end());
    assert!(patch.contains(&name) && patch.contains(&owner), "{patch}");
    let begins = |word: &str| calls.lines().position(|call| call.contains(word));
    assert!(begins(" create --filename") < begins(" patch "), "{calls}");
}

#[test]
fn a_session_is_left_listed_and_shown_again() {
    let cluster = Cluster::with_agent("echo begin; read -r word; echo got $word; exit 3");
    let first = Terminal::sized(80, 24);
    let run = first.start(&cluster.run(&[]));
    first.expect("begin");
    first.press(LEAVE);
    assert_eq!(run.finish(), Ok(0), "{}", first.shown());
    first.expect("return with: aifo-coder attach --backend kubernetes ");
    let listed = Outcome::of(&mut cluster.on_pods(&["sessions"])).exited(0).text();
    assert!(listed.contains(" sh ") && listed.trim_end().ends_with("node1  runs"), "{listed}");
    let listed = Outcome::of(&mut cluster.on_pods(&["sessions", "--json"])).exited(0).text();
    assert!(listed.contains("\"state\": \"runs\""), "{listed}");
    let cleaned = Outcome::of(&mut cluster.on_pods(&["cleanup"]));
    cleaned.exited(0);
    assert!(cleaned.stderr.contains("no ended sessions"), "{}", cleaned.stderr);

    let (one, other) = (Terminal::sized(80, 24), Terminal::sized(80, 24));
    let first = one.start(&cluster.on_pods(&["attach"]));
    one.expect("begin");
    let second = other.start(&cluster.on_pods(&["attach"]));
    other.expect("begin");
    let detached = Outcome::of(&mut cluster.on_pods(&["detach"]));
    detached.exited(0);
    assert!(detached.stderr.contains("attach --backend kubernetes "), "{}", detached.stderr);
    for (client, terminal) in [(first, &one), (second, &other)] {
        assert_eq!(client.finish(), Ok(0), "{}", terminal.shown());
        terminal.expect("was detached");
    }
    let last = Terminal::sized(80, 24);
    let attach = last.start(&cluster.on_pods(&["attach"]));
    last.expect("begin");
    last.press("x\r");
    assert_eq!(attach.finish(), Ok(3), "{}", last.shown());
    assert!(!cluster.read("deleted").is_empty());
}

#[test]
fn an_end_without_a_client_waits_for_one() {
    let cluster = Cluster::with_agent("echo the end; exit 5");
    let id = Outcome::of(&mut cluster.run(&["--detach"])).exited(0).text();
    assert_eq!(id.trim_end().len(), 16, "{id}");
    eventually("the agent has ended", || cluster.has_unread_end());
    assert_eq!(cluster.read("code"), "", "its container waits");
    let terminal = Terminal::sized(80, 24);
    let attach = terminal.start(&cluster.on_pods(&["attach", &id[..8]]));
    assert_eq!(attach.finish(), Ok(5), "{}", terminal.shown());
    terminal.expect("the end");
    eventually("its container ends with the agent's code", || cluster.read("code") == "5\n");
    assert!(!cluster.read("deleted").is_empty());
}

/// The relay of a client, whose kubectl is killed, and an API server that is away for a while.
#[test]
fn a_lost_connection_is_made_again() {
    let cluster = Cluster::with_agent("echo begin; read -r word; echo got $word");
    let terminal = Terminal::sized(80, 24);
    let run = terminal.start(&cluster.run(&[]));
    terminal.expect("begin");
    cluster.put("away", "");
    let relay = || cluster.processes("_relay").first().copied();
    send_signal(relay().unwrap(), Signal::SIGKILL);
    terminal.expect("API server does not answer, trying for 60 s");
    fs::remove_file(cluster.directory.join("away")).unwrap();
    eventually("the client has connected", || relay().is_some());
    terminal.press("again\r");
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
    terminal.expect("got again");
}

#[test]
fn commands_run_in_the_pod() {
    let cluster = Cluster::with_agent("echo begin; read -r word");
    Outcome::of(&mut cluster.run(&["--detach"])).exited(0);
    eventually("the session runs", || {
        Outcome::of(&mut cluster.on_pods(&["log"])).code() == Some(0)
    });
    let log = Outcome::of(&mut cluster.on_pods(&["log", "--failed"]));
    log.exited(0);
    assert!(log.stderr.contains("has no failed calls"), "{}", log.stderr);
    let unknown = Outcome::of(&mut cluster.on_pods(&["log", "ffff"]));
    unknown.exited(1);
    assert!(unknown.stderr.contains("no session in the cluster 'ffff'"), "{}", unknown.stderr);
    let mut exec = cluster.coder(&["exec", "--backend", "kubernetes", "true"]);
    let missing = Outcome::of(&mut exec);
    missing.exited(2);
    assert!(
        missing.stderr.contains("hint: aifo-coder exec --backend kubernetes --session ID true")
    );
    // The code of the command in the pod, without the line of kubectl.
    let denied = ["exec", "--backend", "kubernetes", "--session", "", "no-such-tool"];
    let denied = Outcome::of(&mut cluster.coder(&denied));
    denied.exited(3);
    assert!(!denied.stderr.contains("command terminated"), "{}", denied.stderr);
    let answer = Outcome::of(&mut cluster.on_pods(&["approve", "--answer", "q1", "once"]));
    assert_eq!(answer.code(), Some(3));
    let terminal = Terminal::sized(80, 24);
    let attach = terminal.start(&cluster.on_pods(&["attach"]));
    terminal.expect("begin");
    terminal.press("\r");
    assert_eq!(attach.finish(), Ok(0));
}

#[test]
fn a_refusal_of_the_cluster_is_reported_and_leaves_nothing() {
    let quota = "Error from server (Forbidden): error when creating \"STDIN\": pods \"p\" is forbidden: \
                 exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1";
    for (refusal, parts) in [
        (quota, ["the quota of the namespace is exceeded", "hint: end other sessions"]),
        (
            "Error from server (Forbidden): pods is forbidden: User \"u\" cannot create resource",
            ["your role in the cluster does not permit it", "hint: print the role"],
        ),
        (
            "error: You must be logged in to the server (Unauthorized)",
            ["the cluster does not accept your login", "hint: log in"],
        ),
        (
            "error: context \"c\" does not exist",
            ["kubectl has no such cluster", "kubectl config get-contexts"],
        ),
        (
            "The Pod \"p\" is invalid: spec.x: Required value",
            ["the cluster rejects the manifest", "spec.x"],
        ),
    ] {
        let cluster = Cluster::new();
        cluster.put("refusal", refusal);
        let error = cluster.refused(&[]);
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!cluster.read("calls").contains("create --filename"), "nothing is created");
    }
    let old = Cluster::new();
    old.put("version", "v1.19.3");
    assert!(old.refused(&[]).contains("kubectl is v1.19.3, but 1.20 or later is needed"));
}

#[test]
fn a_pod_that_cannot_start_is_deleted() {
    let waiting = |reason: &str, message: &str| {
        format!(
            r#"{{"phase":"Pending","containerStatuses":[{{"name":"agent","image":"i","state":{{"waiting":{{"reason":"{reason}","message":"{message}"}}}}}}]}}"#
        )
    };
    let clone = r#"{"phase":"Pending","initContainerStatuses":[{"name":"clone","state":{"terminated":{"exitCode":128}}}]}"#;
    let evicted = r#"{"phase":"Failed","reason":"Evicted","message":"low on memory"}"#;
    for (status, parts) in [
        (waiting("ErrImagePull", "x: not found"), ["cannot pull image 'i'", "--image-pull-secret"]),
        (
            waiting("CreateContainerConfigError", "secret 'aifo-keys' not found"),
            ["secret 'aifo-keys' not found", "--keys-secret"],
        ),
        (clone.to_owned(), ["'clone' failed with exit code 128", "fatal: repository not found"]),
        (evicted.to_owned(), ["the pod was evicted (Evicted): low on memory", "hint: "]),
    ] {
        let cluster = Cluster::new();
        cluster.put("unscheduled", "");
        cluster.put("status", &status);
        let error = cluster.refused(&[]);
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!cluster.read("deleted").is_empty(), "the pod is deleted");
    }
}

#[test]
fn an_agent_starts_with_the_size_of_the_terminal_that_started_it() {
    let cluster = Cluster::with_agent("stty size >\"${0%/*}/size\"; exec sleep 600");
    let terminal = Terminal::sized(200, 30);
    let run = terminal.start(&cluster.run(&["--detach"]));
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
    eventually("the agent has a size, without a client", || {
        fs::read_to_string(cluster.directory.join("size")).is_ok_and(|size| size == "30 200\n")
    });
}

/// Also shows the progress: the scheduler's reason, and events.
#[test]
fn a_signal_during_the_start_deletes_the_pod() {
    let cluster = Cluster::new();
    cluster.put("unscheduled", "");
    let message = "0/1 nodes are available: 1 Insufficient cpu.";
    let condition = format!(r#"{{"type":"PodScheduled","status":"False","message":"{message}"}}"#);
    cluster.put("status", &format!(r#"{{"phase":"Pending","conditions":[{condition}]}}"#));
    cluster.put("events", r#"{"reason":"Pulling","message":"Pulling image \"i\""}"#);
    let terminal = Terminal::sized(120, 24);
    let run = terminal.start(&cluster.run(&[]));
    terminal.expect(&format!("pod: not scheduled: {message}")).expect("pod: pulling image \"i\"");
    terminal.press("\x03");
    assert_eq!(run.finish(), Ok(130), "{}", terminal.shown());
    assert!(!cluster.read("deleted").is_empty(), "the pod is deleted");
}

#[test]
fn a_pod_without_a_first_client_ends() {
    let cluster =
        Cluster::with_agent("trap 'exit 9' TERM; echo begin; while :; do /bin/sleep 0.1; done");
    cluster.put("secs", "1");
    Outcome::of(&mut cluster.run(&["--detach"])).exited(0);
    eventually("the agent is ended", || cluster.has_unread_end());
    let terminal = Terminal::sized(80, 24);
    let attach = terminal.start(&cluster.on_pods(&["attach"]));
    assert_eq!(attach.finish(), Ok(9), "{}", terminal.shown());
}

#[test]
fn an_evicted_pod_is_reported_and_deleted() {
    let cluster = Cluster::with_agent("echo begin; read -r word");
    let terminal = Terminal::sized(80, 24);
    let run = terminal.start(&cluster.run(&[]));
    terminal.expect("begin");
    cluster.put("status", r#"{"phase":"Failed","reason":"Evicted","message":"low on memory"}"#);
    for word in ["_pod", "--held", "_relay"] {
        for pid in cluster.processes(word) {
            send_signal(pid, Signal::SIGKILL);
        }
    }
    assert_eq!(run.finish(), Ok(125), "{}", terminal.shown());
    terminal.expect("the pod was evicted (Evicted): low on memory");
    assert!(!cluster.read("deleted").is_empty());
}

#[test]
fn options_that_do_not_apply_are_errors() {
    let cluster = Cluster::new();
    let error = |args: &[&str]| Outcome::of(&mut cluster.coder(args)).exited(2).stderr.clone();
    let pvc = ["run", "--backend", "kubernetes", "--pvc", "p", "--image", "i"];
    for (flag, value, part) in [
        ("--publish", "3000", "kubectl port-forward"),
        ("--host-port", "3000", "does not reach this machine"),
        ("--state", "host", "ends with the pod"),
    ] {
        let text = error(&[&pvc[..], &[flag, value, "--", "sh"]].concat());
        assert!(text.contains(&format!("{flag} has no effect in a pod\nhint: ")), "{text}");
        assert!(text.contains(part), "{text}");
    }
    for command in ["acp", "prompt"] {
        let text =
            error(&[command, "--backend", "kubernetes", "--pvc", "p", "--cwd", ".", "codex"]);
        assert!(text.contains("--cwd has no effect in a pod\nhint: omit it"), "{text}");
    }
    let none = error(&["kube", "render", "--image", "i", "--", "sh"]);
    assert!(none.contains("needs a workspace in the cluster\nhint: --pvc NAME"), "{none}");
    let local = error(&["run", "--pvc", "p", "--", "true"]);
    assert!(local.contains("--pvc is for sessions in a cluster\nhint: add --backend kubernetes"));
    let local = error(&["attach", "--namespace", "n"]);
    assert!(local.contains("--namespace is for sessions in a cluster"), "{local}");
    let serve = Outcome::of(&mut cluster.coder(&["serve", "--backend", "kubernetes"]));
    serve.exited(86);
    assert!(serve.stderr.contains("aifo-coder run --backend kubernetes"), "{}", serve.stderr);
    assert_eq!(cluster.read("calls"), "", "no command of kubectl has run");
}

#[test]
fn values_that_no_cluster_accepts_are_errors() {
    let cluster = Cluster::new();
    for (flag, value, part) in [
        ("--namespace", "Team", "invalid namespace 'Team': expected a DNS label"),
        ("--context", "a\nb", "expected a name without control characters"),
        ("--keys-secret", "a_b", "invalid keys_secret 'a_b': expected a DNS subdomain"),
        ("--image-pull-secret", "a/b", "invalid pull_secrets 'a/b': expected a DNS subdomain"),
        ("--launcher-image", "a b", "invalid launcher_image 'a b': expected an image's name"),
        ("--deadline", "0", "0 is not in 1.."),
        ("--user", "0", "0 is not in 1.."),
        ("--memory", "much", "much"),
        ("--cpus", "none", "none"),
    ] {
        let render = ["kube", "render", "--pvc", "p", "--image", "i", flag, value, "--", "sh"];
        let outcome = Outcome::of(&mut cluster.coder(&render));
        assert!(outcome.exited(2).stderr.contains(part), "{flag}: {}", outcome.stderr);
    }
    let render = ["kube", "render", "--pvc", "P", "--image", "i", "--", "sh"];
    let outcome = Outcome::of(&mut cluster.coder(&render));
    assert!(outcome.exited(2).stderr.contains("expected a DNS subdomain"), "{}", outcome.stderr);
    let config = cluster.setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "[kubernetes]\nnamespace = \"-\"\n").unwrap();
    let check = Outcome::of(&mut cluster.coder(&["config", "check"]));
    assert!(
        check.exited(1).stderr.contains("config.toml:2: invalid namespace"),
        "{}",
        check.stderr
    );
}

#[test]
fn rules_with_private_addresses_are_in_the_policy_or_a_warning() {
    let cluster = Cluster::new();
    cluster.configure(
        "[net]\nallow = [\"gate.example:4000 address=10.1.2.3\", \"intern.example private\"]\n",
    );
    let render = ["kube", "render", "--pvc", "p", "--image", "i", "--", "sh"];
    let rendered = Outcome::of(&mut cluster.coder(&render));
    let text = rendered.exited(0).text();
    let rule = "- {to: [{ipBlock: {cidr: \"10.1.2.3/32\"}}], ports: [{protocol: TCP, port: 4000}]}";
    assert!(text.contains(rule), "{text}");
    let stderr = &rendered.stderr;
    assert!(
        stderr.contains("private addresses of these rules: 'intern.example private'"),
        "{stderr}"
    );
}
