//! Sessions as pods (`spec/kubernetes.md`), which podman runs as Kubernetes does.
//!
//! Proves `spec/kubernetes.md#keys`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use aifo_tests::{
    EVERY_TOOL, Engine, GitServer, Image, Outcome, PodCluster, Scratch, binaries, eventually,
    fresh_id, skipped, static_shim,
};

/// The name with which podman searches in no registry.
fn every_tool() -> String {
    format!("localhost/{EVERY_TOOL}")
}

/// A rendered session that podman runs.
struct PodSession {
    engine: Engine,
    id: String,
    scratch: Scratch,
    /// The workspace volume.
    claim: String,
    _launcher: Option<Image>,
}

impl PodSession {
    /// Renders a session with the toolchains rust and node and plays it. `words` are those of `run`.
    fn play(engine: &Engine, flags: &[&str], words: &[&str]) -> Self {
        let scratch = Scratch::new();
        let at = scratch.path();
        // The reverse proxy of keys needs certificates.
        let dockerfile =
            "COPY aifo-* /usr/local/bin/\nCOPY ca.pem /etc/ssl/certs/ca-certificates.crt\n";
        fs::write(at.join("Dockerfile"), format!("FROM {EVERY_TOOL}\n{dockerfile}")).unwrap();
        fs::copy("/etc/ssl/certs/ca-certificates.crt", at.join("ca.pem")).unwrap();
        fs::copy(&binaries().coder, at.join("aifo-coder")).unwrap();
        fs::copy(static_shim(), at.join("aifo-shim")).unwrap();
        let launcher = engine.build_in(at);
        let (claim, id) = (format!("aifo-test-kube-{}", fresh_id()), session_id());
        engine.text(["volume", "create", &claim]);
        let session =
            PodSession { engine: engine.clone(), id, scratch, claim, _launcher: Some(launcher) };
        session.write("Makefile", "all:\n\t@sh tool.sh\n");
        let image = format!("localhost/{}", session._launcher.as_ref().unwrap().name());
        session.render(&image, &["--pvc", &session.claim], &[flags, words].concat());
        session
    }

    /// Renders a session with the toolchains rust and node, and plays it.
    fn render(&self, launcher: &str, workspace: &[&str], words: &[&str]) {
        let mut render = Command::new(&binaries().coder);
        render.args(["kube", "render", "--quiet", "--no-tty", "--session-id", &self.id]);
        render.args(workspace).args(["--launcher-image", launcher]);
        for kind in ["rust", "node"] {
            render.args([
                "--toolchain",
                kind,
                "--toolchain-image",
                &format!("{kind}={}", every_tool()),
            ]);
        }
        render.args(words).stdin(Stdio::null());
        render.env("HOME", self.scratch.path()).env_remove("XDG_CONFIG_HOME");
        let text = Outcome::of(render.current_dir(self.scratch.path())).exited(0).text();
        fs::write(self.manifest(), text).unwrap();
        let manifest = self.manifest();
        let play = ["kube", "play", manifest.to_str().unwrap()];
        self.engine.text(play);
    }

    fn manifest(&self) -> PathBuf {
        self.scratch.path().join("session.yaml")
    }

    /// A path of the workspace on this machine.
    fn workspace(&self) -> PathBuf {
        let format = "{{.Mountpoint}}";
        let at = self.engine.text(["volume", "inspect", "--format", format, &self.claim]);
        PathBuf::from(at.trim_end())
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.workspace().join(name), text).unwrap();
    }

    fn container(&self, name: &str) -> String {
        format!("aifo-{}-{name}", self.id)
    }

    /// Waits for the end of the agent, and of all other containers after it. Returns its exit code and
    /// the launcher output.
    fn wait(&self) -> (String, String) {
        for name in ["aifo", "agent", "rust", "node"] {
            let container = self.container(name);
            eventually(&format!("'{name}' ends"), || {
                self.engine.inspect(&container, "{{.State.Status}}") == "exited"
            });
        }
        let launcher = self.container("aifo");
        let code = self.engine.inspect(&launcher, "{{.State.ExitCode}}");
        (code, self.output("aifo"))
    }

    /// A container output.
    fn output(&self, name: &str) -> String {
        let logs = Outcome::of(&mut self.engine.command(["logs", &self.container(name)]));
        format!("{}{}", logs.text(), logs.stderr)
    }

    /// Removes the pod, as a user does, and returns what is left of the session.
    fn remove(&self) -> Vec<String> {
        self.engine.text(["kube", "down", self.manifest().to_str().unwrap()]);
        let name = format!("name=aifo-{}", self.id);
        let volumes = self.engine.text(["volume", "ls", "--quiet", "--filter", &name]);
        for volume in volumes.lines() {
            // Podman before 4.4 keeps the volume of an empty directory.
            self.engine.text(["volume", "rm", volume]);
        }
        let mut left = Vec::new();
        for list in [&["ps", "--all"][..], &["pod", "ps"], &["volume", "ls"]] {
            let all = self.engine.text(list.iter().chain(&["--filter", &name, "--quiet"]));
            left.extend(all.lines().map(str::to_owned));
        }
        left
    }
}

