//! Dispatches the agent messages.

use serde_json::Value;

use super::agent_requests::AgentRequest;
use super::{Client, ConnectionState, EarlyUpdates, SentRequest};
use crate::capabilities::AgentInfo;
use crate::envelope::Envelope;
use crate::event::{Event, RequestEvent, Withdrawal};
use crate::failure::Failure;
use crate::json::weight;
use crate::message::{Id, Message, RpcError, code};
use crate::message_reader::Inbound;
use crate::peer::{Skipped, too_long};
use crate::permission::{PermissionOutcome, PermissionRequest};
use crate::protocol_errors::count;
use crate::session::Session;
use crate::turn::TurnPhase;
use crate::turn_end::CancelCause;
use crate::update::{Update, session_of};

impl Client {
    /// Handles the next item of the stream.
    pub(super) fn handle_inbound(&mut self, inbound: Inbound) {
        self.last_activity = self.now;
        match inbound {
            Inbound::Message(Message::Response { id, outcome }) => self.response(&id, outcome),
            Inbound::Message(Message::Request { id, method, params }) => {
                self.agent_request(id, method, params);
            }
            Inbound::Message(Message::Notification { method, params }) => {
                self.notification(method, params);
            }
            // The reader reports these as [`Inbound::NonJsonOutput`].
            Inbound::Message(Message::Invalid(_)) => {}
            Inbound::NonJsonOutput(non_json) => {
                self.events.push_back(Event::NonJsonOutput(non_json));
            }
            Inbound::TooLong { len, envelope } => self.too_long(len, envelope),
            Inbound::Eof => self.close(),
        }
    }

    /// Fails pending requests, ends turns, and closes the connection.
    fn close(&mut self) {
        while let Some((request, sent)) = self.agent.sent.pop() {
            self.complete(request, sent, Err(Failure::Ended));
        }
        for session in self.sessions.values_mut() {
            if let Some(end) = session.end_turn(Failure::Ended) {
                self.events.push_back(Event::TurnEnded(Box::new(end)));
            }
        }
        while let Some((id, _)) = self.agent.received.take_first(|_| true) {
            self.events
                .push_back(Event::Request(RequestEvent::Withdrawn { id, why: Withdrawal::Ended }));
        }
        self.early = EarlyUpdates::default();
        self.state = ConnectionState::Closed;
        self.events.push_back(Event::Closed);
    }

    fn response(&mut self, id: &Id, outcome: Result<Value, RpcError>) {
        let Some((request, sent)) = self.agent.complete(id) else { return };
        let agent = match &self.state {
            ConnectionState::Ready(agent) => Some(agent),
            _ => None,
        };
        let outcome = outcome.map_err(|error| Failure::of(error, agent));
        self.complete(request, sent, outcome);
    }

