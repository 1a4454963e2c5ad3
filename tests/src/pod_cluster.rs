//! A cluster that runs sessions as pods: that of the user's kubectl, or podman with a script in place of
//! kubectl (`spec/kubernetes.md#in-other-clusters`).

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::{
    EVERY_TOOL, Engine, Image, Outcome, Running, Scratch, SessionSetup, argv, binaries, eventually,
    fresh_id, static_shim, write_executable,
};

/// A cluster that runs a session.
#[derive(Debug)]
pub struct PodCluster {
    setup: SessionSetup,
    podman: Option<Podman>,
    /// The prefix of images.
    prefix: String,
    launcher: String,
}

/// Podman in place of a cluster.
#[derive(Debug)]
struct Podman {
    engine: Engine,
    /// The directory with the script in place of kubectl.
    script: Scratch,
    /// The workspace volume.
    claim: String,
}

/// Builds the launcher image.
fn launcher_image(engine: &Engine) -> Image {
    let scratch = Scratch::new();
    let at = scratch.path();
    // The reverse proxy of keys needs certificates.
    let lines = "COPY aifo-* /usr/local/bin/\nCOPY ca.pem /etc/ssl/certs/ca-certificates.crt\n\
                 COPY git /\nCOPY --chown=1000:1000 p.git /srv/p.git\n";
    let dockerfile = format!("FROM {EVERY_TOOL}\n{lines}");
    fs::write(at.join("Dockerfile"), dockerfile).expect("the directory is writable");
    for (from, to) in [
        ("/etc/ssl/certs/ca-certificates.crt".as_ref(), "ca.pem"),
        (binaries().coder.as_path(), "aifo-coder"),
        (static_shim(), "aifo-shim"),
    ] {
        fs::copy(from, at.join(to)).expect("the file exists");
    }
    copy_git(&at.join("git"));
    create_repository(at);
    engine.build_in(at)
}

/// The URL of a repository with one commit, in the launcher image.
pub const REPOSITORY_IN_POD: &str = "file:///srv/p.git";

/// Copies this machine's git, which runs there if the image has its libraries.
fn copy_git(to: &Path) {
    let programs = to.join("usr/local/bin");
    fs::create_dir_all(&programs).expect("the directory is writable");
    let found = Outcome::of(Command::new("sh").args(["-c", "command -v git"])).exited(0).text();
    fs::copy(found.trim(), programs.join("git")).expect("git is installed");
    for name in ["git-upload-pack", "git-receive-pack"] {
        symlink("git", programs.join(name)).expect("the directory is writable");
    }
    copy_git_http(to, &programs);
}

/// Copies git's program for HTTP with its libraries, which the image does not have. The C library is the image's.
fn copy_git_http(to: &Path, programs: &Path) {
    let directory = Outcome::of(Command::new("git").arg("--exec-path")).exited(0).text();
    let program = Path::new(directory.trim()).join("git-remote-http");
    let libraries = to.join("usr/local/lib/git-http");
    fs::create_dir_all(&libraries).expect("the directory is writable");
    fs::copy(&program, libraries.join("program")).expect("git has HTTP");
    let listed = Outcome::of(Command::new("ldd").arg(&program)).exited(0).text();
    for line in listed.lines() {
        let Some((name, path)) = line.trim().split_once(" => ") else { continue };
        let path = path.split(" (").next().unwrap_or_default();
        if name != "libc.so.6" {
            fs::copy(path, libraries.join(name)).expect("the library exists");
        }
    }
    let script = "#!/bin/sh\nLD_LIBRARY_PATH=/usr/local/lib/git-http exec /usr/local/lib/git-http/program \"$@\"\n";
    write_executable(programs.join("git-remote-http"), script, 0o755);
}

/// Creates the bare repository `p.git`, with the file `file`.
fn create_repository(at: &Path) {
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=u",
            "-c",
            "user.email=u@example",
            "-c",
            "init.defaultBranch=main",
        ]);
        git.env("GIT_AUTHOR_DATE", "1700000000 +0000")
            .env("GIT_COMMITTER_DATE", "1700000000 +0000");
        Outcome::of(git.args(words).current_dir(at)).exited(0);
    };
    git(&["init", "--quiet", "p"]);
    fs::write(at.join("p/file"), "before\n").expect("the directory is writable");
    git(&["-C", "p", "add", "."]);
    git(&["-C", "p", "commit", "--quiet", "-m", "start"]);
    git(&["clone", "--quiet", "--bare", "p", "p.git"]);
}

