//! An agent's runtimes and the sidecars' ones, each of which prints how it was started.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use aifo_tests::{Scratch, Session, SessionSetup, Tool, binaries, write_script};

/// An agent's python outside the workspace. It is a shell, so that a program can print its name and
/// pid.
pub(crate) struct Place {
    scratch: Scratch,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Place { scratch: Scratch::new() };
        for dir in ["agent", "runtime", "shims"] {
            fs::create_dir(place.path(dir)).unwrap();
        }
        symlink("/bin/sh", place.path("runtime/python3")).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The agent program.
    pub(crate) fn program(&self, text: &str) -> PathBuf {
        let path = self.path("agent/program");
        fs::write(&path, text).unwrap();
        path
    }

    /// A runtime that is a script.
    pub(crate) fn script(&self, name: &str, body: &str) {
        write_script(self.path(name), body);
    }

    /// A shim with all smart decisions on, with or without a session.
    pub(crate) fn shim(&self, session: Option<&Session>, tool: &str) -> Command {
        let mut shim = match session {
            Some(session) => session.shim(tool),
            None => {
                let link = self.path("shims").join(tool);
                let _ = symlink(&binaries().shim, &link);
                let mut shim = Command::new(link);
                shim.env_clear().current_dir(self.path("agent")).stdin(Stdio::null());
                shim
            }
        };
        let workspace = session.map_or(PathBuf::from("/workspace"), Session::workspace);
        shim.env("AIFO_WORKSPACE", workspace)
            .env("AIFO_SHIM_SMART", "1")
            .env("AIFO_SHIM_SMART_NODE", "1")
            .env("AIFO_SHIM_SMART_PYTHON", "1")
            .env("AIFO_SHIM_LOCAL_PYTHON", self.path("runtime/python3"));
        shim
    }
}

/// A session whose sidecars have fake runtimes.
pub(crate) fn session() -> Session {
    let setup = SessionSetup::new().kinds(&["node", "python"]).verbose();
    let tools = ["node", "python3", "pip", "npm"];
    tools.into_iter().fold(setup, |setup, tool| setup.tool(tool, Tool::Fake)).start()
}
