//! The resident exec server inside a sidecar.
//!
//! In scope: the control connection to the proxy, and the starts and descriptors it carries; starting
//! tools; the client session that relays streams, signals and the exit status; reaping adopted orphans;
//! the monitor of a tool on a terminal; the guard that ends everything below a dead runner; isolating the
//! network of a container, and binding listeners in it for the launcher, or relaying their connections;
//! opening files of a container as a user of it; the non-blocking [`NonblockingWriter`], which the shim uses too.
//!
//! Out of scope: whether a tool may run (`aifo-policy`), and starting a sidecar (`aifo-sidecar`). The
//! frames are specified in `spec/runner.md`.
//!
//! The runner is one thread around one epoll. [`serve`] owns all state, an exec is a value in its table,
//! and the only blocking call is the execve of a tool, a few hundred microseconds. Memory is
//! bounded: one buffer for all output, one window per input stream. When a client stops reading,
//! the runner stops reading its tool's pipe.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The launcher passes the control connection, here as stdin.
//! let control = aifo_runner::ControlTransport::Socket(aifo_process::take_fd(0)?);
//! aifo_runner::serve(control, aifo_runner::ServeOptions::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: the runner contains no HTTP, no tokens and no allowlists. The peer of its
//! control connection decides what runs.

mod call_notes;
mod chown;
mod client_connection;
mod client_session;
mod control;
mod data_frame;
mod exec;
mod frame_socket;
mod guard;
mod launcher_watch;
mod listener_watch;
mod listeners;
mod listening_sockets;
mod monitor;
mod network;
mod nonblocking_writer;
mod opened_file;
mod poller;
mod program_path;
mod server;
mod sidecar_limits;
mod stack_relay;
mod start_failure;
mod stream_pipe;
mod tool_launcher;
mod tool_stdio;
mod unlink;
mod user;
mod working_directory;

pub use call_notes::NoteOptions;
pub use chown::{Owner, chown_tree};
pub use control::ControlTransport;
pub use guard::{
    CONNECT, CONNECT_SECS, COVER, EXPECT, GUARDED_BY, HIDE, JOIN_STACK, LACKS_CERTIFICATES, MASK,
    RESOLVER, RESTRICT, STREAM, TAG, WRITABLE, WRITE, guard,
};
pub use launcher_watch::watch_launcher;
pub use monitor::{MONITOR_FD, monitor};
pub use network::{ISOLATE_NETWORK, isolate_network};
pub use nonblocking_writer::NonblockingWriter;
pub use server::{ServeError, ServeOptions, serve};
pub use unlink::{UNLINK, unlink_executable};