    /// Completes the client request.
    pub(super) fn complete(
        &mut self,
        request: u64,
        sent: SentRequest,
        outcome: Result<Value, Failure>,
    ) {
        let (method, failure) = match (sent, outcome) {
            (SentRequest::Prompt { session }, outcome) => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.prompt_answered(outcome, self.now);
                }
                return;
            }
            (SentRequest::Initialize, Ok(result)) => match AgentInfo::parse(result) {
                Ok(agent) => {
                    self.state = ConnectionState::Ready(agent.clone());
                    self.events.push_back(Event::Ready(agent));
                    return;
                }
                Err(other) => ("initialize".to_owned(), Failure::UnsupportedVersion(other)),
            },
            (SentRequest::New, Ok(result)) => match session_of(&result) {
                // Replacing the session would drop its running turn.
                Some(session) if self.is_in_use(&session) => {
                    ("session/new".to_owned(), Failure::SessionInUse(session))
                }
                Some(session) => {
                    if !self.is_in_use(&session) {
                        let opened = self.open(&session);
                        self.sessions.insert(session.clone(), opened);
                    }
                    self.events.push_back(Event::Opened {
                        request,
                        session: session.clone(),
                        result,
                    });
                    self.apply_early(&session);
                    return;
                }
                None => ("session/new".to_owned(), Failure::Incomplete("sessionId")),
            },
            (SentRequest::Load { session }, Ok(result)) => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.finish_loading();
                }
                self.events.push_back(Event::Opened { request, session, result });
                return;
            }
            (SentRequest::Other { method }, Ok(result)) => {
                self.events.push_back(Event::Answered { request, method, result });
                return;
            }
            (SentRequest::Initialize, Err(failure)) => ("initialize".to_owned(), failure),
            (SentRequest::New, Err(failure)) => ("session/new".to_owned(), failure),
            (SentRequest::Load { session }, Err(failure)) => {
                if self.sessions.get(&session).is_some_and(|found| found.turn().is_none()) {
                    self.sessions.remove(&session);
                }
                ("session/load".to_owned(), failure)
            }
            (SentRequest::Other { method }, Err(failure)) => (method, failure),
        };
        match method.as_str() {
            "initialize" => self.state = ConnectionState::Closing,
            "session/new" => self.drop_early(),
            _ => {}
        }
        self.events.push_back(Event::Failed { request, method, failure });
    }

    fn is_in_use(&self, session: &str) -> bool {
        self.sessions.get(session).is_some_and(|open| !open.can_begin())
    }

    fn notification(&mut self, method: String, params: Value) {
        match method.as_str() {
            "session/update" => match Update::parse(params) {
                Ok(update) => self.update(update),
                Err(_) => count(&mut self.agent.protocol_errors.invalid_updates),
            },
            "$/cancel_request" => self.agent_cancels_request(&params),
            _ => self.events.push_back(Event::Notification { method, params }),
        }
    }

    fn update(&mut self, update: Update) {
        if let Some(session) = self.sessions.get_mut(update.session()) {
            let applied = session.apply(&update, self.now);
            if applied.is_first_drop {
                let session = update.session().to_owned();
                self.events.push_back(Event::Dropped { session });
            }
            let (scope, change) = (applied.scope, applied.change);
            self.events.push_back(Event::Update { update, scope, change });
        } else {
            self.keep_early(update);
        }
    }

    /// Keeps an update if its session may be the one being opened.
    fn keep_early(&mut self, update: Update) {
        let limits = &self.config.limits;
        let is_opening = self.agent.sent.iter().any(|(_, sent)| *sent == SentRequest::New);
        let held = self.early.held.saturating_add(weight(update.params()));
        if is_opening
            && self.early.updates.len() < limits.early_updates
            && held <= limits.early_bytes
        {
            self.early.held = held;
            self.early.updates.push_back(update);
        } else {
            count(&mut self.agent.protocol_errors.unknown_session_updates);
        }
    }

    /// Applies updates that preceded the answer to `session/new`.
    fn apply_early(&mut self, session: &str) {
        let early = std::mem::take(&mut self.early);
        let (own, others): (Vec<_>, Vec<_>) =
            early.updates.into_iter().partition(|update| update.session() == session);
        own.into_iter().chain(others).for_each(|update| self.update(update));
    }

    /// Counts updates of sessions that were not opened.
    fn drop_early(&mut self) {
        let early = std::mem::take(&mut self.early);
        early.updates.into_iter().for_each(|update| self.keep_early(update));
    }

    fn agent_request(&mut self, id: Id, method: String, params: Value) {
        let is_permission = method == "session/request_permission";
        if self.agent.is_duplicate(&id) {
            return;
        }
        if !is_permission && !self.is_served(&method) {
            let error = self.agent.unknown_method(&method);
            self.reply(id, Err(error));
        } else if let Err(busy) = self.agent.check_room() {
            self.reply(id, Err(busy));
        } else if is_permission {
            self.permission(id, params);
        } else {
            self.agent.received.push(id.clone(), AgentRequest::Host);
            self.events.push_back(Event::Request(RequestEvent::Host { id, method, params }));
        }
    }

    fn permission(&mut self, id: Id, params: Value) {
        let Some(session) = session_of(&params).and_then(|id| self.sessions.get_mut(&id)) else {
            let error = RpcError::new(code::INVALID_PARAMS, "no such session");
            return self.reply(id, Err(error));
        };
        let change = session.apply_permission(&params);
        if session.turn() == Some(TurnPhase::Cancelling) {
            return self.reply(id, Ok(PermissionOutcome::Cancelled.to_result()));
        }
        let call = change.and_then(|change| session.tools().get(&change.id).cloned());
        let name = session.id().to_owned();
        let request = PermissionRequest::parse(name.clone(), call, params);
        let deadline = self.now.checked_add(self.config.limits.permission);
        let pending =
            AgentRequest::Permission { session: name, options: request.option_ids(), deadline };
        self.agent.received.push(id.clone(), pending);
        self.events
            .push_back(Event::Request(RequestEvent::Permission { id, request: Box::new(request) }));
    }

    /// Handles `$/cancel_request`. The request is still answered.
    fn agent_cancels_request(&mut self, params: &Value) {
        let Some(id) = self.agent.cancelled_request(params) else { return };
        if self.agent.received.permission(&id).is_some() {
            self.answer_permission(&id, &PermissionOutcome::Cancelled);
        }
        self.events
            .push_back(Event::Request(RequestEvent::Withdrawn { id, why: Withdrawal::ByAgent }));
    }

    /// Answers all pending permission requests of a session with `cancelled`.
    pub(super) fn cancel_permissions(&mut self, session: &str, cause: CancelCause) {
        let why = match cause {
            CancelCause::PermissionTimeout => Withdrawal::TimedOut,
            CancelCause::Requested | CancelCause::Idle | CancelCause::TooLong => {
                Withdrawal::TurnCancelled
            }
        };
        while let Some(id) = self.agent.received.take_permission_of(session) {
            self.last_activity = self.now;
            self.reply(id.clone(), Ok(PermissionOutcome::Cancelled.to_result()));
            self.events.push_back(Event::Request(RequestEvent::Withdrawn { id, why }));
        }
    }

    /// Answers or completes the request of a message that was skipped.
    fn too_long(&mut self, len: u64, envelope: Envelope) {
        match self.agent.skip(envelope) {
            Skipped::Response(request, sent) => {
                self.complete(request, sent, Err(Failure::TooLong(len)));
            }
            Skipped::Request(id) => self.reply(id, Err(too_long(code::INVALID_REQUEST, len))),
            Skipped::Other => {}
        }
        self.events.push_back(Event::TooLong { len });
    }

    /// Ends a session's turn.
    pub(super) fn end_turn(&mut self, session: &str) {
        let end = self
            .sessions
            .get_mut(session)
            .and_then(|found: &mut Session| found.end_turn(Failure::Ended));
        if let Some(end) = end {
            self.events.push_back(Event::TurnEnded(Box::new(end)));
        }
    }
}
