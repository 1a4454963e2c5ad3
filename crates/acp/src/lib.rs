//! The Agent Client Protocol (ACP): a client, and a relay between an editor and an agent
//! (`spec/acp.md`, `spec/acp-relay.md`).
//!
//! In scope: lines and JSON in bounded memory ([`FrameReader`], [`parse_json`]), JSON-RPC messages
//! ([`classify`], [`MessageReader`]), pending requests ([`Pending`]), sessions and prompt turns
//! ([`Session`]), tool calls ([`ToolCalls`]), content ([`pieces`], [`Timeline`]), permission
//! requests ([`PermissionRequest`]), the client ([`Client`]), the relay ([`Relay`]), events as JSON
//! ([`reports`]), and images in text ([`rewrite_data_uris`]).
//!
//! Out of scope: processes, pipes, clocks, files, terminals, and permission rules. The modules up
//! to [`Pending`] implement JSON-RPC only and serve both ends of a connection.
//!
//! One turn with a scripted agent:
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use aifo_acp::{Client, Config, Event};
//! use serde_json::json;
//!
//! let mut now = Instant::now();
//! let mut client = Client::new(Config::default(), now);
//!
//! // The client initializes the connection ..
//! client.initialize("example", "1", now)?;
//! assert!(client.poll_transmit().unwrap().starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":1,"));
//! client.receive(b"Loading credentials...\n{\"id\":1,\"result\":{\"protocolVersion\":1}}\n", now);
//! assert!(matches!(client.poll_event(), Some(Event::NonJsonOutput(_))));
//! assert!(matches!(client.poll_event(), Some(Event::Ready(_))));
//!
//! // .. opens a session ..
//! client.new_session(json!({"cwd": "/workspace", "mcpServers": []}), now)?;
//! client.receive(b"{\"id\":2,\"result\":{\"sessionId\":\"s\"}}\n", now);
//! assert!(matches!(client.poll_event(), Some(Event::Opened { .. })));
//!
//! // .. and sends a prompt. The agent streams its answer ..
//! client.prompt("s", json!([{"type": "text", "text": "hello?"}]), now)?;
//! for text in ["Hello ", "World"] {
//!     let content = json!({"type": "text", "text": text});
//!     let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
//!     let params = json!({"sessionId": "s", "update": update});
//!     let message = json!({"method": "session/update", "params": params});
//!     client.receive(format!("{message}\n").as_bytes(), now);
//!     assert!(matches!(client.poll_event(), Some(Event::Update { .. })));
//! }
//! client.receive(b"{\"id\":\"3\",\"result\":{\"stopReason\":\"end_turn\"}}\n", now);
//! assert_eq!(client.poll_event(), None, "late updates still belong to the turn");
//!
//! // .. and after a pause without updates the turn ends.
//! now += Duration::from_secs(1);
//! client.handle_timeout(now);
//! let Some(Event::TurnEnded(end)) = client.poll_event() else { panic!("the turn has ended") };
//! assert_eq!(end.answer.text, "Hello World");
//! # Ok::<(), aifo_acp::SendError>(())
//! ```
//!
//! Architecture invariant: bytes, commands and times in, lines and events out. The crate starts no
//! process and reads no clock. Agent input cannot make it panic, exceed [`Limits`], or leave a
//! request unanswered.

mod answer;
mod capabilities;
mod client;
mod content;
mod counts;
mod data_uri;
mod envelope;
mod event;
mod failure;
mod frame;
mod json;
mod limits;
mod message;
mod message_reader;
mod outbox;
mod peer;
mod pending;
mod permission;
mod protocol_errors;
mod relay;
mod report;
mod session;
mod text_run;
mod timeline;
mod tool_call;
mod tool_call_facts;
mod tool_calls;
mod turn;
mod turn_end;
mod unanswered;
mod update;

pub use agent_client_protocol_schema as schema;

pub use answer::Answer;
pub use capabilities::{AgentInfo, ClientCapabilities, UnsupportedVersion};
pub use client::{CancelOutcome, Client, Config, ConnectionState, SendError};
pub use content::{Channel, Piece, pieces};
pub use counts::Counts;
pub use data_uri::{Image, ImageKind, rewrite_data_uris};
pub use envelope::Envelope;
pub use event::{Event, RequestEvent, Withdrawal};
pub use failure::Failure;
pub use frame::{Frame, FrameReader};
pub use json::{JsonError, LineTooLong, MAX_DEPTH, encode_line, parse_json};
pub use limits::Limits;
pub use message::{Id, Invalid, Message, RpcError, classify, code};
pub use message_reader::{Inbound, MessageReader, NonJsonOutput, Traffic};
pub use pending::{Completion, Pending};
pub use permission::{
    OptionKind, PermissionAnswer, PermissionOption, PermissionOutcome, PermissionRequest,
};
pub use protocol_errors::ProtocolErrors;
pub use relay::{
    Direction, MethodServer, OwnCommand, PathMap, PathResolver, Relay, RelayConfig, RelayEvent,
    RelayedTurn, Side, TerminalLogin,
};
pub use report::{decision_report, report_line, reports, turn_end_report};
pub use session::Session;
pub use text_run::{Streaming, TextRun};
pub use timeline::{AnswerPart, Position, PushOutcome, Timeline, TimelineEntry};
pub use tool_call::{CallState, ToolCall, ToolStatus, UnfinishedReason};
pub use tool_calls::{ToolCalls, ToolChange};
pub use turn::TurnPhase;
pub use turn_end::{CancelCause, StopReason, TurnEnd};
pub use update::{InvalidUpdate, Update, UpdateKind, UpdateScope};
