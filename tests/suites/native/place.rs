//! The environment of compared calls: a session, real tools, and the modes of calling them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{Listen, Session, SessionSetup, Tool, binaries};

use crate::native::invocation::{CAT, FAKE, Invocation, NO_INTERPRETER, NOT_EXECUTABLE, SHELL};

/// How a call reaches its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The tool is first in PATH.
    Native,
    /// The shim is first; over a unix socket, so descriptors are passed.
    Passed,
    /// The same without passed descriptors.
    Relayed,
    /// The session listens on TCP.
    Tcp,
    /// The shim uses version 2.
    Version2,
}

impl Mode {
    /// Its name in `spec/native.md`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Passed => "passed",
            Mode::Relayed => "relay",
            Mode::Tcp => "tcp",
            Mode::Version2 => "v2",
        }
    }

    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Mode::Native | Mode::Passed | Mode::Tcp => &[],
            Mode::Relayed => &[("AIFO_SHIM_RELAY", "1")],
            Mode::Version2 => &[("AIFO_SHIM_PROTO", "2")],
        }
    }
}

/// A session whose sidecars have real tools, and a directory outside the workspace.
pub(crate) struct Place {
    session: Session,
}

/// The system's program directories, for callers and for children of tools.
const SYSTEM: &str = "/usr/bin:/bin";
/// The required real tools, by name.
const SYSTEM_TOOLS: &[&str] = &["make", "gcc", "cc", "g++", "python3", "node"];
const KINDS: &[&str] = &["c-cpp", "rust", "node", "python"];

impl Place {
    /// A place for calls in this mode and natively.
    pub(crate) fn new(mode: Mode) -> Self {
        let listen = if mode == Mode::Tcp { Listen::Tcp } else { Listen::Default };
        let mut setup = SessionSetup::new()
            .kinds(KINDS)
            .listen(listen)
            .tool(FAKE, Tool::Link(binaries().tool.clone()))
            .tool(SHELL, Tool::Link("/bin/sh".into()))
            .tool(CAT, Tool::Link("/bin/cat".into()))
            .tool(NO_INTERPRETER, Tool::File(b"#!/no/such/interpreter\n".to_vec(), 0o755))
            .tool(NOT_EXECUTABLE, Tool::File(b"#!/bin/sh\n".to_vec(), 0o644));
        for tool in SYSTEM_TOOLS {
            setup = setup.tool(tool, Tool::Link(Path::new("/usr/bin").join(tool)));
        }
        for tool in ["cargo", "rustc"] {
            setup = setup.tool(tool, Tool::Link(toolchain().join(tool)));
        }
        let path = format!("{}:{SYSTEM}", setup.tools().display());
        let session = setup.env("PATH", &path).start();
        Place { session }
    }

    /// The shell that makes a call in this mode, in its own empty directory.
    ///
    /// `number` distinguishes concurrent calls; the directory is the same for every mode, because
    /// its path is observable.
    pub(crate) fn caller(&self, invocation: &Invocation, mode: Mode, number: usize) -> Command {
        let (inside, outside) = (self.inside(number), self.outside(number));
        for dir in [&inside, &outside] {
            // Fails for the first call.
            let _ = fs::remove_dir_all(dir);
            fs::create_dir_all(dir).expect("the session directories are writable");
        }
        for (name, content) in &invocation.files {
            fs::write(inside.join(name), content).expect("the directory is writable");
            fs::write(outside.join(name), content).expect("the directory is writable");
        }
        let outside = outside.to_str().expect("the scratch path is text");
        let script = invocation.caller.replace("{outside}", outside);
        let mut caller = Command::new("/bin/sh");
        caller.args(["-c", &script, "sh", invocation.tool]).args(&invocation.args);
        caller.current_dir(&inside).env_clear();
        self.set_environment(&mut caller, invocation, mode);
        caller
    }

    fn set_environment(&self, caller: &mut Command, invocation: &Invocation, mode: Mode) {
        let scratch = self.session.scratch();
        let tools = if mode == Mode::Native { "tools" } else { "shims" };
        caller
            .env("PATH", format!("{}:{SYSTEM}", scratch.join(tools).display()))
            .env("HOME", scratch.join("home"))
            .env("TMPDIR", scratch.join("run"))
            .env("LANG", "C");
        if mode != Mode::Native {
            // This also creates the shim with the tool name.
            let shim = self.session.shim(invocation.tool);
            let settings = shim.get_envs().filter(|(name, _)| *name != "PATH");
            caller.envs(settings.filter_map(|(name, value)| Some((name, value?))));
            caller.env("AIFO_WORKSPACE", self.session.workspace());
            caller.envs(mode.settings().iter().copied());
        }
        caller.envs(invocation.env.iter().map(|(name, value)| (name, value)));
    }

    /// A call directory.
    pub(crate) fn inside(&self, number: usize) -> PathBuf {
        self.session.workspace().join(number.to_string())
    }

    /// Its directory outside the workspace, with the same files.
    pub(crate) fn outside(&self, number: usize) -> PathBuf {
        self.session.scratch().join("outside").join(number.to_string())
    }
}

/// The directory of this build's toolchain: programs in the user's PATH may be wrappers that search
/// the user's HOME.
fn toolchain() -> PathBuf {
    let cargo = std::env::var_os("CARGO").map(PathBuf::from).expect("cargo runs the tests");
    cargo.parent().expect("a program lies in a directory").to_path_buf()
}
