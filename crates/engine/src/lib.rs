//! Container engines, through the command lines they bring along: `docker` and `podman`.
//!
//! In scope: finding an engine and what it can do; its commands as data, so that what would be run
//! can be shown without being run; running them; what of ours it holds, by our labels.
//!
//! Out of scope: what a sidecar is made of (`aifo-sidecar`), and everything on the way of a tool
//! call, where no engine is asked for anything.
//!
//! ```no_run
//! use aifo_engine::{Choice, Engine, Programs};
//!
//! # async fn look(programs: &impl Programs) -> Result<(), aifo_engine::EngineError> {
//! let engine = Engine::find(Choice::Any, programs).await?;
//! for container in engine.containers(None).await? {
//!     println!("{} belongs to session {}", container.name, container.session);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: this crate searches no PATH; its caller says which program is an engine, and
//! which are trusted ([`Programs`]). No secret is ever an argument here. A value that could be one reaches the
//! engine through the environment of its command.

mod command;
mod container;
mod engine;
mod facts;
mod flavor;
mod inventory;
mod labels;
mod program;
mod user_container;

pub use command::EngineCommand;
pub use container::{ContainerLimits, ContainerSpec, Mount, Network, Stdio, User, Value};
pub use engine::{Choice, Engine, EngineError, error_line};
pub use facts::{CgroupVersion, Facts};
pub use flavor::Flavor;
pub use inventory::{Container, NetworkEntry};
pub use labels::{Label, Labels};
pub use program::{MissingProgram, Program, Programs};
pub use user_container::{ExecAs, UserContainer};
