//! The request that every frontend produces.

use crate::{ExecId, TerminalModes, ToolName, WindowSize};

/// A request to run one tool: well-formed, not yet checked against the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    /// The id for signals to the call; its processes inherit it as the exec tag.
    pub id: ExecId,
    /// The tool as typed; it becomes `argv[0]`, unless there is a `program`.
    pub tool: ToolName,
    /// The absolute path by which the tool was called: the file to execute, and its `argv[0]`. Its
    /// last component is the tool. `None` looks the tool up in PATH. Where no proxy is, any name.
    pub program: Option<Vec<u8>>,
    /// The arguments after `argv[0]`: bytes without NUL, possibly empty.
    pub args: Vec<Vec<u8>>,
    /// The current directory in the tools' view; `None` is the workspace root.
    pub cwd: Option<Vec<u8>>,
    /// The caller process state that the tool inherits; only version 3 sends it.
    pub inherited: Inherited,
    /// The rule by which the tool runs without network. No client sends it.
    pub no_network: Option<String>,
    /// The directory that `cwd` must lead to: the one that a user was asked about. No client sends it.
    pub cwd_id: Option<FileId>,
}

/// A file or directory of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// The process state that a tool inherits from its caller (`spec/exec3.md#invocation`). The default
/// inherits nothing: `/dev/null` as stdin, and one passed descriptor as stdout and stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// `NAME=value`, overriding the runner environment.
    pub environment: Vec<Vec<u8>>,
    /// The file mode creation mask, at most 0o777; `None` is the runner's.
    pub umask: Option<u16>,
    /// The nice value, -20 to 19; `None` is the runner's.
    pub nice: Option<i8>,
    /// Soft resource limits.
    pub limits: Vec<SoftLimit>,
    /// Ignored signals: bit n - 1 is signal n.
    pub ignored: u64,
    /// Descriptors 0, 1 and 2.
    pub stdio: [Stdio; 3],
    /// The caller terminal; set exactly if one of `stdio` is [`Stdio::Terminal`].
    pub terminal: Option<TerminalSettings>,
}

/// A soft resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftLimit {
    /// The Linux number of the `RLIMIT_*`.
    pub resource: u8,
    /// The limit in the resource's unit; `u64::MAX` is unlimited.
    pub soft: u64,
}

/// The settings for the call's pseudo terminal, copied from the caller terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalSettings {
    /// The size.
    pub size: WindowSize,
    /// The modes.
    pub modes: TerminalModes,
}

/// The type of a standard descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// `/dev/null`.
    Null,
    /// A descriptor passed over the socket.
    Passed,
    /// A pipe relayed as frames.
    Relayed,
    /// The call's pseudo terminal.
    Terminal,
    /// Closed.
    Closed,
    /// The same open file as stdout; only for stderr.
    Same,
}

impl ExecRequest {
    /// Creates a request without arguments, to run in the workspace root and inherit nothing.
    pub fn new(id: ExecId, tool: ToolName) -> Self {
        ExecRequest {
            id,
            tool,
            program: None,
            args: Vec::new(),
            cwd: None,
            inherited: Inherited::default(),
            no_network: None,
            cwd_id: None,
        }
    }

    /// Returns the program's path, else the tool name, then the arguments.
    pub fn argv(&self) -> impl Iterator<Item = &[u8]> {
        let first = self.program.as_deref().unwrap_or(self.tool.as_str().as_bytes());
        std::iter::once(first).chain(self.args.iter().map(Vec::as_slice))
    }

    /// Returns the number of descriptors that are passed with the request.
    pub fn passed(&self) -> usize {
        self.inherited.stdio.iter().filter(|stdio| **stdio == Stdio::Passed).count()
    }
}

impl Default for Inherited {
    fn default() -> Self {
        Inherited {
            environment: Vec::new(),
            umask: None,
            nice: None,
            limits: Vec::new(),
            ignored: 0,
            stdio: [Stdio::Null, Stdio::Passed, Stdio::Same],
            terminal: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ExecRequest {
        let id = ExecId::parse(b"e1").unwrap();
        ExecRequest::new(id, ToolName::parse(b"make").unwrap())
    }

    #[test]
    fn argv_is_the_name_and_the_arguments() {
        let request = ExecRequest { args: vec![b"-j".to_vec(), Vec::new()], ..request() };
        assert_eq!(request.argv().collect::<Vec<_>>(), [&b"make"[..], b"-j", b""]);
        let program = Some(b"/ws/bin/make".to_vec());
        let request = ExecRequest { program, ..request };
        assert_eq!(request.argv().collect::<Vec<_>>(), [&b"/ws/bin/make"[..], b"-j", b""]);
    }

    #[test]
    fn number_of_passed_descriptors() {
        let rows = [
            ([Stdio::Passed; 3], 3),
            ([Stdio::Null, Stdio::Passed, Stdio::Same], 1),
            ([Stdio::Closed, Stdio::Relayed, Stdio::Terminal], 0),
        ];
        for (stdio, passed) in rows {
            let mut request = request();
            request.inherited.stdio = stdio;
            assert_eq!(request.passed(), passed, "{stdio:?}");
        }
    }
}
