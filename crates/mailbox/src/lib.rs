//! Host commands through files in a shared directory (`spec/mailbox.md`), for the daemon.
//!
//! In scope: file names; access to the directory through one descriptor; parsing of requests; encoding
//! of client information; PID files and their locks; claiming and answering a request; the request
//! queue and client liveness, as state machines without a clock; inotify; the shell script client.
//!
//! Out of scope: running commands (`aifo-proxy`).
//!
//! ```
//! use aifo_mailbox::{Arguments, FileKind, RequestId};
//!
//! let (id, kind) = RequestId::of_file(b"make.0f6c4be2.req").expect("a request");
//! assert_eq!(kind, FileKind::Request);
//! assert_eq!(id.command().map(|command| command.as_str()), Some("make"));
//! assert_eq!(id.file(FileKind::Stdout), "make.0f6c4be2.stdout");
//! assert_eq!(Arguments::parse(b"build\0\0").0, [b"build".to_vec(), b"".to_vec()]);
//! ```
//!
//! Architecture invariant: no file name or content in the directory is trusted; a container may
//! have written it. This crate follows no link, opens only regular files, and writes only to files
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

pub use arguments::Arguments;
pub use caller_info::{CallerInfo, WorkingDirectory};
pub use claim::{Claim, ClaimError, ClientFiles, InvalidRequest};
pub use client_info::ClientInfo;
pub use command_exit::{CommandExit, ExitReason};
pub use directory::{Directory, FileError};
pub use liveness::{Heartbeat, HeartbeatFile, Liveness};
pub use name::{CommandName, FileKind, InvalidCommandName, RequestId, client_info_file, pid_file};
pub use orphans::{OrphanFilter, remove_orphans};
pub use pid_file::{PidFile, PidFileError, served_commands};
pub use queue::RequestQueue;
pub use script::client_script;
pub use watch::{Watch, WatchEvent, WatchId};

/// Limits on resources that a container can use (`spec/mailbox.md#trust`); sizes in bytes.
pub mod limits {
    use std::time::Duration;

    /// A request's arguments, as for the body of a proxy request.
    pub const REQUEST: u64 = 1024 * 1024;
    /// A `.call` file: less than half of what the kernel accepts as an environment.
    pub const CALL: u64 = 1024 * 1024;
    /// A signal's name or number.
    pub const SIGNAL: u64 = 16;
    /// Concurrent commands. Each holds a handful of descriptors.
    pub const RUNNING: usize = 64;
    /// Queued requests. Further ones are found by reading the directory again.
    pub const WAITING: usize = 4096;
    /// Output of one stream of a command.
    pub const OUTPUT: u64 = 64 << 30;
    /// Age after which files are orphaned, and a client's default timeout.
    pub const ORPHAN_AGE: Duration = Duration::from_secs(300);
    /// Time without a touch after which a client without a lock is lost.
    pub const LIVENESS_TIMEOUT: Duration = Duration::from_secs(10);
}
