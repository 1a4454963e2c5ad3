//! Sends and queues prompts: one turn at a time per session.

use serde_json::{Map, Value, json};

use super::event::RelayEvent;
use super::requests::{IncomingRequest, RequestKind};
use super::session_state::{Prompt, SessionState};
use super::{Relay, Side};
use crate::json::weight;
use crate::message::{Id, RpcError};
use crate::turn_end::StopReason;

const PROMPT: &str = "session/prompt";

impl Relay {
    /// Sends a prompt, or queues it behind the running turn.
    pub(super) fn prompt(
        &mut self,
        session: String,
        id: Id,
        params: Value,
        extra: Map<String, Value>,
    ) {
        self.prompts = self.prompts.saturating_add(1);
        let touched = self.prompts;
        let queued: usize =
            self.sessions.values().flat_map(SessionState::queued).map(|p| p.weight).sum();
        let (most, most_bytes) = (self.config.queued_prompts, self.config.queued_bytes);
        let Some(state) = self.session_state(&session) else {
            let busy = self.editor.busy();
            return self.reject(Side::Editor, id, busy);
        };
        state.touched = touched;
        let prompt = Prompt { weight: weight(&params), id, params, extra };
        if state.is_idle() {
            self.send_prompt(&session, prompt);
        } else if state.queued().len() < most && queued.saturating_add(prompt.weight) <= most_bytes
        {
            let id = prompt.id.clone();
            state.queue(prompt);
            self.editor.received.push(id, IncomingRequest::Queued { session });
        } else {
            let busy = self.editor.busy();
            self.reject(Side::Editor, prompt.id, busy);
        }
    }

    /// Returns a session state, which is tracked from now on. `None` if there is no room.
    fn session_state(&mut self, session: &str) -> Option<&mut SessionState> {
        if !self.sessions.contains_key(session) {
            if self.sessions.len() >= self.config.sessions {
                let idle = self.sessions.iter().filter(|(_, state)| state.is_idle());
                let (oldest, _) = idle.min_by_key(|(_, state)| state.touched)?;
                let oldest = oldest.clone();
                self.sessions.remove(&oldest);
            }
            self.sessions.insert(session.to_owned(), SessionState::new(&self.config.limits));
        }
        self.sessions.get_mut(session)
    }

    /// Returns true if the prompt was sent; otherwise it was rejected.
    fn send_prompt(&mut self, session: &str, prompt: Prompt) -> bool {
        let Prompt { id, params, extra, .. } = prompt;
        let kind = RequestKind::Prompt { session: session.to_owned() };
        let is_sent = self.forward(Side::Agent, id, (PROMPT.to_owned(), params), kind, extra);
        if let Some(state) = self.sessions.get_mut(session).filter(|_| is_sent) {
            state.begin();
            self.events.push_back(RelayEvent::TurnStarted);
        }
        is_sent
    }

    /// Forwards the answer to a prompt and sends the next one.
    pub(super) fn prompt_answered(
        &mut self,
        session: &str,
        id: &Id,
        outcome: Result<Value, RpcError>,
        extra: Map<String, Value>,
    ) {
        let stop = match &outcome {
            Ok(result) => Ok(StopReason::of(result)),
            Err(error) => Err(RpcError::new(error.code, error.message.clone())),
        };
        self.answer(Side::Editor, id, outcome, extra);
        self.end_turn(session, stop);
        while let Some(prompt) = self.sessions.get_mut(session).and_then(SessionState::next_prompt)
        {
            self.editor.received.take(&prompt.id);
            if self.send_prompt(session, prompt) {
                break;
            }
        }
    }

    pub(super) fn end_turn(&mut self, session: &str, outcome: Result<StopReason, RpcError>) {
        let state = self.sessions.get_mut(session);
        if let Some(turn) = state.and_then(|state| state.end(session, outcome)) {
            self.events.push_back(RelayEvent::TurnEnded(Box::new(turn)));
        }
    }

    /// Answers a prompt that was never sent.
    pub(super) fn prompt_cancelled(&mut self, id: &Id) {
        self.answer(Side::Editor, id, Ok(json!({"stopReason": "cancelled"})), Map::new());
    }
}
