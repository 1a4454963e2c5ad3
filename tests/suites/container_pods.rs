//! `run --backend kubernetes` in a cluster (`spec/kubernetes.md#run`): with podman, by a script in place of
//! kubectl, and with `cargo xtask test kubernetes` on the cluster of the user's kubectl.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Once};

use aifo_tests::{
    EVERY_TOOL, Engine, Image, Outcome, Running, Scratch, SessionSetup, Signal, Terminal, argv,
    binaries, eventually, fresh_id, send_signal, static_shim, write_executable,
};

const LEAVE: &str = "\x1c\x04";

/// A cluster that runs a session.
struct Cluster {
    setup: SessionSetup,
    /// The directory with the script in place of kubectl, for podman.
    script: Option<Scratch>,
    engine: Option<Engine>,
    /// The prefix of images.
    prefix: String,
    launcher: String,
    _launcher: Option<Image>,
    claim: String,
    /// Whether this test has created the claim in Kubernetes.
    owns_claim: bool,
}

/// Builds the image of the launcher.
fn launcher_image(engine: &Engine) -> Image {
    let scratch = Scratch::new();
    let at = scratch.path();
    // The reverse proxy of keys needs certificates.
    let lines = "COPY aifo-* /usr/local/bin/\nCOPY ca.pem /etc/ssl/certs/ca-certificates.crt\n";
    fs::write(at.join("Dockerfile"), format!("FROM {EVERY_TOOL}\n{lines}")).unwrap();
    fs::copy("/etc/ssl/certs/ca-certificates.crt", at.join("ca.pem")).unwrap();
    fs::copy(&binaries().coder, at.join("aifo-coder")).unwrap();
    fs::copy(static_shim(), at.join("aifo-shim")).unwrap();
    engine.build_in(at)
}

impl Cluster {
    /// The cluster of this run: that of kubectl, or podman. Without one, reports the test as skipped.
    fn of_run(test: &str) -> Option<Self> {
        match std::env::var("AIFO_TEST_CLUSTER").ok().filter(|prefix| !prefix.is_empty()) {
            Some(prefix) => Some(Cluster::of_kubectl(prefix, &Engine::of_run(test)?)),
            None => Engine::of_run(test).filter(Engine::is_podman).map(Cluster::of_podman),
        }
    }

    fn of_podman(engine: Engine) -> Self {
        let script = Scratch::new();
        let file = script.path().join("kubectl");
        write_executable(file, include_str!("container_pods/kubectl.sh"), 0o755);
        let image = launcher_image(&engine);
        let claim = format!("aifo-test-pods-{}", fresh_id());
        engine.text(["volume", "create", &claim]);
        Cluster {
            setup: SessionSetup::new(),
            script: Some(script),
            prefix: "localhost/".to_owned(),
            launcher: format!("localhost/{}", image.name()),
            _launcher: Some(image),
            claim,
            engine: Some(engine),
            owns_claim: false,
        }
    }

    fn of_kubectl(prefix: String, builder: &Engine) -> Self {
        // A tag of its own: nodes do not pull a name that they have.
        static TAG: LazyLock<String> = LazyLock::new(fresh_id);
        static PUSHED: Once = Once::new();
        let launcher = format!("{prefix}aifo-test-launcher:{}", *TAG);
        PUSHED.call_once(|| {
            let image = launcher_image(builder);
            let base = format!("{prefix}{EVERY_TOOL}");
            for (local, name) in [(image.name(), launcher.as_str()), (EVERY_TOOL, &base)] {
                builder.text(["tag", local, name]);
                builder.text(["push", name]);
            }
        });
        let given = std::env::var("AIFO_TEST_CLAIM").ok().filter(|claim| !claim.is_empty());
        let owns_claim = given.is_none();
        let claim = given.unwrap_or_else(|| format!("aifo-test-{}", fresh_id()));
        if owns_claim {
            let text = format!(
                "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {claim}}}\nspec: \
                 {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 100Mi}}}}}}\n"
            );
            let mut kubectl = Command::new("kubectl");
            kubectl.args(["create", "--filename=-"]).stdin(Stdio::piped()).stdout(Stdio::null());
            let mut kubectl = kubectl.spawn().unwrap();
            kubectl.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            assert!(kubectl.wait().unwrap().success(), "the claim is created");
        }
        Cluster {
            setup: SessionSetup::new(),
            script: None,
            engine: None,
            prefix,
            launcher,
            _launcher: None,
            claim,
            owns_claim,
        }
    }