/// A variable that `cargo xtask test kubernetes` sets.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Builds the image of the launcher and pushes it or loads it, once. Returns its name, whose tag is that of its
/// content: nodes do not pull a name that they have.
fn provide_launcher(prefix: &str, engine: &Engine) -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let image = launcher_image(engine);
        let name = format!("{prefix}aifo-test-launcher:{}", tag_of(image.name(), engine));
        engine.text(["tag", image.name(), &name]);
        provide(&name, engine);
        name
    })
}

/// Returns a tag that is derived from an image's content.
fn tag_of(image: &str, engine: &Engine) -> String {
    let id = engine.text(["image", "inspect", "--format", "{{.Id}}", image]);
    id.trim().trim_start_matches("sha256:").chars().take(12).collect()
}

/// Builds the image of the launcher for podman, once: builds and removals at the same time share layers, and
/// fail. Replaces the image of an earlier run.
fn launcher_of_podman(engine: &Engine) -> &'static str {
    static NAME: OnceLock<&str> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = "localhost/aifo-test-launcher:latest";
        let remove = &mut engine.command(["rmi", "--force", name]);
        let _ = remove.stdout(Stdio::null()).stderr(Stdio::null()).status();
        engine.text(["tag", launcher_image(engine).name(), name]);
        name
    })
}

/// Pushes or loads an image.
fn provide(name: &str, engine: &Engine) {
    match variable("AIFO_TEST_LOAD") {
        Some(load) => {
            let mut command = Command::new("sh");
            Outcome::of(command.args(["-c", &format!("{load} \"$0\""), name])).exited(0);
        }
        None => drop(engine.text(["push", name])),
    }
}

impl PodCluster {
    /// The cluster of this run: that of kubectl, or podman. Without one, reports the test as skipped.
    pub fn of_run(test: &str) -> Option<Self> {
        match variable("AIFO_TEST_CLUSTER") {
            Some(prefix) => {
                let launcher = provide_launcher(&prefix, &Engine::of_run(test)?).to_owned();
                Some(PodCluster { setup: SessionSetup::new(), podman: None, prefix, launcher })
            }
            None => Engine::of_run(test).filter(Engine::is_podman).map(PodCluster::of_podman),
        }
    }

    /// The cluster of kubectl. Without one, reports the test as skipped.
    pub fn of_kubectl(test: &str) -> Option<Self> {
        if variable("AIFO_TEST_CLUSTER").is_none() {
            skipped(test, "AIFO_TEST_CLUSTER is not set");
            return None;
        }
        PodCluster::of_run(test)
    }

    fn of_podman(engine: Engine) -> Self {
        let script = Scratch::new();
        let file = script.path().join("kubectl");
        write_executable(file, include_str!("pod_cluster_kubectl.sh"), 0o755);
        let launcher = launcher_of_podman(&engine).to_owned();
        let claim = format!("aifo-test-pods-{}", fresh_id());
        engine.text(["volume", "create", &claim]);
        PodCluster {
            setup: SessionSetup::new(),
            prefix: "localhost/".to_owned(),
            launcher,
            podman: Some(Podman { engine, script, claim }),
        }
    }

    /// A persistent volume claim; `None` if the cluster has none for tests.
    pub fn claim(&self) -> Option<String> {
        self.podman.as_ref().map(|it| it.claim.clone()).or_else(|| variable("AIFO_TEST_CLAIM"))
    }

    /// The setup of the sessions' client, with the workspace.
    pub fn setup(&self) -> &SessionSetup {
        &self.setup
    }

    /// The image with the tools of every kind.
    pub fn image(&self) -> String {
        format!("{}{EVERY_TOOL}", self.prefix)
    }

    /// The image with `aifo-coder`.
    pub fn launcher(&self) -> &str {
        &self.launcher
    }

    /// Provides an image of the engine to the cluster; returns its name there, whose tag is that of its content.
    pub fn provide(&self, image: &str, engine: &Engine) -> String {
        let (repository, _) = image.rsplit_once(':').unwrap_or((image, ""));
        let name = format!("{}{repository}:{}", self.prefix, tag_of(image, engine));
        engine.text(["tag", image, &name]);
        provide(&name, engine);
        name
    }

    /// `aifo-coder` with the cluster's kubectl.
    pub fn coder(&self, args: &[&str]) -> Command {
        let mut coder = self.setup.coder();
        let mut path = std::env::var("PATH").expect("PATH is set");
        if let Some(podman) = &self.podman {
            path = format!("{}:{path}", podman.script.path().display());
        }
        for name in ["CONTAINERS_CONF", "KUBECONFIG"] {
            coder.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        if self.podman.is_none() {
            // A plugin of kubectl finds its login there; the user's settings of aifo do not hold.
            let scratch = self.setup.scratch();
            coder.envs(std::env::var_os("HOME").map(|home| ("HOME", home)));
            for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
                coder.env(name, scratch.join("home").join(name));
            }
        }
        coder.env("PATH", path).env("TERM", "xterm-256color").args(args);
        coder
    }

