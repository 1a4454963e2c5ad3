//! What can be decided, and how it is told.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where a call runs, and why there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Here: the shim replaces itself by a runtime of the agent's own place.
    Local(Local),
    /// On the user's machine, as a notification.
    Notify(Notify),
    /// In a sidecar, if the proxy allows it.
    Proxy(Proxy),
}

/// A call that runs here. Its arguments stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// What to execute: an absolute path, never below the workspace. It must be `argv[0]` too,
    /// because python finds its installation, and `sys.executable`, by it.
    pub runtime: PathBuf,
    /// What the runtime will run.
    pub program: Program,
    /// Why here.
    pub reason: Reason,
}

/// A call that notifies. Its arguments stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The notification's name, one of the session's notify tools.
    pub command: String,
}

/// A call for a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Why there.
    pub reason: Reason,
    /// The program in the workspace, if that was the reason.
    pub program: Option<Program>,
}

/// What a runtime was asked to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A file or folder: absolute, without `.`, `..` and doubled slashes, links as they were typed.
    Path(PathBuf),
    /// A module that python finds by itself (`-m`).
    Module(Vec<u8>),
}

/// Why a call runs where it does. `Display` gives the word of the table in
/// `spec/decide.md#reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The program lies outside the workspace.
    OutsideWorkspace,
    /// The program is a python module.
    PythonModule,
    /// The tool is one of the session's notifications.
    NotifyTool,
    /// The tool is none of the runtimes that can be smart.
    NotARuntime,
    /// The toggle of this runtime is off.
    SmartOff,
    /// The program lies in the workspace.
    InsideWorkspace,
    /// The program's path is outside, and a link on it leads into the workspace.
    LinkIntoWorkspace,
    /// No program is named: an interactive session, a program on stdin, `--version`.
    NoProgram,
    /// The program is `-`, which is stdin.
    StdinProgram,
    /// The program is text in the arguments.
    Eval,
    /// `node --test`.
    TestRunner,
    /// `node --run`, a script of `package.json`.
    RunScript,
    /// `node --entry-url`: what follows is a URL.
    EntryUrl,
    /// `node inspect` without a program of its own.
    Debugger,
}

impl Decision {
    /// The decision as the body of one log line.
    ///
    /// `tool` is the call's. A value that holds anything but plain characters is quoted and
    /// escaped, so that a line stays one line and cannot speak to a terminal.
    pub fn log_line(&self, tool: &[u8]) -> String {
        let (mode, reason) = match self {
            Decision::Local(local) => ("local", local.reason),
            Decision::Notify(_) => ("notify", Reason::NotifyTool),
            Decision::Proxy(proxy) => ("proxy", proxy.reason),
        };
        let program = match self {
            Decision::Local(local) => Some(&local.program),
            Decision::Notify(_) => None,
            Decision::Proxy(proxy) => proxy.program.as_ref(),
        };
        let mut line = format!("smart: tool={} mode={mode} reason={reason}", quote(tool));
        if let Some(program) = program {
            line += &format!(" program={program}");
        }
        if let Decision::Local(local) = self {
            line += &format!(" local={}", quote(local.runtime.as_os_str().as_bytes()));
        }
        line
    }
}

/// The path or the module's name, as one word of one line.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Program::Path(path) => quote(path.as_os_str().as_bytes()),
            Program::Module(name) => quote(name),
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::OutsideWorkspace => "outside-workspace",
            Reason::PythonModule => "python-module",
            Reason::NotifyTool => "notify-tool",
            Reason::NotARuntime => "not-a-runtime",
            Reason::SmartOff => "smart-off",
            Reason::InsideWorkspace => "inside-workspace",
            Reason::LinkIntoWorkspace => "link-into-workspace",
            Reason::NoProgram => "no-program",
            Reason::StdinProgram => "stdin-program",
            Reason::Eval => "eval",
            Reason::TestRunner => "test-runner",
            Reason::RunScript => "run-script",
            Reason::EntryUrl => "entry-url",
            Reason::Debugger => "debugger",
        })
    }
}

/// A value as one word of one line.
fn quote(value: &[u8]) -> String {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./:=+,@%".contains(b);
    if !value.is_empty() && value.iter().all(is_plain) {
        return String::from_utf8_lossy(value).into_owned();
    }
    format!("\"{}\"", value.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_each() {
        let path = |path: &str| Program::Path(path.into());
        let local = |program| {
            let runtime = "/usr/bin/node".into();
            Decision::Local(Local { runtime, program, reason: Reason::OutsideWorkspace })
        };
        let proxy = |reason, program| Decision::Proxy(Proxy { reason, program });
        let rows = [
            (
                local(path("/opt/x.js")),
                "smart: tool=node mode=local reason=outside-workspace program=/opt/x.js \
                 local=/usr/bin/node",
            ),
            (
                local(path("/opt/a b\n\x1b[2J\".js")),
                "smart: tool=node mode=local reason=outside-workspace \
                 program=\"/opt/a b\\n\\x1b[2J\\\".js\" local=/usr/bin/node",
            ),
            (
                local(Program::Module(vec![])),
                "smart: tool=node mode=local reason=outside-workspace program=\"\" \
                 local=/usr/bin/node",
            ),
            (
                proxy(Reason::InsideWorkspace, Some(path("/workspace/a.js"))),
                "smart: tool=node mode=proxy reason=inside-workspace program=/workspace/a.js",
            ),
            (proxy(Reason::Eval, None), "smart: tool=node mode=proxy reason=eval"),
            (
                Decision::Notify(Notify { command: "say".into() }),
                "smart: tool=node mode=notify reason=notify-tool",
            ),
        ];
        for (decision, line) in rows {
            assert_eq!(decision.log_line(b"node"), line);
        }
    }
}