    fn coder(&self, args: &[&str]) -> Command {
        let mut coder = self.setup.coder();
        let mut path = std::env::var("PATH").unwrap();
        if let Some(script) = &self.script {
            path = format!("{}:{path}", script.path().display());
        }
        for name in ["CONTAINERS_CONF", "KUBECONFIG"] {
            coder.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        if self.script.is_none() && std::env::var_os("KUBECONFIG").is_none() {
            coder.envs(std::env::var_os("HOME").map(|home| ("HOME", home)));
        }
        coder.env("PATH", path).env("TERM", "xterm-256color").args(args);
        coder
    }

    /// A session with the toolchain rust, whose agent is this script.
    fn run(&self, flags: &[&str], script: &str) -> Command {
        let image = format!("{}{EVERY_TOOL}", self.prefix);
        let kind = format!("rust={image}");
        let run = ["run", "--backend", "kubernetes", "--quiet", "--pvc", &self.claim];
        let images = ["--launcher-image", &self.launcher, "--image", &image];
        let kinds = ["--toolchain", "rust", "--toolchain-image", &kind];
        let agent = ["--", "sh", "-c", script];
        self.coder(&[&run, &images[..], &kinds, flags, &agent].concat())
    }

    fn on_pods(&self, command: &[&str]) -> Command {
        self.coder(&[command, &["--backend", "kubernetes"]].concat())
    }

    fn sessions(&self) -> String {
        let outcome = Outcome::of(&mut self.on_pods(&["sessions"]));
        outcome.exited(0).text()
    }

    /// Waits until this session's pod is gone.
    #[track_caller]
    fn expect_nothing_left(&self, id: &str) {
        eventually("the pod is deleted", || {
            let listed = self.sessions();
            listed.lines().all(|line| !line.starts_with(id) || line.ends_with("deleted"))
        });
        if let Some(engine) = &self.engine {
            let name = format!("name=aifo-{id}");
            for list in [&["ps", "--all"][..], &["pod", "ps"], &["volume", "ls"]] {
                let left = engine.text(list.iter().chain(&["--filter", &name, "--quiet"]));
                assert_eq!(left, "", "{list:?}");
            }
        }
    }

    /// The processes that relay for a client of a session, on this machine.
    fn relays(&self, id: &str) -> Vec<i32> {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|pid| {
            let words = argv(*pid);
            let program = words.first().map(String::as_str).unwrap_or_default();
            (program.ends_with("kubectl") || program.ends_with("podman"))
                && words.iter().any(|word| word.contains(id))
                && words.last().is_some_and(|word| word == "_relay")
        })
        .collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let run = |command: &mut Command| {
            let _ =
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        };
        if let (Some(engine), Some(script)) = (&self.engine, &self.script) {
            run(Command::new(script.path().join("kubectl")).arg("x delete x"));
            run(&mut engine.command(["volume", "rm", "--force", &self.claim]));
        }
        if self.owns_claim {
            run(Command::new("kubectl").args(["delete", "pvc", &self.claim, "--wait=false"]));
        }
    }
}

/// The id of the latest session.
fn id_of(listed: &str) -> String {
    let line = listed.lines().skip(1).last().unwrap_or_default();
    line.split_whitespace().next().unwrap_or_default().to_owned()
}

