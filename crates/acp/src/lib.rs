//! The Agent Client Protocol, as it is spoken with real agents (`spec/acp.md`).
//!
//! In scope: lines in bounded memory ([`FrameReader`]), JSON in bounded memory ([`parse_json`]),
//! messages told apart ([`classify`], [`MessageReader`]), requests completed once ([`Pending`]),
//! sessions and turns ([`Session`]), tool calls put together ([`ToolCalls`]), content sent where it
//! belongs ([`pieces`], [`Timeline`]), permissions answered once ([`PermissionRequest`]), all of it
//! together ([`Client`]), what stands between an editor and its agent ([`Relay`],
//! `spec/acp-relay.md`), what comes of a client told as JSON ([`reports`]), and images taken out of text
//! ([`rewrite_data_uris`]).
//!
//! Out of scope: processes, pipes, clocks, files and terminals, and who decides about a permission.
//! The lower half, up to [`Pending`], knows JSON-RPC only and serves either end of a connection.
//!
//! One turn, with an agent that is played:
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
//! // The client asks who the agent is ..
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
//! // .. and prompts. The agent answers in pieces ..
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
//! assert_eq!(client.poll_event(), None, "something may still come");
//!
//! // .. and when nothing more comes, the turn is over.
//! now += Duration::from_secs(1);
//! client.handle_timeout(now);
//! let Some(Event::TurnEnded(end)) = client.poll_event() else { panic!("it is over") };
//! assert_eq!(end.answer.text, "Hello World");
//! # Ok::<(), aifo_acp::SendError>(())
//! ```
//!
//! Architecture invariant: bytes, commands and times in, lines and events out. This crate does not
//! know how an agent is started or what the clock says, and nothing that an agent sends makes it
//! panic, hold more than [`Limits`] allows, or leave a request unanswered.

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

pub use capabilities::{AgentInfo, ClientCapabilities, UnsupportedVersion};
pub use client::{CancelOutcome, Client, Config, ConnectionState, Requests, SendError};
pub use content::{Channel, Piece, pieces};
pub use counts::Counts;
pub use data_uri::{Image, ImageKind, rewrite_data_uris};
pub use envelope::Envelope;
pub use event::{Event, Withdrawal};
pub use failure::Failure;
pub use frame::{Frame, FrameReader};
pub use json::{JsonError, LineTooLong, MAX_DEPTH, encode_line, parse_json};
pub use limits::Limits;
pub use message::{Id, Invalid, Message, RpcError, classify, code};
pub use message_reader::{Inbound, MessageReader, NonJsonOutput, Traffic};
pub use pending::{Completion, Pending};
pub use permission::{Decision, OptionKind, PermissionOption, PermissionRequest, Verdict};
pub use protocol_errors::ProtocolErrors;
pub use relay::{
    Direction, PathMap, Relay, RelayConfig, RelayEvent, RelayedTurn, ServedBy, Side, TerminalLogin,
};
pub use report::{decision_report, report_line, reports, turn_end_report};
pub use session::Session;
pub use text_run::{Streaming, TextRun};
pub use timeline::{Answer, AnswerFrom, Position, PushOutcome, Timeline, TimelineEntry};
pub use tool_call::{Announced, CallState, ToolCall, ToolStatus, UnfinishedReason};
pub use tool_calls::{ToolCalls, ToolChange};
pub use turn::TurnPhase;
pub use turn_end::{CancelCause, StopReason, TurnEnd};
pub use update::{InvalidUpdate, Update, UpdateKind, UpdateScope};
