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
//! ```no_run
//! use aifo_sidecar::{Backend, ExecChannel, Fleet, SidecarError};
//! use aifo_types::{ExecId, Kind};
//! use aifo_wire::{Elsewhere, Environment, Start};
//!
//! # async fn run(sidecars: Box<dyn Backend>, host: Box<dyn Backend>) -> Result<(), SidecarError> {
//! let rust = Kind::parse("rust").expect("a kind");
//! let fleet = Fleet::start(sidecars, host, vec![rust.clone()]).await?;
//! let start = Start {
//!     id: ExecId::parse(b"e1").expect("an id"),
//!     argv: vec![b"cargo".to_vec(), b"--version".to_vec()],
//!     cwd: None,
//!     elsewhere: Elsewhere::Refuse,
//!     program: None,
//!     environment: Environment::All,
//! };
//! // Without an fd for it, the output comes over the channel, between `Started` and `Exit`.
//! let ExecChannel { socket, mut frames } = fleet.runner(&rust).await?.start(start, None).await?;
//! while ExecChannel::fill(&socket, &mut frames).await.unwrap_or(false) {
//!     while let Ok(Some(frame)) = frames.next_frame() {
//!         println!("{frame:?}");
//!     }
//! }
//! fleet.stop().await;
//! # Ok(())
//! # }
//! ```
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
