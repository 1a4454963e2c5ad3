//! A relay between an editor and its agent.

mod agent;
mod cancelling;
mod capabilities;
mod commands;
mod editor;
mod ending;
mod event;
mod fields;
mod file_uri;
mod passing;
mod path_map;
mod path_resolver;
mod prompts;
mod questions;
mod requests;
mod session_state;
mod terminal_login;
mod terminals;

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use serde_json::{Map, Value};

use crate::capabilities::UnsupportedVersion;
use crate::limits::Limits;
use crate::message::{Id, RpcError};
use crate::message_reader::Traffic;
use crate::permission::PermissionOutcome;
use crate::protocol_errors::ProtocolErrors;
use crate::tool_calls::ToolCalls;
use capabilities::Capabilities;
use requests::{Decider, End, IncomingRequest};
use session_state::SessionState;
use terminals::Terminals;

pub use commands::OwnCommand;
pub use event::{RelayEvent, RelayedTurn};
pub use path_map::{Direction, PathMap};
pub use path_resolver::PathResolver;
pub use terminal_login::TerminalLogin;

/// A relay between an editor, which started this program as its agent, and the agent, whose client
/// the relay is (`spec/acp-relay.md`).
///
/// Messages are forwarded as received, except for paths, ids and declared capabilities. After each
/// call that passes bytes or time in, the caller takes out all events and lines. Then
/// [`should_read`](Relay::should_read) returns which end to read from, and
/// [`poll_timeout`](Relay::poll_timeout) when to call [`handle_timeout`](Relay::handle_timeout).
///
/// ```
/// use std::time::Instant;
///
/// use aifo_acp::{Relay, RelayConfig, RelayEvent, RequestEvent, Side, PermissionAnswer};
/// use serde_json::{Value, json};
///
/// let now = Instant::now();
/// let mut relay = Relay::new(RelayConfig::default(), now);
/// let send = |relay: &mut Relay, from: Side, message: Value| {
///     relay.receive(from, format!("{message}\n").as_bytes(), now);
///     relay.poll_event()
/// };
/// let receive = |relay: &mut Relay, to: Side| -> Value {
///     serde_json::from_slice(&relay.poll_transmit(to).unwrap()).unwrap()
/// };
///
/// // The editor's prompt reaches the agent with a new id ..
/// let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "tidy up"}]});
/// let prompt = json!({"id": "abc", "method": "session/prompt", "params": params});
/// assert_eq!(send(&mut relay, Side::Editor, prompt), Some(RelayEvent::TurnStarted));
/// let received = receive(&mut relay, Side::Agent);
/// assert_eq!((&received["id"], &received["params"]), (&json!(1), &params));
///
/// // .. the agent requests a permission, which a rule decides without the editor ..
/// let params = json!({"sessionId": "s", "options": [{"optionId": "no", "kind": "reject_once"}]});
/// let ask = json!({"id": 0, "method": "session/request_permission", "params": params});
/// let Some(RelayEvent::Request(RequestEvent::Permission { id, request })) = send(&mut relay, Side::Agent, ask) else {
///     panic!("a permission request")
/// };
/// assert!(relay.decide(&id, &request.choose(PermissionAnswer::Deny, None).unwrap(), now));
/// assert_eq!(receive(&mut relay, Side::Agent)["result"]["outcome"]["optionId"], "no");
///
/// // .. and the agent answer reaches the editor with the editor id.
/// let answer = json!({"id": 1, "result": {"stopReason": "end_turn"}});
/// let ended = send(&mut relay, Side::Agent, answer);
/// assert!(matches!(ended, Some(RelayEvent::TurnEnded(_))));
/// assert_eq!(receive(&mut relay, Side::Editor)["id"], "abc");
/// ```
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    editor: End,
    agent: End,
    /// The end to read from next.
    next: Side,
    capabilities: Capabilities,
    terminals: Terminals,
    sessions: BTreeMap<String, SessionState>,
    /// The number of prompts so far.
    prompts: u64,
    /// The agent has sent a list of its commands.
    has_listed: bool,
    events: VecDeque<RelayEvent>,
    /// The methods of refused notifications that were reported.
    refused: Vec<String>,
    /// Why the agent ended, if known.
    end_reason: String,
    /// Set if the agent answered `initialize` with another version.
    unsupported_version: Option<UnsupportedVersion>,
    release: Release,
    now: Instant,
}

