//! Replays sent messages as commands of the client.

use aifo_acp::{
    CancelCause, CancelOutcome, ClientCapabilities, Decision, Id, Message, Requests, RpcError,
    SendError,
};
use serde_json::Value;

use super::{Replay, ReplayEvent, ReplayEventKind, ReplayMismatch, normalized};

impl<F: FnMut(ReplayEvent)> Replay<F> {
    /// Replays a sent message.
    pub(super) fn sent(&mut self, message: Message) {
        let fits = match message.clone() {
            Message::Request { id, method, params } => self.replay_request(id, &method, params),
            Message::Notification { method, params } => self.replay_notification(&method, &params),
            Message::Response { id, outcome } => self.replay_response(&id, outcome),
            Message::Invalid(_) => Err(ReplayMismatch::NotAMessage),
        };
        match fits {
            Ok(()) => self.emit(ReplayEventKind::Sent(message)),
            Err(mismatch) => self.mismatch(mismatch),
        }
        self.settle();
    }

    fn replay_request(
        &mut self,
        id: Id,
        method: &str,
        params: Value,
    ) -> Result<(), ReplayMismatch> {
        if method == "initialize" && self.client.is_none() {
            self.config.capabilities = capabilities(&params);
        }
        let now = self.clock.instant();
        // The sender considered the turn over: a relay sends a queued prompt at once.
        if method == "session/prompt"
            && let Some(session) = params.get("sessionId").and_then(Value::as_str)
            && self.client().finish_turn(session, now)
        {
            self.settle();
        }
        let client = self.client();
        let text = |of: &Value, name: &str| {
            of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let sent = match method {
            "initialize" => {
                let info = params.get("clientInfo").unwrap_or(&Value::Null);
                client.initialize(&text(info, "name"), &text(info, "version"), now)
            }
            "session/new" => client.new_session(params, now),
            "session/load" => client.load_session(&text(&params, "sessionId"), params, now),
            "session/prompt" => {
                let prompt = params.get("prompt").cloned().unwrap_or_default();
                client.prompt(&text(&params, "sessionId"), prompt, now)
            }
            _ => client.request(method, params, now),
        };
        let refused = |why: SendError| ReplayMismatch::NotSent { method: method.to_owned(), why };
        sent.map_err(refused)?;
        self.collect();
        // `prompt` returns the turn's number, so the id is taken from the written message.
        let is_it = |message: &Message| matches!(message, Message::Request { .. });
        if let Some(Message::Request { id: new, .. }) = self.take_written(is_it)
            && let Some(new) = new.as_u64()
        {
            self.ids.insert(normalized(id), new);
        }
        Ok(())
    }

    fn replay_notification(&mut self, method: &str, params: &Value) -> Result<(), ReplayMismatch> {
        let is_relayed = self.config.requests == Requests::Relayed;
        if method != "session/cancel" {
            // An editor may send any notification.
            if is_relayed {
                return Ok(());
            }
            return Err(ReplayMismatch::UnexpectedNotification { method: method.to_owned() });
        }
        let session = params.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let is_it = |message: &Message| match message {
            Message::Notification { params, .. } => {
                params.get("sessionId").and_then(Value::as_str) == Some(session)
            }
            _ => false,
        };
        // A timeout of the client may have cancelled the turn already.
        if self.take_written(is_it).is_some() {
            return Ok(());
        }
        let now = self.clock.instant();
        let cancelling = self.client().cancel(session, CancelCause::Requested, now);
        if cancelling == CancelOutcome::NotNeeded {
            // A relay may log the cancellation after an answer that crossed it.
            if is_relayed {
                return Ok(());
            }
            return Err(ReplayMismatch::NothingToCancel);
        }
        self.collect();
        self.take_written(is_it);
        Ok(())
    }

    fn replay_response(
        &mut self,
        id: &Id,
        outcome: Result<Value, RpcError>,
    ) -> Result<(), ReplayMismatch> {
        let is_it = |message: &Message| match message {
            Message::Response { id: other, .. } => other == id,
            _ => false,
        };
        // The client answers many requests by itself.
        if let Some(Message::Response { outcome: now, .. }) = self.take_written(is_it) {
            let is_same = kind(&now) == kind(&outcome);
            return if is_same {
                Ok(())
            } else {
                Err(ReplayMismatch::DifferentAnswer { id: id.clone() })
            };
        }
        let now = self.clock.instant();
        let decision = outcome.as_ref().ok().and_then(decision);
        let client = self.client();
        let is_decided = decision.is_some_and(|decision| client.decide(id, &decision, now));
        if !is_decided && !client.respond(id, outcome, now) {
            return Err(ReplayMismatch::NotPending { id: id.clone() });
        }
        self.collect();
        self.take_written(is_it);
        Ok(())
    }

    /// Removes the oldest matching message that the client wrote.
    fn take_written(&mut self, is_it: impl Fn(&Message) -> bool) -> Option<Message> {
        let at = self.written.iter().position(is_it)?;
        self.written.remove(at)
    }
}

/// Returns the capabilities declared in `initialize`.
fn capabilities(params: &Value) -> ClientCapabilities {
    let flag = |pointer: &str| params.pointer(pointer).and_then(Value::as_bool).unwrap_or_default();
    ClientCapabilities {
        read_text_file: flag("/clientCapabilities/fs/readTextFile"),
        write_text_file: flag("/clientCapabilities/fs/writeTextFile"),
        terminal: flag("/clientCapabilities/terminal"),
    }
}

/// Returns the decision in an answer to a permission request.
fn decision(result: &Value) -> Option<Decision> {
    let outcome = result.get("outcome")?;
    match outcome.get("outcome")?.as_str()? {
        "selected" => Some(Decision::Select(outcome.get("optionId")?.clone())),
        "cancelled" => Some(Decision::Cancelled),
        _ => None,
    }
}

/// The part of two answers that must be equal. Their texts may be redacted.
fn kind(outcome: &Result<Value, RpcError>) -> (Option<i64>, Option<String>) {
    match outcome {
        Ok(result) => {
            (None, result.pointer("/outcome/outcome").and_then(Value::as_str).map(str::to_owned))
        }
        Err(error) => (Some(error.code), None),
    }
}
