//! Processes: everything about starting, signalling and ending them, in one place.
//!
//! In scope: spawning a program in its own process group without copying our address space, its
//! standard fds, limits and terminal, who goes first when memory runs out, reaping, signals of any
//! number, the INT/TERM/KILL ladder as a state machine without a clock, finding every process of an
//! exec by its mark, confining what is started, pseudo terminals, the terminal we were started on,
//! passing fds over a unix socket, and starting without the standard library's changes to what our
//! parent gave us.
//!
//! Out of scope: what is run and why (`aifo-runner`), and the bytes that say so (`aifo-wire`).
//!
//! ```
//! use aifo_process::{EscalationPlan, Escalation};
//! use aifo_types::Signal;
//! use std::time::{Duration, Instant};
//!
//! let start = Instant::now();
//! let mut escalation = Escalation::new(EscalationPlan::Cancel, start);
//! assert_eq!(escalation.handle_timeout(start), Some(Signal::Int));
//! assert_eq!(escalation.handle_timeout(start), None);
//! assert_eq!(escalation.poll_timeout(), start + Duration::from_secs(1));
//! ```
//!
//! Architecture invariant: this crate is the only one with `unsafe`, all of it in `sys`, and it
//! does not know what an exec request, a sidecar or a proxy is.

mod confine;
mod descendants;
mod escalation;
mod exec_tag;
mod fd_passing;
mod limits;
mod lookup;
mod oom_score;
mod pty;
mod reaper;
mod same_object;
mod signal_set;
mod signals;
mod spawn;
mod start;
mod sys;
pub mod terminal;
mod unix_address;

pub use confine::{ConfineError, Confinement, Enforcement, confine, enforcement};
pub use descendants::{descendants_of, end_descendants};
pub use escalation::{Escalation, EscalationPlan};
pub use exec_tag::{ExecTag, kill_tagged, signal_tagged, tagged_processes, terminate_tagged};
pub use fd_passing::{Received, SendMode, receive_with_fds, send_with_fds};
pub use limits::{ResourceLimit, current_limits, nice, raise_open_files};
pub use lookup::{Lookup, find_in_path};
pub use oom_score::{OomScore, RaisedOomScore};
pub use pty::{Pty, resize};
pub use reaper::{ChildEvent, Reaped, has_children, reap};
pub use same_object::is_same_object;
pub use signal_set::{CaughtSignal, CaughtSignals, SignalSet};
pub use signals::{
    become_subreaper, die_by_signal, forbid_tracing, ignored_signals, is_ignored,
    reset_dispositions, set_parent_death_signal, signal_group_number, signal_process,
};
pub use spawn::{Group, Spawn, SpawnError, variable};
#[doc(hidden)]
pub use start::start;
pub use start::{closed_standard_fds, ignore_broken_pipes};
pub use sys::{
    accept, bytes_in_pipe, drop_capabilities, environment, executed_path, give_back_freed_memory,
    landlock_version, pidfd_open, random_bits, take_fd,
};
pub use unix_address::UnixAddress;