/// The configuration of a [`Relay`].
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Limits on both ends. Of the times only `cancel_grace` applies.
    pub limits: Limits,
    /// The server of `fs/*`.
    pub files: MethodServer,
    /// The server of `terminal/*`.
    pub terminal: MethodServer,
    /// The paths of the host and of the agent container.
    pub map: PathMap,
    /// Directories of the host in which sessions may be opened; empty for any.
    pub roots: Vec<String>,
    /// Resolves the paths of the agent requests to the editor.
    pub resolver: PathResolver,
    /// Requests and notifications outside of the schema that the agent may send to the editor: methods, or
    /// namespaces such as `_vendor/*`.
    pub allowed_requests: Vec<String>,
    /// The remedy in the error for a session elsewhere.
    pub remedy: String,
    /// Sessions tracked at once. The one whose prompt is oldest is dropped.
    pub sessions: usize,
    /// Queued prompts per session.
    pub queued_prompts: usize,
    /// Memory of all queued prompts, in bytes.
    pub queued_bytes: usize,
    /// Unwritten bytes for one end above which the other is not read.
    pub backlog: usize,
    /// The program that the editor starts for terminal authentication; `None` to forward the
    /// methods unchanged.
    pub terminal_login: Option<TerminalLogin>,
    /// Commands that the caller serves, beside the agent's own.
    pub commands: Vec<OwnCommand>,
}

/// The server of an agent's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodServer {
    /// The caller.
    Host,
    /// The editor, as far as it declares the capability.
    Editor,
    /// None: answered with -32601.
    Neither,
}

/// An end of the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The editor, which started this program.
    Editor,
    /// The agent, which this program started.
    Agent,
}

/// Selects whether the agent is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// Yes: the editor is connected.
    No,
    /// The editor has disconnected. The agent may answer pending requests until then.
    At(Option<Instant>),
    /// All requests are answered or late. The agent may read its answers until then.
    Flushing(Option<Instant>),
    /// [`RelayEvent::Released`] was sent.
    Reported,
}

impl Default for RelayConfig {
    fn default() -> Self {
        RelayConfig {
            limits: Limits::default(),
            files: MethodServer::Editor,
            terminal: MethodServer::Editor,
            map: PathMap::default(),
            roots: Vec::new(),
            resolver: PathResolver::default(),
            allowed_requests: Vec::new(),
            remedy: String::new(),
            sessions: 16,
            queued_prompts: 8,
            queued_bytes: 32 << 20,
            backlog: 4 << 20,
            terminal_login: None,
            commands: Vec::new(),
        }
    }
}

impl Relay {
    /// Creates a relay at the start of both connections.
    pub fn new(config: RelayConfig, now: Instant) -> Self {
        Relay {
            editor: End::new(&config.limits),
            agent: End::new(&config.limits),
            next: Side::Editor,
            capabilities: Capabilities::new(
                config.files,
                config.terminal,
                config.allowed_requests.clone(),
            ),
            terminals: Terminals::default(),
            config,
            sessions: BTreeMap::new(),
            prompts: 0,
            has_listed: false,
            events: VecDeque::new(),
            refused: Vec::new(),
            end_reason: String::new(),
            unsupported_version: None,
            release: Release::No,
            now,
        }
    }

    /// Passes in bytes from one end. Memory is bounded if the caller reads only when
    /// [`should_read`](Relay::should_read) allows.
    pub fn receive(&mut self, from: Side, bytes: &[u8], now: Instant) {
        self.now = now;
        self.connection_mut(from).reader.receive(bytes);
    }

    /// Passes in the end of one end's stream.
    pub fn receive_eof(&mut self, from: Side, now: Instant) {
        self.now = now;
        self.connection_mut(from).reader.receive_eof();
    }

    /// Sets the reason for the agent's end, which is part of the errors that follow. Call before
    /// [`receive_eof`](Relay::receive_eof).
    pub fn set_end_reason(&mut self, reason: impl Into<String>) {
        self.end_reason = reason.into();
    }

