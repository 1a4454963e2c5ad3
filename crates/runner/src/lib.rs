//! The resident exec server inside a sidecar.
//!
//! In scope: one control connection to the proxy, and over it every start with its descriptors;
//! starting the tool on them, the conversation with its client about what they cannot carry:
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
//! let control = aifo_runner::Control::Socket(aifo_process::take_fd(0)?);
//! aifo_runner::serve(control)?;
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: the runner knows no HTTP, no token and no allowlist. Whoever holds the
//! other end of its control connection decides.

mod apart;
mod cgroup;
mod channel;
mod client;
mod control;
mod conversation;
mod copy;
mod data_frame;
mod directory;
mod exec;
mod guard;
mod lane;
mod launch;
mod monitor;
mod outgoing;
mod own;
mod poller;
mod project;
mod server;
mod stdio;
mod watch;

pub use apart::{APART, keep_apart};
pub use control::Control;
pub use copy::{UNLINK, unlink_own};
pub use guard::{CONNECT, GUARDED_BY, STREAM, WRITABLE, WRITE, guard};
pub use monitor::monitor;
pub use own::{Owner, own};
pub use server::{ServeError, serve};
pub use watch::watch;
