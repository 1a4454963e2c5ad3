//! Sidecars: bring a runner up, have it start tools, take it down.
//!
//! In scope: the [`Backend`] trait, which only answers "give me a connection to a runner of this
//! kind"; the local backend, where a sidecar is a child process under a guard; [`Runner`], our end
//! of a control connection, over which tools are started on descriptors of their clients';
//! [`Exec`], what the runner tells of one of them; and [`Fleet`], the sidecars of one session, at once
//! or each when it is first needed.
//!
//! Out of scope: which tool goes where (`aifo-policy`), what a client is told (`aifo-proxy`), and
//! what happens at the other end (`aifo-runner`): the two meet on the frames of `spec/runner.md`.
//!
//! Everything here runs on a tokio runtime of any flavour.
//!
//! ```no_run
//! use std::os::fd::OwnedFd;
//! use std::sync::Arc;
//! use aifo_sidecar::{Backend, Fleet, Reporter, SidecarError, Startup};
//! use aifo_types::{ExecId, Kind};
//! use aifo_wire::{Elsewhere, Environment, Invocation, Start, Tell};
//!
//! # async fn run(sidecars: Box<dyn Backend>, host: Box<dyn Backend>) -> Result<(), Arc<SidecarError>> {
//! let rust = Kind::parse("rust").expect("a kind");
//! let fleet = Fleet::start(
//!     sidecars,
//!     host,
//!     vec![rust.clone()],
//!     Startup::AtOnce,
//!     Reporter::default(),
//! ).await?;
//! let argv = vec![b"cargo".to_vec(), b"--version".to_vec()];
//! let start = Start {
//!     serial: 0,
//!     id: ExecId::parse(b"e1").expect("an id"),
//!     elsewhere: Elsewhere::Refuse,
//!     program: None,
//!     environment: Environment::All,
//!     client: None,
//!     tell: Tell::Start,
//!     invocation: Invocation::plain(argv, None),
//! };
//! // What the tool prints goes straight to our own stdout.
//! let stdout = std::io::stdout();
//! let stdout: OwnedFd = std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned().expect("it is open");
//! let mut exec = fleet.lease(&rust).await?.start(start, vec![stdout]);
//! while let Some(event) = exec.next().await {
//!     println!("{event:?}");
//! }
//! fleet.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: whoever uses a [`Runner`] cannot tell which backend brought it up.

mod backend;
mod caches;
mod cargo_home;
mod container;
mod exec;
mod fleet;
mod lease;
mod link;
mod local;
mod outbox;
mod places;
mod progress;
mod runner;
mod seat;
mod socket;
mod translation;
mod tunnel;

pub use backend::{Backend, SidecarError, Starting};
pub use caches::{CacheOwner, Caches, ProjectKey};
pub use container::{
    Admitted, AgentContainer, AttachBackend, AttachConfig, CONTAINER_HOME, CONTAINER_TMP,
    CONTAINER_WORKSPACE, ContainerBackend, ContainerConfig, Images, Net, cache_volume_owner,
    remove_session,
};
pub use exec::{Canceller, Exec, ExecEvent};
pub use fleet::{Fleet, Startup};
pub use lease::Lease;
pub use local::{LocalBackend, LocalConfinement, Transport};
pub use places::{LocalCache, local_caches};
pub use progress::{News, Progress, Reporter};
pub use runner::Runner;
pub use socket::{Socket, on_reactor};
