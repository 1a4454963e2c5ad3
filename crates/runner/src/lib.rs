//! The resident exec server inside a sidecar.
//!
//! In scope: one control connection to the proxy, one channel per exec that comes over it,
//! starting the tool, carrying its output, its signals and its ending, reaping whatever is left to
//! us as subreaper or PID 1, and the guard that ends everything below when the runner is gone.
//!
//! Out of scope: whether a tool may run (`aifo-policy`), and how a sidecar comes up
//! (`aifo-sidecar`). The frames are those of `spec/runner.md`.
//!
//! The runner is one thread around one epoll: [`serve`] owns all state, an exec is a value in its
//! table, and nothing blocks but the few hundred microseconds in which the kernel loads a program.
//! Its memory stays small, whatever a tool prints: one buffer for all, and a channel that does not
//! take more stops the reading of that tool's pipe.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Whoever starts a runner hands over its control connection, here as stdin.
//! let control = aifo_process::take_fd(0)?;
//! aifo_runner::serve(control)?;
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: the runner knows no HTTP, no token and no allowlist. Whoever holds the
//! other end of its control connection decides.

mod channel;
mod directory;
mod exec;
mod guard;
mod launch;
mod output_frame;
mod poller;
mod project;
mod server;

pub use guard::{GUARDED_BY, WRITE, guard};
pub use server::{ServeError, serve};
