//! Sessions with sidecars in containers.

use std::ffi::OsString;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::engine::PATH;
use crate::{Engine, Outcome, Session, SessionSetup, binaries, eventually};

/// An image with the tools of every kind, real ones or stand-ins.
pub const EVERY_TOOL: &str = "aifo-test-base:latest";

/// A Python program that runs ordinary programs with unusual system calls. Prints a line for each: its
/// name, and `works`, `absent`, or `failed` with the cause.
pub const ORDINARY_PROGRAMS: &str = include_str!("ordinary_programs.py");

/// A Python program for x86-64 that tries to reach the network in many ways. Prints a line for each: its
/// name, and `ok` or an errno.
pub const WAYS_OUT: &str = include_str!("ways_out.py");

/// The options of a session with containers.
#[derive(Debug)]
pub struct ContainerSetup {
    engine: Engine,
    setup: SessionSetup,
    kinds: Vec<(String, String)>,
    args: Vec<OsString>,
    workspace: Option<PathBuf>,
    keeps_caches: bool,
}

/// A session with containers. Drop ends it and checks for leftovers.
#[derive(Debug)]
pub struct ContainerSession {
    session: Session,
    engine: Engine,
    id: String,
}

impl ContainerSetup {
    /// No kinds, default options.
    pub fn of(engine: &Engine) -> Self {
        let shim = static_shim().to_owned();
        let setup = SessionSetup::new().env("PATH", PATH).env_path("AIFO_SHIM_BIN", &shim);
        let settings = engine.settings();
        let setup = settings.iter().fold(setup, |setup, (name, file)| setup.env(name, file));
        let (kinds, args) = (Vec::new(), Vec::new());
        let engine = engine.clone();
        ContainerSetup { engine, setup, kinds, args, workspace: None, keeps_caches: false }
    }

    /// Adds a kind with the default image.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        self.kind_from(kind, EVERY_TOOL)
    }

    /// Adds a kind with this image.
    #[must_use]
    pub fn kind_from(mut self, kind: &str, image: &str) -> Self {
        self.kinds.push((kind.to_owned(), image.to_owned()));
        self
    }

    /// Adds a flag and its value.
    #[must_use]
    pub fn flag(mut self, name: &str, value: &str) -> Self {
        self.args.extend([name.into(), value.into()]);
        self
    }

    /// Adds a flag without a value.
    #[must_use]
    pub fn switch(mut self, name: &str) -> Self {
        self.args.push(name.into());
        self
    }

    /// Adds to the environment of `aifo-coder`.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.setup = self.setup.env(name, value);
        self
    }

    /// Starts `aifo-coder` through a wrapper, which executes its trailing arguments.
    #[must_use]
    pub fn through(mut self, wrapper: &[&str]) -> Self {
        self.setup = self.setup.through(wrapper);
        self
    }

    /// Sets the workspace.
    #[must_use]
    pub fn workspace(mut self, dir: &Path) -> Self {
        self.workspace = Some(dir.to_owned());
        self
    }

    /// Enables caches, which the harness disables by default. The test must clear them.
    #[must_use]
    pub fn caches(mut self) -> Self {
        self.keeps_caches = true;
        self
    }

    /// Clears the caches of a workspace's project; returns the output.
    #[track_caller]
    pub fn clear_caches(&self, workspace: &Path) -> String {
        let mut clear = self.setup.coder();
        clear.args(["cache", "clear", "--project", "--workspace"]).arg(workspace);
        Outcome::of(&mut clear).exited(0).text()
    }

    /// The session directories.
    pub fn setup(&self) -> &SessionSetup {
        &self.setup
    }

    /// A subcommand of `aifo-coder` with all options.
    pub fn command(&self, verb: &str) -> Command {
        let default = || self.setup.workspace();
        self.command_in(verb, &self.workspace.clone().unwrap_or_else(default))
    }

    /// The same, in another workspace.
    pub fn command_in(&self, verb: &str, workspace: &Path) -> Command {
        let mut command = self.setup.coder();
        command.args([verb, "--backend", self.engine.name(), "--workspace"]);
        command.arg(workspace);
        if !self.keeps_caches {
            // A volume would outlive the scratch directory that it is for.
            command.arg("--no-toolchain-cache");
        }
        for (kind, image) in &self.kinds {
            command.args(["--toolchain", kind, "--toolchain-image", &format!("{kind}={image}")]);
        }
        command.args(&self.args);
        command
    }

    /// Starts `aifo-coder serve` and waits until it listens.
    #[track_caller]
    pub fn start(self) -> ContainerSession {
        let serve = self.command("serve");
        let session = self.setup.spawn(serve, self.kinds.len());
        // unix:///../aifo-ID/front/exec.sock
        let socket = Path::new(session.url().trim_start_matches("unix://"));
        let dir = socket.ancestors().nth(2).and_then(Path::file_name).unwrap_or_default();
        let id = dir.to_string_lossy().trim_start_matches("aifo-").to_owned();
        ContainerSession { session, engine: self.engine, id }
    }
}

