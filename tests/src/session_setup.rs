//! Options and directories of a session.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::trial::TRANSPORT;
use crate::{Backend, Scratch, Session, binaries, copy_executable, write_executable};

/// A file in the tools directory.
#[derive(Clone, Debug)]
pub enum Tool {
    /// The fake tool: the first argument is a verb (`tests/src/bin/aifo-test-tool.rs`).
    Fake,
    /// A link to a program.
    Link(PathBuf),
    /// A file with this content and mode.
    File(Vec<u8>, u32),
}

/// The proxy's transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// No `--listen`: the default.
    Default,
    /// `--listen tcp://127.0.0.1:0`
    Tcp,
    /// `--listen` with this value.
    On(String),
}

/// The kinds, tools and environment of a session.
///
/// PATH of the sidecars is one directory of fake tools, without programs of the machine.
#[derive(Debug)]
pub struct SessionSetup {
    scratch: Scratch,
    kinds: Vec<String>,
    listen: Listen,
    max_secs: Option<u64>,
    options: Vec<String>,
    env: Vec<(String, String)>,
    wrapper: Vec<String>,
    transport: Option<String>,
}

impl SessionSetup {
    /// Kinds rust and c-cpp, the default transport, and fake `cargo gcc make ninja`.
    #[expect(clippy::new_without_default, reason = "creating directories should be explicit")]
    pub fn new() -> Self {
        let setup = SessionSetup {
            scratch: Scratch::new(),
            kinds: vec!["rust".to_owned(), "c-cpp".to_owned()],
            listen: Listen::Default,
            max_secs: None,
            options: Vec::new(),
            env: Vec::new(),
            wrapper: Vec::new(),
            transport: std::env::var(TRANSPORT).ok(),
        };
        for name in ["workspace", "tools", "shims", "home", "run", "engine"] {
            let dir = setup.scratch.path().join(name);
            fs::DirBuilder::new()
                .mode(0o700)
                .create(dir)
                .expect("the scratch directory is writable");
        }
        let names = ["cargo", "gcc", "make", "ninja"];
        names.into_iter().fold(setup, |setup, name| setup.tool(name, Tool::Fake))
    }

    /// Replaces the kinds.
    #[must_use]
    pub fn kinds(mut self, kinds: &[&str]) -> Self {
        self.kinds = kinds.iter().map(|&kind| kind.to_owned()).collect();
        self
    }

