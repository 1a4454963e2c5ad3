//! The tool-exec proxy: accepts, authenticates and routes calls, then passes them to a runner or
//! streams their output.
//!
//! In scope: the HTTP server on a unix socket or TCP, protocol versions 1, 2 and 3, `/signal`, limits
//! on requests and their duration, the registry of running execs, and disconnects of clients, runners
//! and the proxy itself (`spec/toolexec.md`).
//!
//! Out of scope: routes (`aifo-policy`), starting sidecars (`aifo-sidecar`), and the directories and
//! the token of a session (`aifo-launch`).
//!
//! One task per connection owns one exec from its request to its end. In version 3 the task passes
//! the client connection to the runner and watches; in versions 1 and 2 it reads the tool output
//! only as fast as it can write it to the client or to disk. It needs a tokio runtime of any flavour.
//!
//! ```no_run
//! use std::sync::Arc;
//! use aifo_policy::{Forwarding, NotifyRules, Policy};
//! use aifo_proxy::{CallApprovals, CallLog, Listener, Proxy, ProxyConfig, RunningTable, SharedDirectories, Transcript};
//! use aifo_wire::Limits;
//! use aifo_sidecar::Fleet;
//! use aifo_types::Token;
//!
//! # async fn serve(fleet: Arc<Fleet>, token: Token) -> Result<(), Box<dyn std::error::Error>> {
//! let workspace = std::env::current_dir()?;
//! let endpoint = "unix:///run/user/1000/front/exec.sock".parse()?;
//! let listener = Listener::bind(&endpoint, nix::unistd::getuid())?;
//! let config = ProxyConfig {
//!     token,
//!     policy: Policy::builtin(),
//!     approvals: CallApprovals::allow_all(),
//!     in_place: Default::default(),
//!     notify: NotifyRules::default(),
//!     call_log: CallLog::new(|call| println!("{} ended with {}", call.tool, call.exit_code)),
//!     running_table: RunningTable::default(),
//!     limits: Limits::default(),
//!     max_runtime: None,
//!     transcript: Transcript::Plain,
//!     spool_dir: std::env::temp_dir(),
//!     forwarding: Forwarding::builtin(),
//!     shared_directories: SharedDirectories::new(workspace.clone(), [vec![workspace], vec![std::env::temp_dir()]])?,
//!     program: None,
//! };
//! let stop = async { drop(tokio::sync::oneshot::channel::<()>().1.await) };
//! Proxy::new(config, fleet).serve(listener, stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: the proxy starts no process, and its execution path calls no shell and no
//! engine. It decides which calls run, on which descriptors, and when they end.

mod approval;
mod asked_files;
mod attached;
mod budget;
mod buffered;
mod call_watcher;
mod client;
mod config;
mod connection;
mod exec;
mod fd_passing;
mod in_place;
mod listener;
pub mod mailbox;
mod notify;
mod pending;
mod proxy;
mod proxy_task;
mod read_buffer;
mod record;
mod refusals;
mod registry;
mod relayed_exec;
mod request;
mod request_memory;
mod running_table;
mod sidecar_lease;
mod signal;
mod spool;
mod start;
mod state;
mod streamed;
mod tool_output;
mod tool_start;

pub use approval::{CallApprovals, CallJudge};
pub use config::{ProxyConfig, Transcript};
pub use fd_passing::SharedDirectories;
pub use listener::{BindError, Listener};
pub use notify::HostExecutables;
pub use proxy::Proxy;
pub use proxy_task::ProxyTask;
pub use record::{CallLog, CallRecord, Checkpoints, Ready};
pub use running_table::{RunningTable, RunningTool};