/// Calls make, whose recipe runs in the container of rust, and waits for a line of the user.
const AGENT: &str = "printf 'all:\\n\\t@sh tool.sh\\n' >Makefile; echo 'echo tool in $CARGO_HOME' >tool.sh; \
                     echo began; make; read -r word; echo got $word; exit 7";

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_session_is_left_shown_again_and_ends_with_the_agents_code() {
    let name = "a_session_is_left_shown_again_and_ends_with_the_agents_code";
    let Some(cluster) = Cluster::of_run(name) else { return };
    let first = Terminal::sized(80, 24);
    let run = first.start(&cluster.run(&[], AGENT));
    first.expect("began").expect("tool in /home/coder/.cargo");
    first.press(LEAVE);
    assert_eq!(run.finish(), Ok(0), "{}", first.shown());
    let id = id_of(&cluster.sessions());

    let second = Terminal::sized(100, 30);
    let attach = second.start(&cluster.on_pods(&["attach", &id]));
    second.expect("began").expect("tool in /home/coder/.cargo");
    // A client whose kubectl is killed connects again.
    let relays = cluster.relays(&id);
    assert_eq!(relays.len(), 1, "{relays:?}");
    send_signal(relays[0], Signal::SIGKILL);
    eventually("the client has connected again", || {
        cluster.relays(&id).iter().any(|pid| !relays.contains(pid))
    });
    let log = Outcome::of(&mut cluster.on_pods(&["log", &id]));
    assert!(log.exited(0).text().contains("make"), "{}", log.text());
    second.press("word\r");
    assert_eq!(attach.finish(), Ok(7), "{}", second.shown());
    second.expect("got word");
    cluster.expect_nothing_left(&id);
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn an_end_without_a_client_is_shown_later() {
    let Some(cluster) = Cluster::of_run("an_end_without_a_client_is_shown_later") else { return };
    let id = Outcome::of(&mut cluster.run(&["--detach"], "echo the end; exit 5")).exited(0).text();
    let id = id.trim_end();
    eventually("the agent has ended", || {
        let log = Outcome::of(&mut cluster.on_pods(&["log", id]));
        log.code() == Some(0)
    });
    let terminal = Terminal::sized(80, 24);
    let attach = terminal.start(&cluster.on_pods(&["attach", id]));
    assert_eq!(attach.finish(), Ok(5), "{}", terminal.shown());
    terminal.expect("the end");
    cluster.expect_nothing_left(id);
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn without_a_terminal_bytes_and_exit_code_pass() {
    let Some(cluster) = Cluster::of_run("without_a_terminal_bytes_and_exit_code_pass") else {
        return;
    };
    let mut run = cluster.run(&[], "cat; echo error >&2; exit 3");
    run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    run.stdin.take().unwrap().write_all(b"one\r\n\0\xff").unwrap();
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_eq!(output.stdout, b"one\r\n\0\xff");
    assert!(stderr.contains("error\n") && !stderr.contains("command terminated"), "{stderr}");
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_signal_deletes_the_pod() {
    let Some(cluster) = Cluster::of_run("a_signal_deletes_the_pod") else { return };
    let run = Running::start(&mut cluster.run(&[], "echo began; exec sleep 600"));
    run.expect("began");
    let id = id_of(&cluster.sessions());
    run.signal(Signal::SIGTERM);
    run.finish().exited(143);
    cluster.expect_nothing_left(&id);
}

/// A program with the name of git, after the shims in PATH.
const PUSH: &str = "mkdir /tmp/b; printf '#!/bin/sh\necho ran: $*\n' >/tmp/b/git; chmod 755 /tmp/b/git; \
                    PATH=$PATH:/tmp/b; git status; git push --force; echo pushed: $?; read -r word";

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_force_push_in_a_pod_is_asked_and_denied() {
    let Some(cluster) = Cluster::of_run("a_force_push_in_a_pod_is_asked_and_denied") else {
        return;
    };
    let terminal = Terminal::sized(120, 30);
    let run = terminal.start(&cluster.run(&[], PUSH));
    terminal.expect("ran: status");
    let id = id_of(&cluster.sessions());
    let approve = |words: &[&str]| {
        let command = ["approve", "--backend", "kubernetes"];
        Outcome::of(&mut cluster.coder(&[&command[..], words, &[&id]].concat()))
    };
    eventually("the push waits", || approve(&[]).text().contains("git push --force"));
    approve(&["--answer", "q1", "deny"]).exited(0);
    terminal.expect("pushed: 86");
    assert!(!terminal.shown().contains("ran: push"), "{}", terminal.shown());
    terminal.press("\r");
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
}
