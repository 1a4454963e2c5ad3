//! System calls that need `unsafe`, behind safe functions.
//!
//! No other file of the workspace contains `unsafe`. A `SAFETY` comment states why a block is
//! sound; the callers document what the call means.
#![allow(unsafe_code)]

mod arena;
mod before_c_library;
mod descriptor;
mod entry;
pub mod kernel;
mod memory;
mod mount;
pub(crate) mod no_network;
mod process;
mod raw;
mod signals;
mod socket;
pub(crate) mod spawn;
mod terminal;

pub use arena::Arena;
pub use before_c_library::before_c_library;
pub(crate) use before_c_library::c_library_has_started;
pub(crate) use descriptor::is_open;
pub use descriptor::{bytes_in_pipe, take_fd};
pub(crate) use kernel::prlimit;
pub(crate) use mount::{attach_mounts, copy_mounts, make_read_only};
pub(crate) use process::{
    SuspendedCapabilities, install_filter, no_new_privileges, suspend_capabilities, wait4_any,
};
pub use process::{
    drop_capabilities, environment, executed_path, give_back_free_pages, give_back_freed_memory,
    landlock_version, random_bits,
};
pub(crate) use signals::{
    Disposition, HAS_STANDARD_START, MaskOperation, change_mask, is_ignored_number, pidfd_open,
    pidfd_send_signal, pidfd_wait_status, raise, set_disposition, signal_group, signalfd,
    unblocked,
};
pub(crate) use socket::recvmsg;
pub use socket::{accept, close_network_sockets};
pub(crate) use terminal::{
    insert_input, pty_slave, set_terminal_attributes, set_terminal_attributes_now, set_window_size,
    terminal_attributes, window_size,
};
