//! The tokio side of the Agent Client Protocol (`spec/acp.md#processes`): an agent as a process with
//! three pipes, and what drives a [`Client`](aifo_acp::Client) with them.
//!
//! In scope: pipes that never block each other, the end of an agent and of all that it started, the
//! log of what went over the wire.
//!
//! Out of scope: what the agent may do, and where it runs: whoever starts it hands in a command.
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
//! assert!(agent.end().await.status?.success(), "the end of its stdin is enough");
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: an agent is a process with three pipes, and nothing here knows a container
//! or a session. Whatever it does, nobody waits for it without a bound, and when it has been ended
//! nothing that it started runs any more.

mod agent_connection;
mod agent_process;
mod agent_stdout;
mod bridge;
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
