//! Processes: everything about starting, signalling and ending them, in one place.
//!
//! In scope: spawning a program in its own process group without copying our address space, its
//! standard fds, reaping, the INT/TERM/KILL ladder as a state machine without a clock, finding
//! every process of an exec by its mark, confining what is started, and passing fds over a unix
//! socket.
//!
//! Out of scope: what is run and why (`aifo-runner`), and the bytes that say so (`aifo-wire`).
//!
//! ```
//! use aifo_process::{Ladder, Escalation};
//! use aifo_types::Signal;
//! use std::time::{Duration, Instant};
//!
//! let start = Instant::now();
//! let mut escalation = Escalation::new(Ladder::Cancel, start);
//! assert_eq!(escalation.handle_timeout(start), Some(Signal::Int));
//! assert_eq!(escalation.handle_timeout(start), None);
//! assert_eq!(escalation.poll_timeout(), start + Duration::from_secs(1));
//! ```
//!
//! Architecture invariant: this crate is the only one with `unsafe`, all of it in `sys.rs`, and it
//! does not know what an exec request, a sidecar or a proxy is.

mod census;
mod confine;
mod descendants;
mod escalation;
mod fd_passing;
mod lookup;
mod reaper;
mod signals;
mod spawn;
mod sys;
mod unix_address;

pub use census::{Mark, processes_marked, signal_marked, sweep};
pub use confine::{ConfineError, Confinement, Enforcement, confine, enforcement};
pub use descendants::{descendants_of, end_descendants};
pub use escalation::{Escalation, Ladder};
pub use fd_passing::{Received, receive_with_fds, send_with_fds};
pub use lookup::{Lookup, find_in_path};
pub use reaper::{Reaped, reap};
pub use signals::{
    become_subreaper, die_of, die_with_parent, raise_open_files, reset_dispositions, signal_group,
    signal_process,
};
pub use spawn::{Group, OpenFilesLimit, Spawn, SpawnError, variable};
pub use sys::{accept, give_back_freed_memory, is_ignored, random_bits, take_fd};
pub use unix_address::UnixAddress;
