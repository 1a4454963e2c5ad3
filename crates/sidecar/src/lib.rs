//! Starts and stops the runners of sidecars, and starts tools in them.
//!
//! In scope: the [`Backend`] trait, which returns a connection to a runner of a kind; the local
//! backend, whose sidecars are child processes under guards, and the backends with containers;
//! [`Runner`], a control connection over which tools are started on their clients' descriptors;
//! [`Exec`], the events of one tool; and [`Fleet`], the sidecars of one session, started at once or
//! on demand.
//!
//! Out of scope: routes (`aifo-policy`), responses to clients (`aifo-proxy`), and the runner's end
//! of the connection (`aifo-runner`). `spec/runner.md` defines its frames. The crate needs a tokio
//! runtime of any flavour.
//!
//! ```no_run
//! use std::os::fd::OwnedFd;
//! use std::sync::Arc;
//! use aifo_sidecar::{Backend, Fleet, Reporter, SidecarError, Startup};
//! use aifo_types::{ExecId, ExecRequest, Kind, ToolName};
//! use aifo_wire::Start;
//!
//! # async fn run(sidecars: Box<dyn Backend>, host: Box<dyn Backend>) -> Result<(), Arc<SidecarError>> {
//! let rust = Kind::parse("rust").expect("a kind");
//! let fleet = Fleet::start(
//!     sidecars,
//!     host,
//!     vec![rust.clone()],
//!     Startup::default(),
//!     Reporter::default(),
//! ).await?;
//! let (id, tool) = (ExecId::parse(b"e1").expect("an id"), ToolName::parse(b"cargo").expect("a name"));
//! let mut request = ExecRequest::new(id, tool);
//! request.args.push(b"--version".to_vec());
//! let start = Start::new(request);
//! // The tool writes directly to this program's stdout.
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
//! Architecture invariant: a [`Runner`] has the same interface for every backend.

mod backend;
mod caches;
mod cargo_home;
mod container;
mod control;
mod deadline;
mod error;
mod event;
mod exec;
mod fleet;
mod hidden;
mod lease;
mod link;
mod listeners;
mod local;
mod local_network;
mod local_process;
mod opened;
mod outbox;
mod places;
mod pod_backend;
mod progress;
mod relayed_stack;
mod runner;
mod slot;
mod socket;
mod stack_server;
mod stack_sockets;
mod stack_table;
mod translation;
mod tunnel;
mod usage;

pub use backend::{Backend, Starting};
pub use caches::{CacheOwner, Caches, ProjectKey};
pub use container::{
    Admitted, AgentContainer, AttachBackend, AttachConfig, CONTAINER_HOME, CONTAINER_TMP,
    CONTAINER_WORKSPACE, ContainerBackend, ContainerConfig, Images, LinkedRepository, Net,
    ProxyLogin, cache_directories, cache_volume_owner, container_variables, has_mount_points,
    proxy_logins, proxy_variables, remove_mount_points, remove_session,
};
pub use deadline::deadline_reached;
pub use error::SidecarError;
pub use event::ExecEvent;
pub use exec::{Canceller, Exec};
pub use fleet::{Fleet, Startup};
pub use lease::Lease;
pub use listeners::StackListeners;
pub use local::{LocalBackend, LocalConfinement, Transport, namespace_obstacle};
pub use local_network::{LocalNetwork, stack_obstacle};
pub use opened::{ConnectionListener, ConnectionStream, RelayedListener};
pub use places::{LocalCache, cache_directory, local_caches};
pub use pod_backend::{POD_START_TIMEOUT, PodBackend};
pub use progress::{OutdatedCause, Progress, Reporter, SidecarEvent};
pub use relayed_stack::RelayedStack;
pub use runner::Runner;
pub use socket::{Socket, on_reactor};
pub use stack_server::{AGENT_STACK, ServedStack, Serving, StackServer, TOOLS_STACK};
pub use stack_sockets::{SocketError, StackSockets};
pub use stack_table::{StackConnection, StackEvent};
