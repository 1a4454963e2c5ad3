//! The configuration of a proxy.

use std::path::PathBuf;
use std::time::Duration;

use aifo_policy::{Forwarding, NotifyRules, Policy};
use aifo_types::Token;
use aifo_wire::Limits;

use crate::fd_passing::SharedDirectories;
use crate::record::CallLog;
use crate::running_table::RunningTable;

/// What a proxy is told by whoever owns the session.
#[derive(Debug)]
pub struct ProxyConfig {
    /// What clients have to present.
    pub token: Token,
    /// Which tools run, and where.
    pub policy: Policy,
    /// Which notifications may be run on the host.
    pub notify: NotifyRules,
    /// Who is told of every call.
    pub call_log: CallLog,
    /// Where it stands what runs.
    pub running_table: RunningTable,
    /// What clients may send, and how many may run.
    pub limits: Limits,
    /// How long a tool may run, or `None` for as long as it likes.
    pub max_runtime: Option<Duration>,
    /// Whether buffered output is set off from what a user interface draws around it.
    pub transcript: Transcript,
    /// A directory for output that is too large for memory; on disk rather than in it.
    pub spool_dir: PathBuf,
    /// Which of a caller's variables its tool gets.
    pub forwarding: Forwarding,
    /// Where agent and tools share files.
    pub shared_directories: SharedDirectories,
    /// What every call executes, in place of what is found in the sidecar's PATH: for a proxy that
    /// stands before one program. An absolute path where the sidecar is.
    pub program: Option<PathBuf>,
}

/// How the body of a version 1 answer is framed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transcript {
    /// The tool's bytes, nothing else.
    #[default]
    Plain,
    /// A newline before and after, as verbose mode has it.
    OnOwnLines,
}
