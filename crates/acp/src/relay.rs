//! Between an editor and its agent: both ends of what each says, and what is ours to say in between.

mod agent;
mod cancelling;
mod capabilities;
mod connection;
mod editor;
mod ending;
mod event;
mod fields;
mod file_uri;
mod passing;
mod path_map;
mod prompts;
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
use crate::permission::Decision;
use crate::protocol_errors::ProtocolErrors;
use crate::tool_calls::ToolCalls;
use capabilities::Capabilities;
use connection::{Connection, Decider, IncomingRequest, StreamState};
use session_state::SessionState;
use terminals::Terminals;

pub use event::{RelayEvent, RelayedTurn};
pub use path_map::{Direction, PathMap};
pub use terminal_login::TerminalLogin;

/// What stands between an editor, which has started us as its agent, and the agent, whose client we
/// are (`spec/acp-relay.md`).
///
/// What either says is passed on as it came; only where paths are, and what the agent can ask for,
/// is rewritten. Whoever drives it hands in what was read and what time it is, and takes out, after
/// each of these, events and lines until there are neither; then it knows from
/// [`should_read`](Relay::should_read) from whom to read, and from [`poll_timeout`](Relay::poll_timeout) when to
/// call [`handle_timeout`](Relay::handle_timeout).
///
/// ```
/// use std::time::Instant;
///
/// use aifo_acp::{Relay, RelayConfig, RelayEvent, Side, Verdict};
/// use serde_json::{Value, json};
///
/// let now = Instant::now();
/// let mut relay = Relay::new(RelayConfig::default(), now);
/// let say = |relay: &mut Relay, from: Side, message: Value| {
///     relay.receive(from, format!("{message}\n").as_bytes(), now);
///     relay.poll_event()
/// };
/// let hear = |relay: &mut Relay, to: Side| -> Value {
///     serde_json::from_slice(&relay.poll_transmit(to).unwrap()).unwrap()
/// };
///
/// // The editor prompts by an id of its own; the agent sees one of ours ..
/// let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "tidy up"}]});
/// let prompt = json!({"id": "abc", "method": "session/prompt", "params": params});
/// assert_eq!(say(&mut relay, Side::Editor, prompt), None);
/// let heard = hear(&mut relay, Side::Agent);
/// assert_eq!((&heard["id"], &heard["params"]), (&json!(1), &params));
///
/// // .. asks for permission, and a rule decides before anybody at the editor is asked ..
/// let params = json!({"sessionId": "s", "options": [{"optionId": "no", "kind": "reject_once"}]});
/// let ask = json!({"id": 0, "method": "session/request_permission", "params": params});
/// let Some(RelayEvent::Permission { id, request }) = say(&mut relay, Side::Agent, ask) else {
///     panic!("somebody has to decide")
/// };
/// assert!(relay.decide(&id, &request.choose(Verdict::Deny, None).unwrap(), now));
/// assert_eq!(hear(&mut relay, Side::Agent)["result"]["outcome"]["optionId"], "no");
///
/// // .. and what the agent answers, the editor gets with its own id.
/// let answer = json!({"id": 1, "result": {"stopReason": "end_turn"}});
/// let ended = say(&mut relay, Side::Agent, answer);
/// assert!(matches!(ended, Some(RelayEvent::TurnEnded(_))));
/// assert_eq!(hear(&mut relay, Side::Editor)["id"], "abc");
/// ```
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    editor: Connection,
    agent: Connection,
    /// Whose turn it is to be read from.
    next: Side,
    capabilities: Capabilities,
    terminals: Terminals,
    sessions: BTreeMap<String, SessionState>,
    /// Prompts that have come.
    prompts: u64,
    events: VecDeque<RelayEvent>,
    /// Why the agent has ended, if that is known.
    end_reason: String,
    /// What the agent has answered to `initialize` instead of a version that aifo speaks.
    unsupported_version: Option<UnsupportedVersion>,
    release: Release,
    now: Instant,
}

