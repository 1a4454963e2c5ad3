//! The client's end of one connection: bytes and commands in, lines and events out.

mod agent_requests;
mod inbound;
mod requests;
mod time;

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::capabilities::{AgentInfo, ClientCapabilities};
use crate::event::Event;
use crate::json::{LineTooLong, set_member};
use crate::limits::Limits;
use crate::message::{Id, RpcError};
use crate::message_reader::Traffic;
use crate::peer::Peer;
use crate::permission::PermissionOutcome;
use crate::protocol_errors::ProtocolErrors;
use crate::session::Session;
use crate::text_run::Streaming;
use crate::turn_end::CancelCause;
use crate::update::Update;
use agent_requests::AgentRequest;

/// A client of one agent (`spec/acp.md`).
///
/// After each call that passes bytes or time in, the caller takes out, in this order: all events,
/// all lines to write, and the time of the next [`handle_timeout`](Client::handle_timeout).
#[derive(Debug)]
pub struct Client {
    config: Config,
    agent: Peer<SentRequest, AgentRequest>,
    state: ConnectionState,
    sessions: BTreeMap<String, Session>,
    early: EarlyUpdates,
    events: VecDeque<Event>,
    now: Instant,
    /// Time of the last input, or of the last answer to the agent.
    last_activity: Instant,
}

/// The configuration of a [`Client`].
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Limits on the agent input.
    pub limits: Limits,
    /// The methods that the client serves.
    pub capabilities: ClientCapabilities,
    /// How the agent streams text.
    pub streaming: Streaming,
}

/// A connection state.
#[derive(Clone, Debug, PartialEq)]
pub enum ConnectionState {
    /// Nothing has been sent.
    Started,
    /// `initialize` has been sent.
    Initializing,
    /// `initialize` has been answered; sessions can be opened.
    Ready(AgentInfo),
    /// `initialize` failed; no request is sent any more.
    Closing,
    /// The agent's stream has ended.
    Closed,
}

/// Why a request was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The connection is not in the state for it.
    #[error("the agent is not ready")]
    NotReady,
    /// The agent lacks the capability.
    #[error("the agent does not offer '{0}'")]
    NotOffered(&'static str),
    /// The session is not open.
    #[error("no session '{0}' is open")]
    UnknownSession(String),
    /// The session is already open.
    #[error("session '{0}' is already open")]
    AlreadyOpen(String),
    /// The session's turn has not ended. Agents differ in what they do with a second prompt.
    #[error("session '{0}' already has a running prompt")]
    Busy(String),
    /// The message exceeds [`Limits::frame_out`].
    #[error(transparent)]
    TooLong(#[from] LineTooLong),
}

/// The result of [`Client::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// `session/cancel` was sent.
    Sent,
    /// It had been sent before, or no turn is running.
    NotNeeded,
}

/// A request that the client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SentRequest {
    Initialize,
    New,
    Load { session: String },
    Prompt { session: String },
    Other { method: String },
}

/// Updates of sessions whose `session/new` has not been answered yet: some agents send them early.
#[derive(Debug, Default)]
struct EarlyUpdates {
    updates: VecDeque<Update>,
    held: usize,
}

impl Client {
    /// Creates a client at the start of a connection.
    pub fn new(config: Config, now: Instant) -> Self {
        Client {
            agent: Peer::new(&config.limits),
            config,
            state: ConnectionState::Started,
            sessions: BTreeMap::new(),
            early: EarlyUpdates::default(),
            events: VecDeque::new(),
            now,
            last_activity: now,
        }
    }

