//! Processes and I/O for the Agent Client Protocol (`spec/acp.md#processes`), on tokio.
//!
//! In scope: an agent process and its pipes, clients and relays that use them, ending an agent
//! with everything that it started, the wire log, and the files and terminals that a
//! [`Host`] serves to an agent (`spec/acp-hosts.md`).
//!
//! Out of scope: what the agent may do, and where it runs. The caller passes the command.
//!
//! ```
//! use aifo_acp::{Config, Event};
//! use aifo_acp_io::{AgentConnection, NoHost, ProcessLimits};
//! use tokio::process::Command;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut command = Command::new("sh");
//! command.args(["-c", r#"read -r _; echo '{"id":1,"result":{"protocolVersion":1}}'; cat"#]);
//! let limits = ProcessLimits::default();
//! let mut agent = AgentConnection::start(command, Config::default(), limits, None, NoHost)?;
//! agent.with_client(|client, now| client.initialize("example", "1", now))?;
//! assert!(matches!(agent.next().await, Some(Event::Ready(_))));
//! assert!(agent.end().await.status?.success(), "closing its stdin suffices");
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: an agent is a process with three pipes; the crate has no notion of a
//! container or a session of aifo. Every wait has a bound, and after the end of an agent none of
//! its processes runs.

mod agent_connection;
mod agent_process;
mod bridge;
mod driver;
mod exit_watcher;
mod failure;
mod files;
mod history_drain;
mod host;
mod host_calls;
mod refusal;
mod rpc;
mod stdio;
mod tail;
mod terminals;
mod turn_log;
mod wire_log;
mod workspace;
mod workspace_host;

pub use agent_connection::AgentConnection;
pub use agent_process::{AgentExit, AgentProcess, ProcessLimits};
pub use bridge::{Bridge, FIRST_REQUEST};
pub use failure::agent_failure;
pub use files::{Access, FileJudge, FileLimits, Files, MissingFile, Writing};
pub use history_drain::HistoryDrain;
pub use host::{CallFuture, EndFuture, Host, NoHost};
pub use refusal::refuse_editor;
pub use stdio::Stdio;
pub use terminals::{
    Approval, CommandBuilder, TerminalCommand, TerminalConfig, TerminalJudge, TerminalVerdict,
    Terminals,
};
pub use turn_log::{log_answer, log_turn};
pub use wire_log::{WireLog, WireLogLimits};
pub use workspace::{Resolved, Workspace};
pub use workspace_host::WorkspaceHost;
