//! Host commands through files (`spec/mailbox.md`): the one place that knows what lies in such a
//! directory, for the daemon at one side of it and the client at the other.
//!
//! In scope: the names of files; a handle on the directory through which nothing outside of it is
//! reached; requests, calls, endings and what clients are to know, as bytes; PID files and their locks;
//! claiming a request and answering it; which requests are under way, and whether somebody still waits
//! for one, as state machines without a clock; inotify; and the client that is a shell script.
//!
//! Out of scope: running anything (`aifo-doors`), and the client that is a program (`aifo-shim`).
//!
//! ```
//! use aifo_mailbox::{Arguments, FileKind, RequestId};
//!
//! let (id, part) = RequestId::of_file(b"make.0f6c4be2.req").expect("a request");
//! assert_eq!(part, FileKind::Request);
//! assert_eq!(id.command().map(|command| command.as_str()), Some("make"));
//! assert_eq!(id.file(FileKind::Stdout), "make.0f6c4be2.stdout");
//! assert_eq!(Arguments::parse(b"build\0\0").0, [b"build".to_vec(), b"".to_vec()]);
//! ```
//!
//! Architecture invariant: a container may have made every byte and every name in that directory.
//! Nothing here follows a link, opens what is no regular file, or writes into a file that was there.

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

pub use arguments::{Arguments, ContainsNul};
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

/// Bounds on what a container can make us hold or read (`spec/mailbox.md#trust`); sizes in bytes.
pub mod limits {
    use std::time::Duration;

    /// A request's arguments: as much as a body of the protocol's other versions may have.
    pub const REQUEST: u64 = 1024 * 1024;
    /// A call: what the kernel takes as an environment, less than half of it.
    pub const CALL: u64 = 1024 * 1024;
    /// The name or number of a signal.
    pub const SIGNAL: u64 = 16;
    /// What else is read: numbers, reasons, what clients are to know.
    pub const SMALL: u64 = 64 * 1024;
    /// Commands at once. Each has a handful of descriptors.
    pub const RUNNING: usize = 64;
    /// Requests whose names are remembered while they wait; the others are found again.
    pub const WAITING: usize = 4096;
    /// What one stream of a command may print: far more than anybody reads, less than a disk.
    pub const OUTPUT: u64 = 64 << 30;
    /// How far clients read ahead of what the command was given.
    pub const STDIN_AHEAD: u64 = 1024 * 1024;
    /// Nobody is told of anything so old: clients wait 300 s by themselves.
    pub const ORPHAN_AGE: Duration = Duration::from_secs(300);
    /// How long a client may go without a sign of life if it holds no lock.
    pub const LIVENESS_TIMEOUT: Duration = Duration::from_secs(10);
    /// How often it gives one.
    pub const TOUCH_INTERVAL: Duration = Duration::from_secs(2);
}