/// What a relay is made with.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// What either end may take up. Of the times only `cancel_grace` counts: how long anything else
    /// takes is between the editor and the agent.
    pub limits: Limits,
    /// Who serves `fs/*`.
    pub files: ServedBy,
    /// Who serves `terminal/*`.
    pub terminal: ServedBy,
    /// How the two name the same places.
    pub map: PathMap,
    /// Folders of the host beneath which a session may be opened; empty for anywhere.
    pub roots: Vec<String>,
    /// What to do about a session elsewhere, for whoever reads the error.
    pub remedy: String,
    /// Sessions that are known at once. The one that rests longest makes room.
    pub sessions: usize,
    /// Prompts of one session that wait behind another.
    pub queued_prompts: usize,
    /// The weight of all prompts that wait, in bytes.
    pub queued_bytes: usize,
    /// Bytes of lines that wait to be written to one end, from which on the other is not read.
    pub backlog: usize,
    /// What the editor starts for an agent's authentication in a terminal; `None` to pass that as it
    /// came, for an editor that starts the agent itself.
    pub terminal_login: Option<TerminalLogin>,
}

/// Who serves requests of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedBy {
    /// Whoever drives the relay.
    Host,
    /// The editor, as far as it says that it can.
    Editor,
    /// Nobody: they are answered -32601.
    Neither,
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Who has started us.
    Editor,
    /// Whom we have started.
    Agent,
}

/// Whether the agent is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// The editor is there.
    No,
    /// It has gone; until then the agent may answer what it was asked.
    At(Option<Instant>),
    /// All that it was asked is answered, or late; until then it may take what it is answered.
    Flushing(Option<Instant>),
    /// That was told.
    Reported,
}

impl Default for RelayConfig {
    fn default() -> Self {
        RelayConfig {
            limits: Limits::default(),
            files: ServedBy::Editor,
            terminal: ServedBy::Editor,
            map: PathMap::default(),
            roots: Vec::new(),
            remedy: String::new(),
            sessions: 16,
            queued_prompts: 8,
            queued_bytes: 32 << 20,
            backlog: 4 << 20,
            terminal_login: None,
        }
    }
}

impl Relay {
    /// A relay at the start of both connections.
    pub fn new(config: RelayConfig, now: Instant) -> Self {
        Relay {
            editor: Connection::new(&config.limits),
            agent: Connection::new(&config.limits),
            next: Side::Editor,
            capabilities: Capabilities::new(config.files, config.terminal),
            terminals: Terminals::default(),
            config,
            sessions: BTreeMap::new(),
            prompts: 0,
            events: VecDeque::new(),
            end_reason: String::new(),
            unsupported_version: None,
            release: Release::No,
            now,
        }
    }

    /// Takes a copy of what was read from one end. Read only from whom it
    /// [`should_read`](Relay::should_read): then no more is held than the limits allow.
    pub fn receive(&mut self, from: Side, bytes: &[u8], now: Instant) {
        self.now = now;
        self.connection_mut(from).reader.receive(bytes);
    }

    /// Tells that no more bytes come from one end.
    pub fn receive_eof(&mut self, from: Side, now: Instant) {
        self.now = now;
        self.connection_mut(from).reader.receive_eof();
    }

    /// Says why the agent has ended, or is about to: it stands in the error of everything that then
    /// fails. To be called before [`receive_eof`](Relay::receive_eof).
    pub fn set_end_reason(&mut self, reason: impl Into<String>) {
        self.end_reason = reason.into();
    }

