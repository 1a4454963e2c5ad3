//! From one end to the other: every request has one answer, and every answer its request.

use serde_json::{Map, Value, json};

use super::end::{Asked, Sent, Stream, What};
use super::event::RelayEvent;
use super::fields::Fields;
use super::{CANCEL_REQUEST, INITIALIZE, Relay, Side};
use crate::capabilities::{OtherVersion, later_version};
use crate::envelope::Envelope;
use crate::json::LineTooLong;
use crate::message::{Id, Message, RpcError, code};
use crate::message_reader::Inbound;
use crate::pending::Completion;
use crate::strays::count;

impl Relay {
    /// The next message of either end, in turns, so that neither keeps the other from being heard.
    pub(super) fn next_inbound(&mut self) -> Option<(Side, Inbound)> {
        for from in [self.next, self.next.other()] {
            if self.wants(from)
                && let Some(inbound) = self.end_mut(from).reader.next_message()
            {
                self.next = from.other();
                return Some((from, inbound));
            }
        }
        None
    }

    pub(super) fn take(&mut self, from: Side, inbound: Inbound) {
        let beside = self.end_mut(from).reader.take_beside();
        match inbound {
            Inbound::Message(Message::Response { id, outcome }) => {
                self.response(from, &id, outcome, beside);
            }
            Inbound::Message(Message::Request { id, method, params }) => {
                self.request(from, id, method, params, beside);
            }
            Inbound::Message(Message::Notification { method, params }) => match from {
                Side::Editor => self.editor_tells(method, params, beside),
                Side::Agent => self.agent_tells(method, params, beside),
            },
            // The reader tells these as noise.
            Inbound::Message(Message::Invalid(_)) => {}
            Inbound::Noise(noise) => self.events.push_back(RelayEvent::Noise { side: from, noise }),
            Inbound::TooLong { len, envelope } => self.too_long(from, len, envelope),
            Inbound::Eof => self.ended(from),
        }
    }

    fn request(
        &mut self,
        from: Side,
        id: Id,
        method: String,
        params: Value,
        beside: Map<String, Value>,
    ) {
        let most = self.config.limits.requests;
        let end = self.end_mut(from);
        if end.asked.contains(&id) {
            count(&mut end.strays.duplicate_requests);
        } else if matches!(&id, Id::Text(text) if text.len() > LONGEST_ID) {
            self.refuse(from, id, RpcError::new(code::INVALID_REQUEST, "the id is too long"));
        } else if end.asked.len() >= most {
            count(&mut end.strays.busy_requests);
            self.refuse(from, id, busy());
        } else {
            match from {
                Side::Editor => self.editor_asks(id, method, params, beside),
                Side::Agent => self.agent_asks(id, method, params, beside),
            }
        }
    }

    /// An answer has come: the other end gets it, if it waits for it.
    fn response(
        &mut self,
        from: Side,
        id: &Id,
        outcome: Result<Value, RpcError>,
        beside: Map<String, Value>,
    ) {
        let end = self.end_mut(from);
        match end.sent.complete(id) {
            Completion::Known(_, sent) => self.pass_answer(from, sent, outcome, beside),
            Completion::Duplicate => count(&mut end.strays.duplicate_responses),
            Completion::Unknown => count(&mut end.strays.unknown_responses),
        }
    }

    fn pass_answer(
        &mut self,
        from: Side,
        sent: Sent,
        mut outcome: Result<Value, RpcError>,
        beside: Map<String, Value>,
    ) {
        let fields = Fields::new(&self.config.map, from.way());
        match (&mut outcome, &sent.what) {
            (Ok(result), What::Other { method }) => fields.result(method, result),
            (Ok(_), What::Prompt { .. }) => {}
            (Err(error), _) => fields.error(error),
        }
        if from == Side::Agent
            && matches!(&sent.what, What::Other { method } if method == INITIALIZE)
            && let Ok(result) = &mut outcome
        {
            if let Some(login) = &self.config.terminal_login {
                login.rewrite(result);
            }
            // A session of another version would pass through the states of version 1: the editor must
            // not open one.
            if let Some(other) = later_version(result) {
                outcome = Err(not_spoken(&other));
                self.other_version = Some(other);
            }
        }
        match sent.what {
            What::Other { .. } => _ = self.answer(from.other(), &sent.id, outcome, beside),
            What::Prompt { session } => self.prompt_answered(&session, &sent.id, outcome, beside),
        }
    }