    /// Passes in bytes from the agent. Memory stays within [`Limits`] if the caller empties
    /// [`poll_event`](Client::poll_event) before the next call.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) {
        self.now = now;
        self.agent.reader.receive(bytes);
    }

    /// Passes in the end of the agent's stream.
    pub fn receive_eof(&mut self, now: Instant) {
        self.now = now;
        self.agent.reader.receive_eof();
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let inbound = self.agent.next_inbound()?;
            self.handle_inbound(inbound);
        }
    }

    /// Returns the next line to write, with its `\n`.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.agent.out.pop()
    }

    /// Returns the number of lines to write.
    pub fn unwritten(&self) -> usize {
        self.agent.out.len()
    }

    /// Sends `initialize` with the client name and version. Must be the first request.
    pub fn initialize(
        &mut self,
        name: &str,
        version: &str,
        now: Instant,
    ) -> Result<u64, SendError> {
        if self.state != ConnectionState::Started {
            return Err(SendError::NotReady);
        }
        let params = serde_json::to_value(self.config.capabilities.initialize(name, version));
        // Serialising text and flags cannot fail.
        let params = params.unwrap_or_default();
        let timeout = now.checked_add(self.config.limits.initialize);
        let id = self.send("initialize", params, SentRequest::Initialize, timeout, now)?;
        self.state = ConnectionState::Initializing;
        Ok(id)
    }

    /// Sends `session/new` with these parameters.
    pub fn new_session(&mut self, params: Value, now: Instant) -> Result<u64, SendError> {
        self.ready()?;
        let timeout = now.checked_add(self.config.limits.request);
        self.send("session/new", params, SentRequest::New, timeout, now)
    }

    /// Sends `session/load`. Updates before the answer are the session history.
    pub fn load_session(
        &mut self,
        session: &str,
        mut params: Value,
        now: Instant,
    ) -> Result<u64, SendError> {
        let agent = self.ready()?;
        if !agent.loads_sessions {
            return Err(SendError::NotOffered("session/load"));
        }
        if self.sessions.contains_key(session) {
            return Err(SendError::AlreadyOpen(session.to_owned()));
        }
        set_member(&mut params, "sessionId", json!(session));
        let timeout = now.checked_add(self.config.limits.request);
        let sent = SentRequest::Load { session: session.to_owned() };
        let id = self.send("session/load", params, sent, timeout, now)?;
        let opened = self.open(session).begin_loading();
        self.sessions.entry(session.to_owned()).or_insert(opened);
        Ok(id)
    }

    /// Sends `session/prompt` with these content blocks and returns the turn's number. A session
    /// has one turn at a time.
    pub fn prompt(&mut self, session: &str, prompt: Value, now: Instant) -> Result<u64, SendError> {
        self.ready()?;
        let known = self.sessions.get_mut(session);
        let known = known.ok_or_else(|| SendError::UnknownSession(session.to_owned()))?;
        if !known.can_begin() {
            return Err(SendError::Busy(session.to_owned()));
        }
        let params = json!({"sessionId": session, "prompt": prompt});
        let sent = SentRequest::Prompt { session: session.to_owned() };
        self.send("session/prompt", params, sent, None, now)?;
        self.last_activity = now;
        Ok(self.sessions.get_mut(session).map(|session| session.begin(now)).unwrap_or_default())
    }

    /// Sends `session/cancel`, then answers every pending permission request of the session with
    /// `cancelled`: some agents otherwise never end the turn.
    pub fn cancel(&mut self, session: &str, cause: CancelCause, now: Instant) -> CancelOutcome {
        self.now = now;
        let is_news = self.sessions.get_mut(session).is_some_and(|found| found.cancel(cause, now));
        if !is_news {
            return CancelOutcome::NotNeeded;
        }
        let params = json!({"sessionId": session});
        // The session id came in the agent line. If it is too long for an outgoing line, the
        // turn becomes overdue.
        let _ = self.agent.out.notify("session/cancel".to_owned(), params, Map::new());
        self.cancel_permissions(session, cause);
        CancelOutcome::Sent
    }

    /// Sends any other request.
    pub fn request(&mut self, method: &str, params: Value, now: Instant) -> Result<u64, SendError> {
        self.ready()?;
        let timeout = now.checked_add(self.config.limits.request);
        self.send(method, params, SentRequest::Other { method: method.to_owned() }, timeout, now)
    }

    /// Answers a permission request. Returns false, and writes nothing, if the request is not
    /// pending or has no such option.
    pub fn decide(&mut self, id: &Id, decision: &PermissionOutcome, now: Instant) -> bool {
        self.now = now;
        let options = self.agent.received.permission(id);
        options.is_some_and(|options| decision.is_among(options))
            && self.answer_permission(id, decision)
    }

    /// Answers a request that the caller serves. Returns false, and writes nothing, if it is not
    /// pending.
    pub fn respond(&mut self, id: &Id, outcome: Result<Value, RpcError>, now: Instant) -> bool {
        self.now = now;
        let is_waiting = self.agent.received.is_host(id);
        if is_waiting {
            self.agent.received.take(id);
            self.last_activity = now;
            self.reply(id.clone(), outcome);
        }
        is_waiting
    }

    /// Removes a session that has no turn. Returns false if it has one, or is not open.
    pub fn forget(&mut self, session: &str) -> bool {
        let is_idle = self.sessions.get(session).is_some_and(Session::can_begin);
        is_idle && self.sessions.remove(session).is_some()
    }

    /// Returns the connection state.
    pub fn state(&self) -> &ConnectionState {
        &self.state
    }

    /// Returns a session by its id.
    pub fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// Returns the number of the agent's unanswered requests.
    pub fn unanswered(&self) -> usize {
        self.agent.received.len()
    }

    /// Returns the counts of received messages.
    pub fn traffic(&self) -> Traffic {
        self.agent.reader.traffic()
    }

    /// Returns the counts of protocol errors.
    pub fn protocol_errors(&self) -> ProtocolErrors {
        self.agent.protocol_errors
    }

    /// Returns the last bytes of non-JSON output.
    pub fn non_json(&self) -> &str {
        self.agent.reader.non_json()
    }

    fn open(&self, session: &str) -> Session {
        Session::open(session, &self.config.limits, self.config.streaming)
    }

    fn send(
        &mut self,
        method: &str,
        params: Value,
        sent: SentRequest,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<u64, SendError> {
        self.now = now;
        Ok(self.agent.send(sent, deadline, (method.to_owned(), params), Map::new())?)
    }

    /// Answers a permission request if it is pending.
    fn answer_permission(&mut self, id: &Id, decision: &PermissionOutcome) -> bool {
        let is_waiting = self.agent.received.take(id).is_some();
        if is_waiting {
            self.last_activity = self.now;
            self.reply(id.clone(), Ok(decision.to_result()));
        }
        is_waiting
    }

    /// Writes an answer. One that is too long becomes an error.
    fn reply(&mut self, id: Id, outcome: Result<Value, RpcError>) {
        // The agent receives the error; no other caller needs it.
        let _ = self.agent.out.reply(id, outcome, Map::new());
    }
}

#[cfg(test)]
mod tests;
