//! The files of a mailbox, in a directory that containers share (`spec/mailbox.md`).
//!
//! In scope: file names; access to the directory through one descriptor; parsing of requests; encoding
//! of client information; PID files and their locks; claiming and answering a request; the request
//! queue and client liveness, as state machines without a clock; inotify; the shell script client.
//!
//! Out of scope: running commands.
//!
//! Architecture invariant: no file name or content in the directory is trusted; a container may
//! have written it. This module follows no link, opens only regular files, and writes only to files
//! that it has created.

mod arguments;
mod caller_info;
mod claim;
mod client_info;
mod command_exit;
mod directory;
mod liveness;
mod name;
mod orphans;
mod pid_file;
mod queue;
mod script;
mod watch;

pub(crate) use arguments::Arguments;
pub(crate) use caller_info::{CallerInfo, WorkingDirectory};
pub(crate) use claim::{Claim, ClaimError, ClientFiles};
pub(crate) use client_info::ClientInfo;
pub(crate) use command_exit::{CommandExit, ExitReason};
pub use directory::Directory;
pub(crate) use directory::FileError;
pub(crate) use liveness::{HeartbeatFile, Liveness};
pub use name::{CommandName, InvalidCommandName};
pub(crate) use name::{FileKind, RequestId, client_info_file};
pub(crate) use orphans::{OrphanFilter, remove_orphans};
pub(crate) use pid_file::{PidFile, PidFileError, served_commands};
pub(crate) use queue::RequestQueue;
pub(crate) use script::client_script;
pub(crate) use watch::{Watch, WatchEvent, WatchId};

/// Limits on resources that a container can use (`spec/mailbox.md#trust`); sizes in bytes.
pub(crate) mod limits {
    use std::time::Duration;

    /// A request's arguments, as for the body of a proxy request.
    pub(crate) const REQUEST: u64 = 1024 * 1024;
    /// A `.call` file: less than half of what the kernel accepts as an environment.
    pub(crate) const CALL: u64 = 1024 * 1024;
    /// A signal's name or number.
    pub(crate) const SIGNAL: u64 = 16;
    /// Concurrent commands. Each holds a handful of descriptors.
    pub(crate) const RUNNING: usize = 64;
    /// Queued requests. Further ones are found by reading the directory again.
    pub(crate) const WAITING: usize = 4096;
    /// Output of one stream of a command.
    pub(crate) const OUTPUT: u64 = 64 << 30;
    /// Age after which files are orphaned, and a client's default timeout.
    pub(crate) const ORPHAN_AGE: Duration = Duration::from_secs(300);
    /// Time without a touch after which a client without a lock is lost.
    pub(crate) const LIVENESS_TIMEOUT: Duration = Duration::from_secs(10);
}