    /// Returns the next event. After `None`, taking lines may produce more.
    pub fn poll_event(&mut self) -> Option<RelayEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            match self.next_inbound() {
                Some((from, inbound)) => self.handle_inbound(from, inbound),
                // Last, as unparsed input of the agent may contain a request.
                None => {
                    self.release();
                    return self.events.pop_front();
                }
            }
        }
    }

    /// Returns the next line to write to one end, with its `\n`. Take it only when it can be
    /// written, so that a slow reader slows the other end.
    pub fn poll_transmit(&mut self, to: Side) -> Option<Vec<u8>> {
        self.connection_mut(to).out.pop()
    }

    /// Returns the number of unwritten bytes for one end.
    pub fn backlog(&self, to: Side) -> usize {
        self.connection(to).out.held()
    }

    /// Returns whether to read from one end; false while too much output caused by it is unwritten.
    pub fn should_read(&self, from: Side) -> bool {
        let own =
            self.config.backlog.saturating_mul(2).saturating_add(self.config.limits.frame_out);
        // Output to an end is mostly caused by the other end, and an end may be unable to read
        // while it writes. A much larger backlog consists of answers to its own requests.
        self.connection(from).is_open()
            && self.backlog(from.other()) < self.config.backlog
            && self.backlog(from) < own
    }

    /// Returns the time at which [`handle_timeout`](Relay::handle_timeout) has work to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let release = match self.release {
            Release::At(until) | Release::Flushing(until) => until,
            Release::No | Release::Reported => None,
        };
        self.sessions.values().filter_map(SessionState::poll_timeout).chain(release).min()
    }

    /// Handles expired deadlines. Does nothing if called early.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        for (session, state) in &mut self.sessions {
            if state.is_overdue(now) {
                self.events.push_back(RelayEvent::Overdue { session: session.clone() });
            }
        }
        self.release();
    }

    /// Answers a permission request. Returns false, and writes nothing, if the decision is not the
    /// caller's, or the option does not exist.
    pub fn decide(&mut self, id: &Id, decision: &PermissionOutcome, now: Instant) -> bool {
        self.now = now;
        let Some(IncomingRequest::Permission { decider: Decider::Host(pending), .. }) =
            self.agent.received.get(id)
        else {
            return false;
        };
        decision.is_among(&pending.options)
            && self.answer(Side::Agent, id, Ok(decision.to_result()), Map::new())
    }

    /// Answers a request that the caller serves. Returns false, and writes nothing, if it is not
    /// pending.
    pub fn respond(&mut self, id: &Id, outcome: Result<Value, RpcError>, now: Instant) -> bool {
        self.now = now;
        let is_host = matches!(self.agent.received.get(id), Some(IncomingRequest::Host));
        if is_host {
            let shown = self.terminals.record_response(id, outcome.as_ref().ok());
            self.answer(Side::Agent, id, outcome, Map::new());
            shown.into_iter().for_each(|shown| self.resend_content(shown));
        }
        is_host
    }

    /// Returns the tool calls of a tracked session.
    pub fn tools(&self, session: &str) -> Option<&ToolCalls> {
        self.sessions.get(session).map(SessionState::tools)
    }

    /// Returns the number of unanswered requests of one end.
    pub fn unanswered(&self, to: Side) -> usize {
        self.connection(to).received.len()
    }

    /// Returns the counts of messages from one end.
    pub fn traffic(&self, from: Side) -> Traffic {
        self.connection(from).reader.traffic()
    }

    /// Returns the counts of protocol errors of one end.
    pub fn protocol_errors(&self, from: Side) -> ProtocolErrors {
        self.connection(from).protocol_errors
    }

    /// Returns the last bytes of non-JSON output of one end.
    pub fn non_json(&self, from: Side) -> &str {
        self.connection(from).reader.non_json()
    }

    fn connection(&self, side: Side) -> &End {
        match side {
            Side::Editor => &self.editor,
            Side::Agent => &self.agent,
        }
    }

    fn connection_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Editor => &mut self.editor,
            Side::Agent => &mut self.agent,
        }
    }
}

impl Side {
    /// Returns the other end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Side::Editor => Side::Agent,
            Side::Agent => Side::Editor,
        }
    }

    /// Returns the direction of messages from this end.
    fn direction(self) -> Direction {
        match self {
            Side::Editor => Direction::ToAgent,
            Side::Agent => Direction::ToEditor,
        }
    }
}

const INITIALIZE: &str = "initialize";
const CANCEL: &str = "session/cancel";
const PERMISSION: &str = "session/request_permission";
const CANCEL_REQUEST: &str = "$/cancel_request";

#[cfg(test)]
mod tests;
