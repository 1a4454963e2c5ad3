//! The resident exec server inside a sidecar.
//!
//! In scope: one control connection to the proxy, and over it every start with its descriptors;
//! starting the tool on them, the session with its client about what they cannot carry:
//! streams, signals, the ending; reaping whatever is left to us as subreaper or PID 1; the monitor
//! above a tool on a terminal, and the guard that ends everything below when the runner is gone.
//!
//! Before all that it keeps the networks of others out of its own's reach, where it is told to.
//!
//! Out of scope: whether a tool may run (`aifo-policy`), and how a sidecar comes up
//! (`aifo-sidecar`). The frames are those of `spec/runner.md`.
//!
//! The runner is one thread around one epoll: [`serve`] owns all state, an exec is a value in its
//! table, and nothing blocks but the few hundred microseconds in which the kernel loads a program.
//! Its memory stays small, whatever a tool prints: one buffer for all output, a window for what a
//! tool is to read, and a client that does not take more stops the reading of its tool's pipe.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Whoever starts a runner hands over its control connection, here as stdin.
//! let control = aifo_runner::ControlTransport::Socket(aifo_process::take_fd(0)?);
//! aifo_runner::serve(control)?;
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: the runner knows no HTTP, no token and no allowlist. Whoever holds the
//! other end of its control connection decides.

mod chown;
mod client_connection;
mod client_session;
mod control;
mod data_frame;
mod exec;
mod frame_socket;
mod guard;
mod launcher_watch;
mod monitor;
mod network;
mod nonblocking_writer;
mod poller;
mod project_tools;
mod server;
mod sidecar_limits;
mod stream_pipe;
mod tool_launcher;
mod tool_stdio;
mod unlink;
mod working_directory;

pub use chown::{Owner, chown_tree};
pub use control::ControlTransport;
pub use guard::{CONNECT, GUARDED_BY, STREAM, WRITABLE, WRITE, guard};
pub use launcher_watch::watch_launcher;
pub use monitor::monitor;
pub use network::{ISOLATE_NETWORK, isolate_network};
pub use server::{ServeError, serve};
pub use unlink::{UNLINK, unlink_executable};