    /// Passes a request on, and enters that it waits. One that is longer than a line is refused.
    pub(super) fn forward(
        &mut self,
        to: Side,
        id: Id,
        (method, params): (String, Value),
        what: What,
        beside: Map<String, Value>,
    ) -> bool {
        let number = match self.send(to, &id, (method, params), what, beside) {
            Ok(number) => number,
            Err(too_long) => {
                self.refuse(
                    to.other(),
                    id,
                    RpcError::new(code::INVALID_REQUEST, too_long.to_string()),
                );
                return false;
            }
        };
        self.end_mut(to.other()).asked.push(id, Asked::Forwarded(number));
        true
    }

    /// Sends a request of the other end by an id that is new.
    pub(super) fn send(
        &mut self,
        to: Side,
        id: &Id,
        (method, params): (String, Value),
        what: What,
        beside: Map<String, Value>,
    ) -> Result<u64, LineTooLong> {
        let end = self.end_mut(to);
        let number = end.sent.enter(Sent { id: id.clone(), what }, None);
        let request = Message::Request { id: number.into(), method, params };
        let sent = end.out.push(request, beside);
        if let Err(too_long) = sent {
            end.sent.complete(&number.into());
            self.dropped(to.other(), too_long);
        }
        sent.map(|()| number)
    }

    /// Tells something to one end, if it is there. What is longer than a line is not told.
    pub(super) fn tell(
        &mut self,
        to: Side,
        method: String,
        params: Value,
        beside: Map<String, Value>,
    ) {
        if to == Side::Agent && self.agent.stream == Stream::Ended {
            return;
        }
        let told = self.end_mut(to).out.push(Message::Notification { method, params }, beside);
        if let Err(too_long) = told {
            self.dropped(to.other(), too_long);
        }
    }

    /// Withdraws a request that was passed on; whatever is still answered to it is dropped.
    pub(super) fn withdraw_sent(&mut self, to: Side, number: u64) {
        self.end_mut(to).sent.complete(&number.into());
        let params = json!({"requestId": number});
        self.tell(to, CANCEL_REQUEST.to_owned(), params, Map::new());
    }

    /// Writes the one answer to a request, if it waits.
    pub(super) fn answer(
        &mut self,
        to: Side,
        id: &Id,
        outcome: Result<Value, RpcError>,
        beside: Map<String, Value>,
    ) -> bool {
        let is_waiting = self.end_mut(to).asked.take(id).is_some();
        if is_waiting {
            self.reply(to, id.clone(), outcome, beside);
        }
        is_waiting
    }

    /// Answers a request that never came to wait.
    pub(super) fn refuse(&mut self, to: Side, id: Id, error: RpcError) {
        self.reply(to, id, Err(error), Map::new());
    }

    pub(super) fn reply(
        &mut self,
        to: Side,
        id: Id,
        outcome: Result<Value, RpcError>,
        beside: Map<String, Value>,
    ) {
        if let Err(too_long) = self.end_mut(to).out.reply(id, outcome, beside) {
            self.dropped(to.other(), too_long);
        }
    }

    /// Nobody reads the message, but whoever waits for it is told.
    fn too_long(&mut self, from: Side, len: u64, envelope: Envelope) {
        let error = |code| RpcError::new(code, format!("a message of {len} bytes is too long"));
        match envelope {
            Envelope { id: Some(id), method: None } => {
                self.response(from, &id, Err(error(code::INTERNAL)), Map::new());
            }
            Envelope { id: Some(id), method: Some(_) } if !self.end(from).asked.contains(&id) => {
                self.refuse(from, id, error(code::INVALID_REQUEST));
            }
            _ => {}
        }
        self.events.push_back(RelayEvent::TooLong { side: from, len });
    }

    fn dropped(&mut self, from: Side, too_long: LineTooLong) {
        self.events.push_back(RelayEvent::TooLong { side: from, len: too_long.len as u64 });
    }
}

/// The error of an agent that answers another version than it was offered.
pub(super) fn not_spoken(other: &OtherVersion) -> RpcError {
    let hint = "hint: use a release of the agent that speaks version 1";
    RpcError::new(code::INTERNAL, format!("{other}\n{hint}"))
}

pub(super) fn busy() -> RpcError {
    RpcError::new(code::INTERNAL, "busy")
}

/// An id is held as long as its request waits; none that is sent in earnest is longer, in bytes.
const LONGEST_ID: usize = 1024;
