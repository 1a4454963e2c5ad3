//! Sessions, from creating their directories to removing them; the crate that other launchers embed.
//!
//! In scope: the choice of a backend ([`BackendRequest`]), the start of sidecars, proxy and network,
//! running an agent, and the report of changed project files. If the start fails, everything started
//! so far is removed.
//!
//! Out of scope: flags, configuration files and output (`aifo-coder`), single tool calls
//! (`aifo-proxy`), directories and records of sessions (`aifo-host`), and what an agent needs
//! (`aifo-agents`).
//!
//! ```no_run
//! use aifo_agents::trusted_programs;
//! use aifo_host::ShimBinary;
//! use aifo_launch::{Session, SessionConfig};
//! use aifo_types::{Kind, ToolName};
//!
//! # async fn embed() -> Result<(), Box<dyn std::error::Error>> {
//! let workspace = "/home/me/project";
//! let shim = ShimBinary::find(|| trusted_programs(workspace.as_ref()))?;
//! let mut config = SessionConfig::new(workspace, shim);
//! config.toolchains = vec![Kind::parse("rust").expect("a kind").into()];
//! let session = Session::start(config).await?;
//! let status = session.exec(&ToolName::parse(b"cargo")?).arg("test").status().await?;
//! println!("cargo ended with {status}");
//! session.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Two small launchers, which the suites run: `examples/embed.rs`, one tool call on this machine, and
//! `examples/agent.rs`, an agent in a container ([`Agent`]) with its tools in
//! another. An agent that another program starts needs [`Session::variables`] and [`Session::shims`].
//! `cargo xtask dist` builds a static shim, which runs in any image.
//!
//! Architecture invariant: a [`Session`] owns everything it creates. Dropping it removes its directories
//! and ends its sidecars.

pub mod acp;
mod agent;
mod ask_command;
mod attachments;
mod backend;
mod cache;
mod check;
mod choose;
mod config;
mod confine;
mod error;
mod examined_update;
mod forge_questions;
mod front_socket;
mod host_watch;
mod machine;
mod named_containers;
mod passed_settings;
mod pins;
mod plan;
mod project_files;
mod proxy_questions;
mod questions;
mod registries;
mod session;
mod session_dirs;
mod session_frontend;
mod session_tools;
mod start;
mod toolchain_images;
pub mod trial;
mod user_limits;
mod waiting_calls;
mod workspace_lock;

pub use agent::{Agent, AgentEnd, AgentEnvironment, ContainerEnvironment, HostEnvironment};
pub use ask_command::run_ask_command;
pub use attachments::Attachments;
pub use backend::{Containers, MissingImage, RunnerTransport, SidecarBackend};
pub use cache::{Cache, CacheError, CacheLocation, cache_sizes, caches};
pub use check::ShimFinding;
pub use choose::{BackendChoice, BackendRequest, ChoiceError, ChosenBackend, Fallback};
pub use config::{SessionConfig, Verbosity};
pub use confine::{ConfinementMode, NetworkAccess};
pub use error::LaunchError;
pub use machine::CheckedMachine;
pub use pins::{ImageDecision, ImageReason};
pub use plan::plan;
pub use proxy_questions::ProxyQuestions;
pub use registries::{Admission, AdmissionError, AdmissionSources};
pub use session::Session;
pub use toolchain_images::{ImageDialogue, NoDialogue, ToolchainImages};
pub use user_limits::used_up_limits;
pub use waiting_calls::report_waiting_calls;
pub use workspace_lock::WorkspaceLock;