impl Drop for PodSession {
    fn drop(&mut self) {
        let run = |args: &[&str]| {
            let mut command = self.engine.command(args);
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        };
        let pod = format!("aifo-{}", self.id);
        run(&["pod", "rm", "--force", "--time", "0", &pod]);
        if !self.claim.is_empty() {
            run(&["volume", "rm", "--force", &self.claim]);
        }
    }
}

fn session_id() -> String {
    let time = UNIX_EPOCH.elapsed().map(|since| since.subsec_nanos()).unwrap_or_default();
    format!("{:08x}{time:08x}", std::process::id())
}

/// Only podman plays manifests.
fn podman(test: &str) -> Option<Engine> {
    Engine::of_run(test).filter(Engine::is_podman)
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_scripted_agent_does_its_task_in_a_pod_and_nothing_is_left() {
    let Some(engine) = podman("a_scripted_agent_does_its_task_in_a_pod_and_nothing_is_left") else {
        return;
    };
    // Each call shows its container by a variable or a file that only that one has.
    let script = "echo 'echo tool $CARGO_HOME; echo sockets $(ls /run/aifo /run/aifo-agent 2>&1); \
                  env | grep -e TOKEN -e KEYS; touch /x; umask; id -u' > tool.sh && make && \
                  node -e 'console.log(\"node\", process.env.NPM_CONFIG_CACHE)' && \
                  echo in | node -e 'process.stdin.pipe(process.stdout)' > made; \
                  ls /run/aifo; exit 7";
    let image = every_tool();
    let flags = ["--image", &image];
    let session = PodSession::play(&engine, &flags, &["--", "sh", "-c", script]);
    let (code, output) = session.wait();
    assert_eq!(code, "7", "the agent's: {output}");
    for line in [
        "tool /home/coder/.cargo",
        "sockets /run/aifo: ls: cannot access '/run/aifo-agent': No such file or directory",
        "node /var/cache/aifo/node/npm",
        "exec.sock",
        "1000",
    ] {
        let is_there = output
            .lines()
            .any(|it| it == line || (line.starts_with("sockets") && it.starts_with("sockets")));
        assert!(is_there, "{line}: {output}");
    }
    assert!(!output.contains("TOKEN="), "a tool has the token: {output}");
    let sockets = output.lines().find(|line| line.starts_with("sockets")).unwrap();
    assert!(!sockets.contains("exec.sock") && !sockets.contains("control"), "{sockets}");
    assert_eq!(fs::read_to_string(session.workspace().join("made")).unwrap(), "in\n");
    assert!(!session.workspace().join("x").exists());
    for name in ["agent", "rust", "node"] {
        let code = session.engine.inspect(&session.container(name), "{{.State.ExitCode}}");
        assert_eq!(code, "0", "{name} ends with the session");
    }
    assert_eq!(session.remove(), [""; 0], "nothing is left");
}

/// Prints its variables, and the status of requests with the phantom and with another key.
const AGENT: &str = r#"#!/usr/bin/python3
import os, urllib.request, urllib.error
key, base = os.environ["OPENAI_API_KEY"], os.environ["OPENAI_BASE_URL"]
print("base", base)
print("phantom", key != "sk-real" and key.startswith("sk-"))
for given in [key, "sk-other"]:
    request = urllib.request.Request(base + "/models", headers={"Authorization": "Bearer " + given})
    try:
        print("status", urllib.request.urlopen(request, timeout=50).status)
    except urllib.error.HTTPError as error:
        print("status", error.code)
print("real", any("sk-real" in value for value in os.environ.values()))
"#;

#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_agent_in_a_pod_works_with_a_phantom_key() {
    let Some(engine) = podman("an_agent_in_a_pod_works_with_a_phantom_key") else { return };
    let dir = Scratch::new();
    fs::write(dir.path().join("qwen"), AGENT).unwrap();
    let dockerfile = format!(
        "FROM {EVERY_TOOL}\nCOPY qwen /usr/local/bin/\nRUN chmod 755 /usr/local/bin/qwen\n"
    );
    fs::write(dir.path().join("Dockerfile"), dockerfile).unwrap();
    let image = engine.build_in(dir.path());
    let secret = Secret::create(&engine, dir.path());
    let flags = ["--keys-secret", &secret.name, "--image", &format!("localhost/{}", image.name())];
    let session = PodSession::play(&engine, &flags, &["qwen"]);
    let (code, output) = session.wait();
    assert_eq!(code, "0", "{output}");
    assert!(output.contains("base http://127.0.0.1:18459/openai/v1\n"), "{output}");
    // The provider of the secret's URL does not answer: 502 comes from the proxy, which took the phantom.
    assert!(output.contains("phantom True\nstatus 502\nstatus 401\nreal False\n"), "{output}");
    assert!(!fs::read_to_string(session.manifest()).unwrap().contains("sk-real"));
    assert_eq!(session.remove(), [""; 0], "nothing is left");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_clone_is_pushed_over_http_and_a_failed_push_waits() {
    let name = "a_clone_is_pushed_over_http_and_a_failed_push_waits";
    let Some(engine) = podman(name) else { return };
    let Some(cluster) = PodCluster::of_run(name) else { return };
    let run = ["run", "--rm", "--entrypoint", "git-remote-http", cluster.launcher()];
    let probe = Outcome::of(&mut engine.command(run));
    if ["GLIBC", "shared libraries"].iter().any(|part| probe.stderr.contains(part)) {
        return skipped(name, "this machine's git does not run in the image");
    }
    let dir = Scratch::new();
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=u", "-c", "user.email=u@example"]).args(words);
        let git = git.current_dir(dir.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
        Outcome::of(git).exited(0).text().trim_end().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main", "p"]);
    git(&["-C", "p", "commit", "--quiet", "--allow-empty", "-m", "start"]);
    git(&["clone", "--quiet", "--bare", "p", "p.git"]);
    // "user:right"
    let server = GitServer::start(dir.path(), "dXNlcjpyaWdodA==");
    let script = "echo one >file && git add . && git -c user.name=a -c user.email=a@example commit -qm agent; exit 7";
    for (password, exists, parts) in [
        ("right", false, &["pushed aifo/"][..]),
        ("wrong", false, &["does not accept the login", "hint: check the secret of --git-secret"]),
        ("right", true, &["rejects the branch", "hint: push it yourself after the fetch"]),
    ] {
        let session = PodSession {
            engine: engine.clone(),
            id: session_id(),
            scratch: Scratch::new(),
            claim: String::new(),
            _launcher: None,
        };
        let branch = format!("aifo/{}", session.id);
        if exists {
            git(&["-C", "p.git", "branch", &branch, "main"]);
            let tree = git(&["-C", "p.git", "rev-parse", "main^{tree}"]);
            let other = git(&["-C", "p.git", "commit-tree", "-m", "other", &tree]);
            git(&["-C", "p.git", "update-ref", &format!("refs/heads/{branch}"), &other]);
        }
        let value = if password == "right" { "cmlnaHQ=" } else { "d3Jvbmc=" };
        let text = format!(r#"{{"username":"dXNlcg==","password":"{value}"}}"#);
        let secret = Secret::of(&engine, session.scratch.path(), &text);
        let url = server.url("p.git");
        let workspace = ["--git", &url, "--git-push", "--git-secret", &secret.name];
        let agent = ["--image", cluster.launcher(), "--", "sh", "-c", script];
        session.render(cluster.launcher(), &workspace, &agent);
        let mut output = String::new();
        eventually("the push is reported", || {
            output = session.output("aifo");
            output.contains(&branch)
        });
        for part in parts {
            assert!(output.contains(part), "{part}: {output}");
        }
        let listed = git(&[
            "-C",
            "p.git",
            "for-each-ref",
            "--format=%(subject)",
            &format!("refs/heads/{branch}"),
        ]);
        let is_pushed = parts[0].starts_with("pushed");
        assert_eq!(
            listed,
            if is_pushed {
                "agent"
            } else if exists {
                "other"
            } else {
                ""
            }
        );
        if is_pushed {
            assert!(!output.contains("waits"), "{output}");
            continue;
        }
        // Also after the end of all other containers.
        for name in ["agent", "rust", "node"] {
            eventually(&format!("'{name}' ends"), || {
                session.engine.inspect(&session.container(name), "{{.State.Status}}") == "exited"
            });
        }
        let output = session.output("aifo");
        assert!(
            output.contains(
                "the pod waits up to 24 h for a fetch of its work: aifo-coder kube fetch"
            ),
            "{output}"
        );
        let state = session.engine.inspect(&session.container("aifo"), "{{.State.Status}}");
        assert_eq!(state, "running", "{output}");
        let words = [
            "exec",
            &session.container("aifo"),
            "/usr/local/bin/aifo-coder",
            "_workspace",
            "state",
        ];
        assert_eq!(session.engine.text(words), "ended\n");
    }
}

/// A secret of podman, with a key and a URL at which no provider listens.
struct Secret {
    engine: Engine,
    name: String,
}

impl Secret {
    fn create(engine: &Engine, dir: &Path) -> Self {
        let (key, url) = ("c2stcmVhbA==", "aHR0cDovLzEyNy4wLjAuMTo5L3Yx");
        let text = format!(r#"{{"OPENAI_API_KEY":"{key}","OPENAI_BASE_URL":"{url}"}}"#);
        Secret::of(engine, dir, &text)
    }

    /// A secret with base64 values, in the form of podman 4.3.
    fn of(engine: &Engine, dir: &Path, text: &str) -> Self {
        let secret = Secret { engine: engine.clone(), name: format!("aifo-test-{}", fresh_id()) };
        let file = dir.join("secret");
        fs::write(&file, text).unwrap();
        engine.text(["secret", "create", &secret.name, file.to_str().unwrap()]);
        secret
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let _ = self.engine.command(["secret", "rm", &self.name]).stdout(Stdio::null()).status();
    }
}