    /// The next thing that has come of it. After `None`, there may be more once lines were taken.
    pub fn poll_event(&mut self) -> Option<RelayEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            match self.next_inbound() {
                Some((from, inbound)) => self.handle_inbound(from, inbound),
                // Only now: what was read of the agent and not parsed yet may be a request.
                None => {
                    self.release();
                    return self.events.pop_front();
                }
            }
        }
    }

    /// The next line to write to one end, with its end. To be taken only when it can be written: that
    /// is how an end that does not read holds back the other.
    pub fn poll_transmit(&mut self, to: Side) -> Option<Vec<u8>> {
        self.connection_mut(to).out.pop()
    }

    /// How many bytes of lines wait to be written to one end.
    pub fn backlog(&self, to: Side) -> usize {
        self.connection(to).out.held()
    }

    /// Whether to read from one end: not while too much waits to be written, because of what it says.
    pub fn should_read(&self, from: Side) -> bool {
        let own =
            self.config.backlog.saturating_mul(2).saturating_add(self.config.limits.frame_out);
        // What an end is sent is mostly the other's doing, and it may be unable to read while it
        // writes. Only a flood of what it has to be answered itself is its own.
        self.connection(from).stream == StreamState::Open
            && self.backlog(from.other()) < self.config.backlog
            && self.backlog(from) < own
    }

    /// UpdateScope [`handle_timeout`](Relay::handle_timeout) next has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let release = match self.release {
            Release::At(until) | Release::Flushing(until) => until,
            Release::No | Release::Reported => None,
        };
        self.sessions.values().filter_map(SessionState::poll_timeout).chain(release).min()
    }

    /// Does what is due. Earlier than asked for, it does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        for (session, state) in &mut self.sessions {
            if state.is_overdue(now) {
                self.events.push_back(RelayEvent::Overdue { session: session.clone() });
            }
        }
        self.release();
    }

    /// Answers a request for permission. False if it does not wait for us, or was asked without that
    /// option: then nothing is written.
    pub fn decide(&mut self, id: &Id, decision: &Decision, now: Instant) -> bool {
        self.now = now;
        let Some(IncomingRequest::Permission { decider: Decider::Host(pending), .. }) =
            self.agent.incoming.get(id)
        else {
            return false;
        };
        let is_offered = match decision {
            Decision::Select(option) => pending.options.contains(option),
            Decision::Cancelled => true,
        };
        is_offered && self.answer(Side::Agent, id, Ok(decision.to_result()), Map::new())
    }

    /// Answers a request that is ours to serve. False if it does not wait, then nothing is written.
    pub fn respond(&mut self, id: &Id, outcome: Result<Value, RpcError>, now: Instant) -> bool {
        self.now = now;
        let is_ours = matches!(self.agent.incoming.get(id), Some(IncomingRequest::Host));
        if is_ours {
            let shown = self.terminals.record_response(id, outcome.as_ref().ok());
            self.answer(Side::Agent, id, outcome, Map::new());
            shown.into_iter().for_each(|shown| self.resend_content(shown));
        }
        is_ours
    }

    /// The tool calls of a session, as far as they are known.
    pub fn tools(&self, session: &str) -> Option<&ToolCalls> {
        self.sessions.get(session).map(SessionState::tools)
    }

    /// How many requests of one end wait for their answers.
    pub fn unanswered(&self, to: Side) -> usize {
        self.connection(to).incoming.len()
    }

    /// What came from one end, counted.
    pub fn traffic(&self, from: Side) -> Traffic {
        self.connection(from).reader.traffic()
    }

    /// What came from one end and did not fit, counted.
    pub fn protocol_errors(&self, from: Side) -> ProtocolErrors {
        self.connection(from).protocol_errors
    }

    /// The end of all that came from one end and was no message.
    pub fn non_json(&self, from: Side) -> &str {
        self.connection(from).reader.non_json()
    }

    fn connection(&self, side: Side) -> &Connection {
        match side {
            Side::Editor => &self.editor,
            Side::Agent => &self.agent,
        }
    }

    fn connection_mut(&mut self, side: Side) -> &mut Connection {
        match side {
            Side::Editor => &mut self.editor,
            Side::Agent => &mut self.agent,
        }
    }
}

impl Side {
    /// Where to what this end says goes.
    fn direction(self) -> Direction {
        match self {
            Side::Editor => Direction::ToAgent,
            Side::Agent => Direction::ToEditor,
        }
    }
}

const INITIALIZE: &str = "initialize";
const CANCEL: &str = "session/cancel";
const CANCEL_REQUEST: &str = "$/cancel_request";

#[cfg(test)]
mod tests;
