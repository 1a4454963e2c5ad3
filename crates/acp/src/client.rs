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
use crate::json::LineTooLong;
use crate::limits::Limits;
use crate::message::{Id, Message, RpcError};
use crate::message_reader::{MessageReader, Traffic};
use crate::outbox::Outbox;
use crate::pending::Pending;
use crate::permission::Decision;
use crate::protocol_errors::ProtocolErrors;
use crate::session::Session;
use crate::text_run::Streaming;
use crate::timeline::AnswerFrom;
use crate::turn::TurnPhase;
use crate::turn_end::CancelCause;
use crate::unanswered::Unanswered;
use crate::update::Update;
use agent_requests::AgentRequest;

pub use requests::Requests;

/// A client of one agent (`spec/acp.md#the-client`).
///
/// Whoever drives it hands in what was read and what time it is, and takes out, after each of these
/// and in this order: events until there are none, lines to write until there are none, and when to
/// call [`handle_timeout`](Client::handle_timeout).
#[derive(Debug)]
pub struct Client {
    config: Config,
    reader: MessageReader,
    state: ConnectionState,
    pending: Pending<SentRequest>,
    sessions: BTreeMap<String, Session>,
    agent_requests: Unanswered<AgentRequest>,
    early: EarlyUpdates,
    events: VecDeque<Event>,
    out: Outbox,
    protocol_errors: ProtocolErrors,
    now: Instant,
    /// UpdateScope something last came, or something that was owed was given.
    last_activity: Instant,
}

/// What a client is made with.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// What an agent may take up.
    pub limits: Limits,
    /// What is served.
    pub capabilities: ClientCapabilities,
    /// What the agent's chunks are.
    pub streaming: Streaming,
    /// What of a turn is its answer.
    pub answer_from: AnswerFrom,
    /// Whose requests are sent.
    pub requests: Requests,
}

/// Where the connection stands.
#[derive(Clone, Debug, PartialEq)]
pub enum ConnectionState {
    /// Nothing was sent.
    Started,
    /// It was asked who it is.
    Initializing,
    /// Sessions can be opened.
    Ready(AgentInfo),
    /// Nothing more is asked of it: it is not one that we can talk to.
    Closing,
    /// Its stream has ended.
    Closed,
}

/// Why something is not even sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It is not the time for it.
    #[error("the agent is not ready")]
    NotReady,
    /// The agent does not know how.
    #[error("the agent does not offer '{0}'")]
    NotOffered(&'static str),
    /// There is no such session.
    #[error("no session '{0}' is open")]
    UnknownSession(String),
    /// There is one of that name.
    #[error("session '{0}' is open")]
    AlreadyOpen(String),
    /// Its turn has not ended: real agents do seven different things with a second prompt.
    #[error("session '{0}' has a prompt to answer")]
    Busy(String),
    /// It would be longer than a line may be.
    #[error(transparent)]
    TooLong(#[from] LineTooLong),
}

/// What came of the wish to cancel a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The agent is told.
    Sent,
    /// It was told before, or there is nothing to cancel.
    NotNeeded,
}

/// A request of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SentRequest {
    Initialize,
    New,
    Load { session: String },
    Prompt { session: String },
    Other { method: String },
}

/// Updates of sessions whose opening was not answered yet: some agents cannot wait.
#[derive(Debug, Default)]
struct EarlyUpdates {
    updates: VecDeque<Update>,
    held: usize,
}

impl Client {
    /// A client at the start of a connection.
    pub fn new(config: Config, now: Instant) -> Self {
        Client {
            reader: MessageReader::new(&config.limits),
            out: Outbox::new(config.limits.frame_out),
            config,
            state: ConnectionState::Started,
            pending: Pending::default(),
            sessions: BTreeMap::new(),
            agent_requests: Unanswered::default(),
            early: EarlyUpdates::default(),
            events: VecDeque::new(),
            protocol_errors: ProtocolErrors::default(),
            now,
            last_activity: now,
        }
    }

