//! Sidecars: bring a runner up, open a channel to it for every exec, take it down.
//!
//! In scope: the [`Backend`] trait, which only answers "give me a byte stream to a runner of this
//! kind"; the local backend, where a sidecar is a child process under a guard; [`Runner`], our end
//! of a control connection; and [`Fleet`], the sidecars of one session.
//!
//! Out of scope: which tool goes where (`aifo-policy`), what a client is told (`aifo-proxy`), and
//! what happens at the other end (`aifo-runner`): the two meet on the frames of `spec/runner.md`.
//!
//! Everything here runs on a tokio runtime of any flavour.
//!
//! Architecture invariant: whoever uses a [`Runner`] cannot tell which backend brought it up.

mod backend;
mod channel;
mod fleet;
mod local;
mod places;
mod runner;
mod socket;

pub use backend::{Backend, SidecarError, Starting};
pub use channel::ExecChannel;
pub use fleet::Fleet;
pub use local::{LocalBackend, LocalConfinement};
pub use runner::Runner;
pub use socket::{Socket, on_reactor};
