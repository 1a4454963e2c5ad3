//! One call: a tool, the side of the pair it is made on, and the way its bytes go.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell;

/// What is called. Each goes by a name that an allowlist has.
#[derive(Clone, Copy)]
pub(super) enum Tool {
    /// Ends at once.
    True,
    /// Ends after 10 ms.
    Nap,
    /// Writes so many bytes to its stdout.
    Output(u64),
    /// Says `ready` and waits for a signal.
    Wait,
}

/// The halves of a pair.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Native,
    Proxied,
}

/// How the bytes of a proxied call go.
#[derive(Clone, Copy)]
pub(super) enum Transport {
    /// By the caller's own pipes, which the tool is given.
    Passed,
    /// Through the call's connection.
    Relayed,
    /// Through the proxy, as version 2 has it.
    Version2,
}

/// Two directories that hold the same names: the tools, and their shims; and what a shim is told.
pub(super) struct Calls {
    pub(super) tools: PathBuf,
    pub(super) shims: PathBuf,
    pub(super) client_env: Vec<(String, String)>,
}

impl Calls {
    /// A call as agents make it: nothing to read, stdout and stderr a pipe each.
    pub(super) fn command(&self, side: Side, transport: Transport, tool: Tool) -> Command {
        let mut command = Command::new(self.program(side, tool));
        command.args(tool.args()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.set_environment(&mut command, transport);
        command
    }

    /// The file that is executed.
    pub(super) fn program(&self, side: Side, tool: Tool) -> PathBuf {
        let dir = match side {
            Side::Native => &self.tools,
            Side::Proxied => &self.shims,
        };
        dir.join(tool.name())
    }

    /// Tells a shim where to call, and how. The tools get the same, so that only the path of the
    /// program tells the sides apart.
    pub(super) fn set_environment(&self, command: &mut Command, transport: Transport) {
        command.envs(self.client_env.iter().map(|(name, value)| (name, value)));
        command.env_remove(PROTO).env_remove(RELAY);
        match transport {
            Transport::Passed => command,
            Transport::Relayed => command.env(RELAY, "1"),
            Transport::Version2 => command.env(PROTO, "2"),
        };
    }
}

const PROTO: &str = "AIFO_SHIM_PROTO";
const RELAY: &str = "AIFO_SHIM_RELAY";

impl Tool {
    /// All names, for the shims.
    pub(super) const NAMES: &[&str] = &[TRUE, NAP, FIXTURE];

    /// Fills the directory that stands first in the session's PATH.
    pub(super) fn make_all(dir: &Path) -> Result<()> {
        for (program, name) in [("true", TRUE), ("sleep", NAP)] {
            let program = shell::find_in_path(program)
                .with_context(|| format!("no `{program}` in the PATH"))?;
            symlink(program, dir.join(name))?;
        }
        symlink(std::env::current_exe()?, dir.join(FIXTURE))?;
        Ok(())
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::True => TRUE,
            Tool::Nap => NAP,
            Tool::Output(_) | Tool::Wait => FIXTURE,
        }
    }

    pub(super) fn args(self) -> Vec<String> {
        match self {
            Tool::True => Vec::new(),
            Tool::Nap => vec!["0.01".to_owned()],
            Tool::Output(bytes) => vec!["write".to_owned(), bytes.to_string()],
            Tool::Wait => vec!["wait".to_owned()],
        }
    }
}

const TRUE: &str = "make";
const NAP: &str = "ninja";
/// This very binary.
const FIXTURE: &str = "cmake";

/// Fails with what a call said when it did not end well.
pub(super) fn expect_success(output: &Output) -> Result<()> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("a call failed: {}\n{}", output.status, said.trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn the_sides_differ_in_the_path_alone() {
        let calls = Calls {
            tools: PathBuf::from("/tools"),
            shims: PathBuf::from("/shims"),
            client_env: vec![("AIFO_TOOLEEXEC_URL".to_owned(), "unix:///x".to_owned())],
        };
        let rows: [(Transport, [Option<&str>; 2]); 3] = [
            (Transport::Passed, [None, None]),
            (Transport::Relayed, [None, Some("1")]),
            (Transport::Version2, [Some("2"), None]),
        ];
        for (transport, [proto, relay]) in rows {
            let native = calls.command(Side::Native, transport, Tool::Output(7));
            let proxied = calls.command(Side::Proxied, transport, Tool::Output(7));
            assert_eq!(native.get_program(), "/tools/cmake");
            assert_eq!(proxied.get_program(), "/shims/cmake");
            assert!(native.get_args().eq(proxied.get_args()));
            let variables: Vec<_> = native.get_envs().collect();
            assert!(variables.iter().copied().eq(proxied.get_envs()));
            let expected = [("AIFO_SHIM_PROTO", proto), ("AIFO_SHIM_RELAY", relay)];
            for (name, value) in expected {
                assert!(variables.contains(&(OsStr::new(name), value.map(OsStr::new))), "{name}");
            }
        }
    }
}
