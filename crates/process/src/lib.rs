//! Starting, signalling, confining and ending processes.
//!
//! In scope: spawning a program in its own process group with given standard descriptors, limits and
//! terminal; OOM scores; reaping; signals of any number; the INT/TERM/KILL escalation as a state
//! machine without a clock; finding the processes of an exec by its exec tag; Landlock confinement;
//! a filter of system calls; paths that stay below a directory; a child with a time limit;
//! terminals and pseudo terminals; passing descriptors over unix sockets; and a program start that
//! bypasses the standard library's changes to inherited descriptors and signals.
//!
//! Out of scope: which program runs and why (`aifo-runner`), and the wire format (`aifo-wire`).
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
//! Architecture invariant: this is the only crate with `unsafe`, all of it in `sys`. It contains no
//! notion of exec requests, sidecars or proxies.

mod borrowed_rights;
mod confine;
mod credentials;
mod descendants;
mod descriptor_path;
mod ending;
mod escalation;
mod exec_tag;
mod fd_passing;
mod forwarded_signals;
mod initial_stack;
mod limits;
mod lookup;
mod namespace;
mod network_stack;
mod oom_score;
mod pinned_process;
mod private_mode;
mod pty;
mod reaper;
mod root_directory;
mod routing_socket;
mod same_object;
mod selected;
mod signal_set;
mod signals;
mod socket_owner;
mod spawn;
mod start;
mod sys;
mod syscall_filter;
pub mod terminal;
mod timed_child;
mod unix_address;

pub use borrowed_rights::with_rights_of;
pub use confine::{ConfineError, Confinement, Enforcement, confine, enforcement};
pub use credentials::Credentials;
pub use descendants::{descendants_of, end_descendants, parent_of};
pub use descriptor_path::{current_path, descriptor_path, file_id};
pub use ending::ending_of;
pub use escalation::{Escalation, EscalationPlan};
pub use exec_tag::{ExecTag, kill_tagged, signal_tagged, tagged_processes, terminate_tagged};
pub use fd_passing::{Received, SendMode, receive_with_fds, send_with_fds};
pub use forwarded_signals::run_with_signals;
pub use initial_stack::{InitialStack, StackLayout, parse_stack};
pub use limits::{
    ResourceLimit, current_limits, nice, raise_open_files, with_inherited_open_files,
};
pub use lookup::{Lookup, find_in_path, is_executable};
pub use namespace::{NamespaceError, enter_namespace};
pub use network_stack::{create_network_stack, join_network_stack, try_network_stack};
pub use oom_score::{OomScore, RaisedOomScore};
pub use pinned_process::PinnedProcess;
pub use private_mode::restore_private_mode;
pub use pty::{MAX_INPUT, Pty, resize, take_unread_input};
pub use reaper::{ChildEvent, Reaped, has_children, reap, reap_children_of_thread};
pub use root_directory::{Links, RootDirectory, open_regular};
pub use routing_socket::RoutingSocket;
pub use same_object::is_same_object;
pub use selected::signal_selected;
pub use signal_set::{CaughtSignal, CaughtSignals, SignalSet};
pub use signals::{
    become_subreaper, die_by_signal, forbid_tracing, ignored_signals, is_ignored,
    reset_dispositions, set_parent_death_signal, signal_group_number, signal_process,
};
pub use socket_owner::{SocketTable, socket_owners};
pub use spawn::{Group, Spawn, SpawnError, variable};
#[doc(hidden)]
pub use start::start;
pub use start::{closed_standard_fds, ignore_broken_pipes};
#[doc(hidden)]
pub use sys::before_c_library;
pub use sys::kernel;
pub use sys::spawn::Starting;
pub use sys::{
    Arena, accept, bytes_in_pipe, close_network_sockets, drop_capabilities, environment,
    executed_path, give_back_free_pages, give_back_freed_memory, landlock_version, random_bits,
    take_fd,
};
#[doc(hidden)]
pub use syscall_filter::kill_at_system_call;
pub use syscall_filter::{Restriction, UnknownRestriction, give_up_network, restrict_system_calls};
pub use timed_child::TimedChild;
pub use unix_address::{UnixAddress, bind_unix, connect_unix};
