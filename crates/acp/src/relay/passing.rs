//! Forwards messages. Every request gets one answer, and every answer belongs to a request.

use serde_json::{Map, Value, json};

use super::event::RelayEvent;
use super::fields::Fields;
use super::questions::selected_option;
use super::requests::{ForwardedRequest, IncomingRequest, RequestKind};
use super::{CANCEL_REQUEST, INITIALIZE, PERMISSION, Relay, Side};
use crate::capabilities::{UnsupportedVersion, later_version};
use crate::envelope::Envelope;
use crate::event::{RequestEvent, Withdrawal};
use crate::json::LineTooLong;
use crate::message::{Id, Message, RpcError, code};
use crate::message_reader::Inbound;
use crate::peer::{Skipped, too_long};
use crate::update::session_of;

impl Relay {
    /// Returns the next message, alternating between the ends.
    pub(super) fn next_inbound(&mut self) -> Option<(Side, Inbound)> {
        for from in [self.next, self.next.other()] {
            if self.should_read(from)
                && let Some(inbound) = self.connection_mut(from).next_inbound()
            {
                self.next = from.other();
                return Some((from, inbound));
            }
        }
        None
    }

    pub(super) fn handle_inbound(&mut self, from: Side, inbound: Inbound) {
        let extra = self.connection_mut(from).reader.take_extra();
        match inbound {
            Inbound::Message(Message::Response { id, outcome }) => {
                self.response(from, &id, outcome, extra);
            }
            Inbound::Message(Message::Request { id, method, params }) => {
                self.request(from, id, method, params, extra);
            }
            Inbound::Message(Message::Notification { method, params }) => match from {
                Side::Editor => self.editor_notification(method, params, extra),
                Side::Agent => self.agent_notification(method, params, extra),
            },
            // The reader reports these as [`Inbound::NonJsonOutput`].
            Inbound::Message(Message::Invalid(_)) => {}
            Inbound::NonJsonOutput(non_json) => {
                self.events.push_back(RelayEvent::NonJsonOutput { side: from, non_json });
            }
            Inbound::TooLong { len, envelope } => self.too_long(from, len, envelope),
            Inbound::Eof => self.stream_ended(from),
        }
    }

    fn request(
        &mut self,
        from: Side,
        id: Id,
        method: String,
        params: Value,
        extra: Map<String, Value>,
    ) {
        let connection = self.connection_mut(from);
        if connection.is_duplicate(&id) {
            return;
        }
        if matches!(&id, Id::Text(text) if text.len() > LONGEST_ID) {
            self.reject(from, id, RpcError::new(code::INVALID_REQUEST, "the id is too long"));
        } else if let Err(busy) = connection.check_room() {
            self.reject(from, id, busy);
        } else {
            match from {
                Side::Editor => self.editor_request(id, method, params, extra),
                Side::Agent => self.agent_request(id, method, params, extra),
            }
        }
    }

    /// Forwards a response if its request is pending.
    fn response(
        &mut self,
        from: Side,
        id: &Id,
        outcome: Result<Value, RpcError>,
        extra: Map<String, Value>,
    ) {
        if let Some((_, sent)) = self.connection_mut(from).complete(id) {
            self.forward_response(from, sent, outcome, extra);
        }
    }

    fn forward_response(
        &mut self,
        from: Side,
        sent: ForwardedRequest,
        mut outcome: Result<Value, RpcError>,
        extra: Map<String, Value>,
    ) {
        let fields = Fields::new(&self.config.map, from.direction());
        match (&mut outcome, &sent.kind) {
            (Ok(result), RequestKind::Other { method }) => fields.result(method, result),
            (Ok(_), RequestKind::Prompt { .. } | RequestKind::Question { .. }) => {}
            (Err(error), _) => fields.error(error),
        }
        if from == Side::Agent
            && matches!(&sent.kind, RequestKind::Other { method } if method == INITIALIZE)
            && let Ok(result) = &mut outcome
        {
            if let Some(login) = &self.config.terminal_login {
                login.rewrite(result);
            }
            // The relay implements version 1 only, so the editor must not open a session.
            if let Some(other) = later_version(result) {
                outcome = Err(unsupported_version_error(&other));
                self.unsupported_version = Some(other);
            }
        }
        match sent.kind {
            RequestKind::Other { method } => {
                if from == Side::Editor && method == PERMISSION {
                    let option = outcome.as_ref().ok().and_then(selected_option);
                    let id = sent.id.clone();
                    self.events.push_back(RelayEvent::PermissionAnswered { id, option });
                }
                let opened = outcome.as_ref().ok().filter(|_| method == "session/new");
                let opened = opened.and_then(session_of);
                self.answer(from.other(), &sent.id, outcome, extra);
                opened.iter().for_each(|session| self.list_commands(session));
            }
            RequestKind::Question { question } => self.question_answered(question, &outcome),
            RequestKind::Prompt { session } => {
                self.prompt_answered(&session, &sent.id, outcome, extra);
            }
        }
    }