impl ContainerSession {
    /// The session id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of a kind's container.
    pub fn container(&self, kind: &str) -> String {
        format!("aifo-tc-{kind}-{}", self.id)
    }

    /// The session directory.
    pub fn dir(&self) -> PathBuf {
        self.scratch().join("run").join(format!("aifo-{}", self.id))
    }

    /// The session's temporary directory.
    pub fn tmp(&self) -> PathBuf {
        Path::new("/var/tmp").join(format!("aifo-{}-tmp", self.id))
    }

    /// Runs a tool to its end in the workspace root.
    #[track_caller]
    pub fn run(&self, tool: &str, args: &[&str]) -> Outcome {
        Outcome::of(self.shim(tool).args(args))
    }

    /// Runs Python in the python sidecar, which must succeed; returns its output.
    #[track_caller]
    pub fn python(&self, program: &str, args: &[&str]) -> String {
        let outcome = self.run("python3", &[&["-c", program], args].concat());
        outcome.exited(0).text()
    }

    /// The session containers and networks.
    #[track_caller]
    pub fn left(&self) -> Vec<String> {
        self.engine.all_of(&self.dir())
    }

    /// Ends the session and checks for leftovers.
    #[track_caller]
    pub fn finish(mut self) {
        let dirs = [self.dir(), self.tmp()];
        assert_eq!(self.session.end(crate::Signal::SIGTERM).code(), Some(0), "{}", self.log());
        assert_eq!(self.left(), [""; 0], "{}", self.log());
        assert!(dirs.iter().all(|dir| !dir.exists()));
    }

    /// After the launcher was killed: waits until the containers have ended, and removes everything
    /// else.
    #[track_caller]
    pub fn sweep(self) {
        eventually("the containers end", || {
            // Podman does not remove one that ends before a container that shares its network stack.
            // Each command may find it removed.
            let ended = |name: &String| {
                let state = ["inspect", "--format", "{{.State.Status}}", name];
                let is_holder = self.engine.is_podman() && name.starts_with("aifo-pod-");
                is_holder && Outcome::of(&mut self.engine.command(state)).text() != "running\n"
            };
            let mut left = self.left().into_iter();
            left.all(|name| name.starts_with("aifo-net-") || ended(&name))
        });
        for holder in self.left().iter().filter(|name| name.starts_with("aifo-pod-")) {
            let _ = Outcome::of(&mut self.engine.command(["rm", "--force", holder]));
        }
        let networks = self.left().into_iter().filter(|name| name.starts_with("aifo-net-"));
        for network in networks {
            self.engine.text(["network", "rm", &network]);
        }
        for dir in [self.dir(), self.tmp()] {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

impl Deref for ContainerSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for ContainerSession {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

/// A static shim, which runs in any image; the default build may be dynamic.
pub fn static_shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let shim = &binaries().shim;
        if std::env::var_os("AIFO_TEST_BIN_DIR").is_some() {
            return shim.clone();
        }
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let dir = shim.ancestors().nth(2).expect("a program lies in target/<profile>");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "-p", "aifo-shim", "--target", &target, "--target-dir"]);
        cargo.arg(dir).stdin(Stdio::null());
        // At a fixed address, as `cargo xtask dist` builds it.
        cargo.env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static");
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(status.is_ok_and(|status| status.success()), "the static shim is not built");
        dir.join(target).join("debug/aifo-shim")
    })
}
