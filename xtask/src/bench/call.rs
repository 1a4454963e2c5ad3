//! One benchmark call: the tool, native or proxied, and its transport.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::shell;

/// The tool that is called. Each has a name that an allowlist holds.
#[derive(Clone, Copy)]
pub(super) enum Tool {
    /// Exits at once.
    True,
    /// Sleeps for this time.
    Nap(Duration),
    /// `gcc --version`.
    Gcc,
    /// `perl -e 1`.
    Perl,
    /// Writes this many bytes to stdout.
    Output(u64),
    /// Prints `ready` and waits for a signal.
    Wait,
}

/// The two calls of a pair.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Native,
    Proxied,
}

/// How a proxied call's bytes are carried.
#[derive(Clone, Copy)]
pub(super) enum Transport {
    /// Over the caller's own pipes, which are passed to the tool.
    Passed,
    /// Over the call connection.
    Relayed,
    /// Through the proxy, as in version 2.
    Version2,
}

/// A directory of tools and one of shims with the same names, and the shims' environment.
pub(super) struct Calls {
    pub(super) tools: PathBuf,
    pub(super) shims: PathBuf,
    pub(super) client_env: Vec<(String, String)>,
}

impl Calls {
    /// A call as an agent makes it: stdin is empty, stdout and stderr are pipes.
    pub(super) fn command(&self, side: Side, transport: Transport, tool: Tool) -> Command {
        let mut command = Command::new(self.program(side, tool));
        command.args(tool.args()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.set_environment(&mut command, transport);
        command
    }

    /// The program's path.
    pub(super) fn program(&self, side: Side, tool: Tool) -> PathBuf {
        let dir = match side {
            Side::Native => &self.tools,
            Side::Proxied => &self.shims,
        };
        dir.join(tool.name())
    }

    /// Sets the shim variables. Both sides get them, so that only the program's path differs.
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
    pub(super) const NAMES: &[&str] = &[TRUE, NAP, GCC, PERL, FIXTURE];

    /// Fills the directory that is first in the session PATH.
    pub(super) fn make_all(dir: &Path) -> Result<()> {
        for (program, name) in [("true", TRUE), ("sleep", NAP), ("gcc", GCC), ("perl", PERL)] {
            let program = shell::find_in_path(program)
                .with_context(|| format!("'{program}' is not in PATH"))?;
            symlink(program, dir.join(name))?;
        }
        symlink(std::env::current_exe()?, dir.join(FIXTURE))?;
        Ok(())
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::True => TRUE,
            Tool::Nap(_) => NAP,
            Tool::Gcc => GCC,
            Tool::Perl => PERL,
            Tool::Output(_) | Tool::Wait => FIXTURE,
        }
    }

    pub(super) fn args(self) -> Vec<String> {
        match self {
            Tool::True => Vec::new(),
            Tool::Nap(time) => vec![time.as_secs_f64().to_string()],
            Tool::Gcc => vec!["--version".to_owned()],
            Tool::Perl => vec!["-e".to_owned(), "1".to_owned()],
            Tool::Output(bytes) => vec!["write".to_owned(), bytes.to_string()],
            Tool::Wait => vec!["wait".to_owned()],
        }
    }
}

const TRUE: &str = "make";
const NAP: &str = "ninja";
const GCC: &str = "gcc";
const PERL: &str = "clang";
/// This binary.
const FIXTURE: &str = "cmake";

/// Fails with a call output if its status is not success.
pub(super) fn expect_success(output: &Output) -> Result<()> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("a call failed: {}\n{}", output.status, said.trim_end());
    }
    Ok(())
}

/// Reads to the end in blocks of a pipe's size and counts the bytes.
pub(super) fn count(mut from: impl Read) -> Result<u64> {
    let mut block = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        match from.read(&mut block)? {
            0 => return Ok(total),
            len => total += len as u64,
        }
    }
}

/// Fails if bytes are missing or surplus.
pub(super) fn expect_bytes(expected: u64, arrived: u64) -> Result<()> {
    if arrived != expected {
        bail!("received {arrived} of {expected} bytes");
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
