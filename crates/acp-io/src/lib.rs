//! Processes and I/O for the Agent Client Protocol (`spec/acp.md#processes`), on tokio.
//!
//! In scope: an agent's process and its pipes, clients and relays that use them, ending an agent
//! with everything that it started, the wire log and its replay.
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
mod host;
mod host_calls;
mod refusal;
mod replay;
mod stdio;
mod tail;
mod wire_log;

pub use agent_connection::AgentConnection;
pub use agent_process::{AgentExit, AgentProcess, ProcessLimits};
pub use bridge::{Bridge, FIRST_REQUEST};
pub use host::{CallFuture, EndFuture, Host, NoHost};
pub use refusal::refuse_editor;
pub use replay::{Replay, ReplayEvent, ReplayEventKind, ReplayMismatch, replay};
pub use stdio::Stdio;
pub use wire_log::{
    Encoding, LogEntry, LogEntryKind, LogLine, LogPipe, WireLog, WireLogLimits, parts,
};
