//! Container engines, through their command lines `docker` and `podman`.
//!
//! In scope: finding an engine and its properties; its commands as data, so that a dry run can print
//! them; running them; listing a session's containers and networks by their labels; and [`images`],
//! the recipes of images and their builds.
//!
//! Out of scope: the contents of a sidecar (`aifo-sidecar`), and the path of a tool call, which runs
//! no engine command.
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
//! Architecture invariant: this crate searches no PATH; the caller finds the trusted programs
//! ([`Programs`]). No argument is a secret: such values are in the environment of the engine's command.

mod command;
mod container;
mod engine;
mod facts;
mod findings;
mod flavor;
mod inventory;
mod labels;
mod messages;
mod program;
mod pull;
mod query;
mod user_container;

pub mod images;

pub use command::EngineCommand;
pub use container::{ContainerLimits, ContainerSpec, Mount, Network, Stdio, User, Value};
pub use engine::{Choice, Engine, EngineError};
pub use facts::{CgroupVersion, Facts};
pub use flavor::Flavor;
pub use inventory::{Container, NetworkEntry};
pub use labels::{Label, Labels, POD, container_name, network_name};
pub use messages::{error_line, is_missing_image, is_name_conflict, is_port_conflict};
pub use program::{MissingProgram, Program, Programs};
pub use pull::{VERSIONS_LABEL, is_registry_answer};
pub use query::{EngineStatus, query_engine, query_engines, within_timeout};
pub use user_container::{ExecAs, UserContainer};