    /// A session with the toolchains rust and python, whose agent is this script.
    pub fn run(&self, flags: &[&str], script: &str) -> Command {
        self.run_words(flags, &["sh", "-c", script])
    }

    /// A session with the toolchains rust and python, whose agent is this command.
    pub fn run_words(&self, flags: &[&str], agent: &[&str]) -> Command {
        let image = self.image();
        let kinds = ["rust", "python"].map(|kind| (kind, format!("{kind}={image}")));
        let secret = variable("AIFO_TEST_PULL_SECRET");
        let mut words = vec!["run", "--backend", "kubernetes", "--quiet"];
        words.extend(["--launcher-image", &self.launcher]);
        if !flags.contains(&"--image") {
            words.extend(["--image", &image]);
        }
        for (kind, image) in &kinds {
            words.extend(["--toolchain", kind, "--toolchain-image", image]);
        }
        if let Some(podman) =
            self.podman.as_ref().filter(|_| !flags.contains(&"--pvc") && !flags.contains(&"--git"))
        {
            words.extend(["--pvc", &podman.claim]);
        }
        words.extend(secret.iter().flat_map(|name| ["--image-pull-secret", name]));
        words.extend(flags);
        words.push("--");
        words.extend(agent);
        self.coder(&words)
    }

    /// A command on the cluster's sessions.
    pub fn on_pods(&self, command: &[&str]) -> Command {
        self.coder(&[command, &["--backend", "kubernetes"]].concat())
    }

    /// The sessions of the cluster, as the command lists them.
    #[track_caller]
    pub fn sessions(&self) -> String {
        let outcome = Outcome::of(&mut self.on_pods(&["sessions"]));
        outcome.exited(0).text()
    }

    /// The id of the latest session.
    #[track_caller]
    pub fn latest(&self) -> String {
        let listed = self.sessions();
        let line = listed.lines().skip(1).last().unwrap_or_default();
        line.split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// Runs kubectl, with `input` as its stdin.
    pub fn kubectl(&self, args: &[&str], input: &str) -> Outcome {
        let file = self.setup.scratch().join("input");
        fs::write(&file, input).expect("the directory is writable");
        let mut kubectl = Command::new("kubectl");
        kubectl.args(args).stdin(fs::File::open(file).expect("the file exists"));
        Running::start(&mut kubectl).finish()
    }

    /// Waits until nothing of this session is left.
    #[track_caller]
    pub fn expect_nothing_left(&self, id: &str) {
        eventually("the pod is deleted", || {
            let listed = self.sessions();
            listed.lines().all(|line| !line.starts_with(id) || line.ends_with("deleted"))
        });
        let Some(podman) = &self.podman else {
            let selector = format!("--selector=dev.aifo.session={id}");
            eventually("pod and policy are deleted", || {
                let args = ["get", "pods,networkpolicies", &selector, "--output=name"];
                self.kubectl(&args, "").exited(0).text().is_empty()
            });
            return;
        };
        let name = format!("name=aifo-{id}");
        for list in [&["ps", "--all"][..], &["pod", "ps"], &["volume", "ls"]] {
            let left = podman.engine.text(list.iter().chain(&["--filter", &name, "--quiet"]));
            assert_eq!(left, "", "{list:?}");
        }
    }

    /// The names of all pods and policies of the namespace.
    pub fn objects(&self) -> BTreeSet<String> {
        let listed = self.kubectl(&["get", "pods,networkpolicies", "--output=name"], "");
        listed.exited(0).text().lines().map(str::to_owned).collect()
    }

    /// Waits until the namespace has nothing that it did not have before.
    pub fn expect_no_more_than(&self, before: &BTreeSet<String>) {
        eventually("what was created is deleted", || self.objects().is_subset(before));
    }

    /// The processes that relay for a client of a session, on this machine.
    pub fn relays(&self, id: &str) -> Vec<i32> {
        let all = fs::read_dir("/proc").expect("procfs").flatten();
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

/// Reports a test as skipped.
pub fn skipped(test: &str, why: &str) {
    // A closed stderr does not matter.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

impl Drop for Podman {
    fn drop(&mut self) {
        let run = |command: &mut Command| {
            let _ =
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        };
        run(Command::new(self.script.path().join("kubectl")).arg("x delete x"));
        run(&mut self.engine.command(["volume", "rm", "--force", &self.claim]));
    }
}
