//! A proxy configuration.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use aifo_policy::{Forwarding, NotifyRules, Policy};
use aifo_types::{Token, ToolName};
use aifo_wire::Limits;

use crate::approval::CallApprovals;
use crate::fd_passing::SharedDirectories;
use crate::record::CallLog;
use crate::running_table::RunningTable;

/// A proxy configuration.
#[derive(Debug)]
pub struct ProxyConfig {
    /// The token that clients must send.
    pub token: Token,
    /// The allowlists and routes.
    pub policy: Policy,
    /// The verdicts on calls, and the calls that wait for approval.
    pub approvals: CallApprovals,
    /// The tools that their callers run themselves once they are judged.
    pub in_place: BTreeSet<ToolName>,
    /// The notifications that may run on the host.
    pub notify: NotifyRules,
    /// Receives a record of each call.
    pub call_log: CallLog,
    /// Lists the running calls.
    pub running_table: RunningTable,
    /// Limits on requests and on running calls.
    pub limits: Limits,
    /// The time limit of a tool; `None` for no limit.
    pub max_runtime: Option<Duration>,
    /// The framing of version 1 responses.
    pub transcript: Transcript,
    /// A directory for output that is too large for memory; on a disk, not on a tmpfs.
    pub spool_dir: PathBuf,
    /// The variables that a caller passes to its tool.
    pub forwarding: Forwarding,
    /// The directories that agent and tools share.
    pub shared_directories: SharedDirectories,
    /// The program that every call executes, instead of the one in the sidecar PATH; an absolute
    /// path in the sidecar. For a proxy that serves one program.
    pub program: Option<PathBuf>,
}

/// The framing of the body of a version 1 response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transcript {
    /// The tool bytes alone.
    #[default]
    Plain,
    /// A newline before and after, for verbose mode.
    OnOwnLines,
}
