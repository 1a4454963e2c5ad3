//! The possible decisions and their log line.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use aifo_types::quote_word;

/// Where a call runs, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Locally: the shim executes a runtime of the agent's own system.
    Local(Local),
    /// On the host, as a notification.
    Notify(Notify),
    /// In a sidecar, if the proxy allows it.
    Proxy(Proxy),
}

/// A call that runs locally, with unchanged arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The file to execute: an absolute path outside the workspace. It must be `argv[0]` too:
    /// python derives its installation and `sys.executable` from it.
    pub runtime: PathBuf,
    /// The program that the runtime runs.
    pub program: Program,
    /// Why it runs locally.
    pub reason: Reason,
}

/// A notification, with unchanged arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The notification's name, one of the session's notify tools.
    pub command: String,
}

/// A call that goes to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Why it goes to the proxy.
    pub reason: Reason,
    /// The program in the workspace, if it is the reason.
    pub program: Option<Program>,
}

/// The program that a runtime runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A file or directory: absolute, without `.`, `..` and repeated slashes, links unresolved.
    Path(PathBuf),
    /// A python module (`-m`).
    Module(Vec<u8>),
}

/// Why a call runs where it does. `Display` prints the word from `spec/decide.md#reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The program is outside the workspace.
    OutsideWorkspace,
    /// The program is a python module.
    PythonModule,
    /// The tool is one of the session's notifications.
    NotifyTool,
    /// An interpreter, called by a path of its own.
    CalledByPath,
    /// A python module that creates or fills an environment.
    EnvironmentModule,
    /// The tool is neither node nor python.
    NotARuntime,
    /// The runtime's toggle is off.
    SmartOff,
    /// The program is in the workspace.
    InsideWorkspace,
    /// The program's path is outside the workspace, but a link in it points into the workspace.
    LinkIntoWorkspace,
    /// The arguments name no program: an interactive session or `--version`.
    NoProgram,
    /// The program is `-`, stdin.
    StdinProgram,
    /// The program is an argument (`-e`, `-c`).
    Eval,
    /// `node --test`.
    TestRunner,
    /// `node --run`, a script of `package.json`.
    RunScript,
    /// `node --entry-url`: the program is a URL.
    EntryUrl,
    /// `node inspect` without a program.
    Debugger,
}

impl Decision {
    /// Returns the decision about a call of `tool` as one log line.
    ///
    /// Values with special characters are quoted and escaped: the text is a single line and
    /// contains no terminal control sequence.
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
        let mut line = format!("smart: tool={} mode={mode} reason={reason}", quote_word(tool));
        if let Some(program) = program {
            line += &format!(" program={program}");
        }
        if let Decision::Local(local) = self {
            line += &format!(" local={}", quote_word(local.runtime.as_os_str().as_bytes()));
        }
        line
    }
}

/// The path or the module's name as one word of a log line.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Program::Path(path) => quote_word(path.as_os_str().as_bytes()),
            Program::Module(name) => quote_word(name),
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::OutsideWorkspace => "outside-workspace",
            Reason::PythonModule => "python-module",
            Reason::NotifyTool => "notify-tool",
            Reason::CalledByPath => "called-by-path",
            Reason::EnvironmentModule => "environment-module",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines() {
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