    /// Takes a copy of what was read. Ask [`poll_event`](Client::poll_event) for all there is before
    /// the next bytes: then no more is held than [`Limits`] allow.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) {
        self.now = now;
        self.reader.receive(bytes);
    }

    /// Tells that no more bytes come.
    pub fn receive_eof(&mut self, now: Instant) {
        self.now = now;
        self.reader.receive_eof();
    }

    /// The next thing that has come of it.
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.state == ConnectionState::Closed {
                return None;
            }
            let inbound = self.reader.next_message()?;
            self.handle_inbound(inbound);
        }
    }

    /// The next line to write, with its end.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop()
    }

    /// Asks the agent who it is, as this client. Comes first, and once.
    pub fn initialize(
        &mut self,
        name: &str,
        version: &str,
        now: Instant,
    ) -> Result<u64, SendError> {
        if self.state != ConnectionState::Started && !self.is_relayed() {
            return Err(SendError::NotReady);
        }
        let params = serde_json::to_value(self.config.capabilities.initialize(name, version));
        // A struct of texts and flags always has a value.
        let params = params.unwrap_or_default();
        let timeout = now.checked_add(self.config.limits.initialize);
        let id = self.send("initialize", params, SentRequest::Initialize, timeout, now)?;
        self.state = ConnectionState::Initializing;
        Ok(id)
    }

    /// Opens a session, with the parameters of a `session/new`.
    pub fn new_session(&mut self, params: Value, now: Instant) -> Result<u64, SendError> {
        self.ready()?;
        let timeout = now.checked_add(self.config.limits.request);
        self.send("session/new", params, SentRequest::New, timeout, now)
    }

    /// Opens a session that was before; what comes until it is answered is its history.
    pub fn load_session(
        &mut self,
        session: &str,
        mut params: Value,
        now: Instant,
    ) -> Result<u64, SendError> {
        let agent = self.ready()?;
        if !self.is_relayed() {
            if !agent.is_some_and(|agent| agent.loads_sessions) {
                return Err(SendError::NotOffered("session/load"));
            }
            if self.sessions.contains_key(session) {
                return Err(SendError::AlreadyOpen(session.to_owned()));
            }
        }
        set(&mut params, "sessionId", json!(session));
        let timeout = now.checked_add(self.config.limits.request);
        let sent = SentRequest::Load { session: session.to_owned() };
        let id = self.send("session/load", params, sent, timeout, now)?;
        let opened = self.open(session).begin_loading();
        self.sessions.entry(session.to_owned()).or_insert(opened);
        Ok(id)
    }

    /// Begins a turn with these blocks of content, and gives its number. One turn at a time.
    pub fn prompt(&mut self, session: &str, prompt: Value, now: Instant) -> Result<u64, SendError> {
        self.ready()?;
        self.admit(session);
        let is_relayed = self.is_relayed();
        let known = self.sessions.get_mut(session);
        let known = known.ok_or_else(|| SendError::UnknownSession(session.to_owned()))?;
        if is_relayed {
            known.finish_loading();
        }
        if !known.can_begin() {
            return Err(SendError::Busy(session.to_owned()));
        }
        let params = json!({"sessionId": session, "prompt": prompt});
        let sent = SentRequest::Prompt { session: session.to_owned() };
        self.send("session/prompt", params, sent, None, now)?;
        self.last_activity = now;
        Ok(self.sessions.get_mut(session).map(|session| session.begin(now)).unwrap_or_default())
    }

    /// Ends a turn that was answered, without waiting for what may still come. False if there is none.
    pub fn finish_turn(&mut self, session: &str, now: Instant) -> bool {
        self.now = now;
        let turn = self.sessions.get(session).and_then(Session::turn);
        let is_answered = turn == Some(TurnPhase::Draining);
        if is_answered {
            self.end_turn(session);
        }
        is_answered
    }

    /// Asks the agent to end a session's turn. It is told, then every permission that waits is
    /// answered with `cancelled`: without that some agents never end.
    pub fn cancel(&mut self, session: &str, cause: CancelCause, now: Instant) -> CancelOutcome {
        self.now = now;
        let is_news = self.sessions.get_mut(session).is_some_and(|found| found.cancel(cause, now));
        if !is_news {
            return CancelOutcome::NotNeeded;
        }
        let params = json!({"sessionId": session});
        let cancel = Message::Notification { method: "session/cancel".to_owned(), params };
        // Its session is one that a line of the agent's has named; if it is too long for one of ours,
        // the turn becomes overdue.
        let _ = self.out.push(cancel, Map::new());
        self.cancel_permissions(session, cause);
        CancelOutcome::Sent
    }

    /// Asks anything else of the agent.
    pub fn request(&mut self, method: &str, params: Value, now: Instant) -> Result<u64, SendError> {
        self.ready()?;
        let timeout = now.checked_add(self.config.limits.request);
        self.send(method, params, SentRequest::Other { method: method.to_owned() }, timeout, now)
    }

    /// Answers a request for permission. False if it does not wait any more, or was asked without
    /// that option: then nothing is written.
    pub fn decide(&mut self, id: &Id, decision: &Decision, now: Instant) -> bool {
        self.now = now;
        let is_offered = self.agent_requests.permission(id).is_some_and(|options| match decision {
            Decision::Select(option) => options.contains(option),
            Decision::Cancelled => true,
        });
        is_offered && self.answer_permission(id, decision)
    }

    /// Answers a request that is served. False if it does not wait, then nothing is written.
    pub fn respond(&mut self, id: &Id, outcome: Result<Value, RpcError>, now: Instant) -> bool {
        self.now = now;
        let is_waiting = self.agent_requests.is_host(id)
            || (self.is_relayed() && self.agent_requests.contains(id));
        if is_waiting {
            self.agent_requests.take(id);
            self.last_activity = now;
            self.reply(id.clone(), outcome);
        }
        is_waiting
    }

    /// Forgets a session that has no turn, and has been closed or is of no use.
    pub fn forget(&mut self, session: &str) -> bool {
        let is_idle = self.sessions.get(session).is_some_and(Session::can_begin);
        is_idle && self.sessions.remove(session).is_some()
    }

    /// Where the connection stands.
    pub fn state(&self) -> &ConnectionState {
        &self.state
    }

    /// A session by its id.
    pub fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// How many requests of the agent wait for us.
    pub fn unanswered(&self) -> usize {
        self.agent_requests.len()
    }

    /// What came, counted.
    pub fn traffic(&self) -> Traffic {
        self.reader.traffic()
    }

    /// What did not fit, counted.
    pub fn protocol_errors(&self) -> ProtocolErrors {
        self.protocol_errors
    }

    /// The end of all that was no message.
    pub fn non_json(&self) -> &str {
        self.reader.non_json()
    }

    fn open(&self, session: &str) -> Session {
        let Config { limits, streaming, answer_from, .. } = &self.config;
        Session::open(session, limits, *streaming, *answer_from)
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
        let id = self.pending.enter(sent, deadline);
        let message = Message::Request { id: id.into(), method: method.to_owned(), params };
        match self.out.push(message, Map::new()) {
            Ok(()) => Ok(id),
            Err(error) => {
                self.pending.complete(&id.into());
                Err(error.into())
            }
        }
    }

    /// Writes the one answer to a permission, if it waits.
    fn answer_permission(&mut self, id: &Id, decision: &Decision) -> bool {
        let is_waiting = self.agent_requests.take(id).is_some();
        if is_waiting {
            self.last_activity = self.now;
            self.reply(id.clone(), Ok(decision.to_result()));
        }
        is_waiting
    }

    /// Writes an answer. One that is longer than a line becomes an error.
    fn reply(&mut self, id: Id, outcome: Result<Value, RpcError>) {
        // Whoever asked is told; there is nobody else who would want to know.
        let _ = self.out.reply(id, outcome, Map::new());
    }
}

/// Sets a member of parameters, which become an object if they are none.
fn set(params: &mut Value, name: &str, value: Value) {
    match params {
        Value::Object(members) => _ = members.insert(name.to_owned(), value),
        other => *other = json!({name: value}),
    }
}

#[cfg(test)]
mod tests;