    /// Forwards a request and records it as pending. Rejects one that is too long.
    pub(super) fn forward(
        &mut self,
        to: Side,
        id: Id,
        call: (String, Value),
        kind: RequestKind,
        extra: Map<String, Value>,
    ) -> bool {
        let number = match self.send(to, &id, call, kind, extra) {
            Ok(number) => number,
            Err(too_long) => {
                self.reject(
                    to.other(),
                    id,
                    RpcError::new(code::INVALID_REQUEST, too_long.to_string()),
                );
                return false;
            }
        };
        self.connection_mut(to.other()).received.push(id, IncomingRequest::Forwarded(number));
        true
    }

    /// Sends a forwarded request with a new id.
    pub(super) fn send(
        &mut self,
        to: Side,
        id: &Id,
        call: (String, Value),
        kind: RequestKind,
        extra: Map<String, Value>,
    ) -> Result<u64, LineTooLong> {
        let request = ForwardedRequest { id: id.clone(), kind };
        let sent = self.connection_mut(to).send(request, None, call, extra);
        sent.inspect_err(|too_long| self.report_too_long(to.other(), *too_long))
    }

    /// Forwards a notification if the end is connected. Drops one that is too long.
    pub(super) fn notify(
        &mut self,
        to: Side,
        method: String,
        params: Value,
        extra: Map<String, Value>,
    ) {
        if to == Side::Agent && !self.agent.is_open() {
            return;
        }
        let sent = self.connection_mut(to).out.notify(method, params, extra);
        if let Err(too_long) = sent {
            self.report_too_long(to.other(), too_long);
        }
    }

    /// Handles `$/cancel_request`. The request is still answered.
    pub(super) fn cancel_received_request(
        &mut self,
        from: Side,
        mut params: Value,
        extra: Map<String, Value>,
    ) {
        let connection = self.connection_mut(from);
        let Some(id) = connection.cancelled_request(&params) else { return };
        match connection.received.get(&id) {
            Some(IncomingRequest::Forwarded(number)) => {
                if let Some(id) = params.get_mut("requestId") {
                    *id = (*number).into();
                }
                self.notify(from.other(), CANCEL_REQUEST.to_owned(), params, extra);
            }
            Some(IncomingRequest::Queued { session }) => {
                let session = session.clone();
                if let Some(state) = self.sessions.get_mut(&session) {
                    state.unqueue(&id);
                }
                self.prompt_cancelled(&id);
            }
            Some(IncomingRequest::Permission { .. }) => {
                self.cancel_permission(&id, Withdrawal::ByAgent);
            }
            Some(IncomingRequest::Host) => {
                self.events.push_back(RelayEvent::Request(RequestEvent::Withdrawn {
                    id,
                    why: Withdrawal::ByAgent,
                }));
            }
            Some(IncomingRequest::Command) | None => {}
        }
    }

    /// Cancels a forwarded request; a late response is dropped.
    pub(super) fn cancel_sent_request(&mut self, to: Side, number: u64) {
        self.connection_mut(to).sent.complete(&number.into());
        let params = json!({"requestId": number});
        self.notify(to, CANCEL_REQUEST.to_owned(), params, Map::new());
    }

    /// Answers a pending request, once.
    pub(super) fn answer(
        &mut self,
        to: Side,
        id: &Id,
        outcome: Result<Value, RpcError>,
        extra: Map<String, Value>,
    ) -> bool {
        let is_waiting = self.connection_mut(to).received.take(id).is_some();
        if is_waiting {
            self.reply(to, id.clone(), outcome, extra);
        }
        is_waiting
    }

    /// Answers a request that was not recorded as pending.
    pub(super) fn reject(&mut self, to: Side, id: Id, error: RpcError) {
        self.reply(to, id, Err(error), Map::new());
    }

    pub(super) fn reply(
        &mut self,
        to: Side,
        id: Id,
        outcome: Result<Value, RpcError>,
        extra: Map<String, Value>,
    ) {
        if let Err(too_long) = self.connection_mut(to).out.reply(id, outcome, extra) {
            self.report_too_long(to.other(), too_long);
        }
    }

    /// Answers the request of a message that was skipped.
    fn too_long(&mut self, from: Side, len: u64, envelope: Envelope) {
        match self.connection_mut(from).skip(envelope) {
            Skipped::Response(_, sent) => {
                self.forward_response(from, sent, Err(too_long(code::INTERNAL, len)), Map::new());
            }
            Skipped::Request(id) => self.reject(from, id, too_long(code::INVALID_REQUEST, len)),
            Skipped::Other => {}
        }
        self.events.push_back(RelayEvent::TooLong { side: from, len });
    }

    fn report_too_long(&mut self, from: Side, too_long: LineTooLong) {
        self.events.push_back(RelayEvent::TooLong { side: from, len: too_long.len as u64 });
    }
}

/// Returns the error for an agent that answers with another version.
pub(super) fn unsupported_version_error(other: &UnsupportedVersion) -> RpcError {
    let hint = "hint: use a release of the agent that speaks version 1";
    RpcError::new(code::INTERNAL, format!("{other}\n{hint}"))
}

/// The longest id, in bytes. It is held while its request is pending.
const LONGEST_ID: usize = 1024;