    /// Sets the transport.
    #[must_use]
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen = listen;
        self
    }

    /// Sets the tools' time limit.
    #[must_use]
    pub fn max_secs(mut self, seconds: u64) -> Self {
        self.max_secs = Some(seconds);
        self
    }

    /// Adds options of `serve`.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Adds to the environment of `aifo-coder`.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts `aifo-coder` through a wrapper, which executes its trailing arguments.
    #[must_use]
    pub fn through(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Logs decisions to stderr.
    #[must_use]
    pub fn verbose(self) -> Self {
        self.env("AIFO_TOOLCHAIN_VERBOSE", "1")
    }

    /// Installs a tool, or replaces it.
    #[must_use]
    pub fn tool(self, name: &str, tool: Tool) -> Self {
        let setup = self.without(name);
        let path = setup.tools().join(name);
        let link = |target| symlink(target, &path).expect("the tools directory is writable");
        match tool {
            Tool::Fake => link(setup.fake()),
            Tool::Link(program) => link(program),
            Tool::File(content, mode) => write_executable(&path, content, mode),
        }
        setup
    }

    /// Installs a `/bin/sh` script as a tool.
    #[must_use]
    pub fn script(self, name: &str, body: &str) -> Self {
        self.tool(name, Tool::File(format!("#!/bin/sh\n{body}\n").into_bytes(), 0o755))
    }

    /// Removes a tool.
    #[must_use]
    pub fn without(self, name: &str) -> Self {
        let _ = fs::remove_file(self.tools().join(name));
        self
    }

    /// The path of the fake tool. Containers cannot see the build directory, so they use a copy.
    fn fake(&self) -> PathBuf {
        let built = &binaries().tool;
        if *Backend::chosen() == Backend::Local {
            return built.clone();
        }
        let copy = self.tools().join(".fake");
        if !copy.exists() {
            copy_executable(built, &copy);
        }
        copy
    }

    /// The parent of all of this setup's directories. No tool sees it.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Adds a path to the environment of `aifo-coder`.
    #[must_use]
    pub fn env_path(self, name: &str, path: &Path) -> Self {
        let path = path.to_str().expect("the scratch path is text").to_owned();
        self.env(name, &path)
    }

    /// The project directory.
    pub fn workspace(&self) -> PathBuf {
        self.scratch.path().join("workspace")
    }

    /// The directory of fake tools.
    pub fn tools(&self) -> PathBuf {
        self.scratch.path().join("tools")
    }

    /// The parent of session directories: runtime and temporary directory in one.
    pub fn runtime(&self) -> PathBuf {
        self.scratch.path().join("run")
    }

    /// `aifo-coder` in this setup's environment and workspace, without arguments.
    ///
    /// The environment starts empty, because the suites may run inside a session.
    pub fn coder(&self) -> Command {
        let coder = binaries().coder.as_os_str();
        let backend = Backend::chosen();
        let tools = self.tools().into_os_string().into_string().expect("the scratch path is text");
        let chosen = self.env.iter().rev().find(|(name, _)| name == "PATH");
        let mut path = chosen.map_or(tools, |(_, path)| path.clone());
        if backend.is_engine() {
            let engine = self.scratch.path().join("engine");
            backend.put_command(&engine, &self.tools(), &path);
            path = format!("{}:{path}", engine.display());
        }
        let mut words = self.wrapper.iter().map(OsStr::new).chain([coder]);
        let mut command = Command::new(words.next().unwrap_or(coder));
        command
            .args(words)
            .env_clear()
            .env("HOME", self.scratch.path().join("home"))
            .env("LANG", "C")
            .env("TMPDIR", self.runtime())
            .env("XDG_RUNTIME_DIR", self.runtime())
            .env("AIFO_SHIM_BIN", &binaries().shim)
            .envs(backend.variables())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("PATH", path)
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// An example of `aifo-launch`, in the workspace and with the tools of this setup.
    pub fn example(&self, name: &str) -> Command {
        let mut command = Command::new(crate::example(name));
        command
            .env_clear()
            .env("PATH", self.tools())
            .env("HOME", self.scratch.path().join("home"))
            .env("TMPDIR", self.runtime())
            .env("XDG_RUNTIME_DIR", self.runtime())
            .env("AIFO_SHIM_BIN", &binaries().shim)
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// Forces the runner transport `stdio` or `socket`.
    #[must_use]
    pub fn transport(mut self, transport: &str) -> Self {
        self.transport = Some(transport.to_owned());
        self
    }

    /// Starts this `aifo-coder serve` and waits until it listens.
    #[track_caller]
    pub fn start_as(self, serve: Command) -> Session {
        let kinds = self.kinds.len();
        Session::spawn(serve, self.scratch, kinds)
    }

    /// Starts `aifo-coder serve` and waits until it listens.
    #[track_caller]
    pub fn start(self) -> Session {
        let mut serve = self.coder();
        serve.args(["serve", "--workspace"]).arg(self.workspace());
        if Backend::chosen().is_engine() {
            // Without this, the session would create cache volumes of the user.
            serve.arg("--no-toolchain-cache");
        }
        for kind in &self.kinds {
            serve.args(["--toolchain", kind]);
        }
        match &self.listen {
            Listen::Default => {}
            Listen::Tcp => _ = serve.args(["--listen", "tcp://127.0.0.1:0"]),
            Listen::On(address) => _ = serve.args(["--listen", address]),
        }
        if let Some(transport) = &self.transport {
            serve.args(["--runner-transport", transport]);
        }
        if let Some(seconds) = self.max_secs {
            serve.arg("--max-secs").arg(seconds.to_string());
        }
        serve.args(&self.options);
        let kinds = self.kinds.len();
        self.spawn(serve, kinds)
    }

    /// Starts a command that serves this many sidecars, and waits until it listens.
    #[track_caller]
    pub(crate) fn spawn(self, serve: Command, kinds: usize) -> Session {
        Session::spawn(serve, self.scratch, kinds)
    }
}
