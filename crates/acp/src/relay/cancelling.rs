//! Cancels turns.

use serde_json::{Map, Value, json};

use super::event::RelayEvent;
use super::requests::{Decider, IncomingRequest};
use super::session_state::SessionState;
use super::{CANCEL, Relay, Side};
use crate::event::{RequestEvent, Withdrawal};
use crate::message::Id;
use crate::permission::PermissionOutcome;
use crate::update::session_of;

impl Relay {
    /// Forwards `session/cancel` once, then answers the session's pending permission requests: some
    /// agents otherwise never end the turn. Queued prompts are never sent.
    pub(super) fn cancel(&mut self, params: Value, extra: Map<String, Value>) {
        let Some(session) = session_of(&params) else { return };
        let until = self.now.checked_add(self.config.limits.cancel_grace);
        if self.sessions.get_mut(&session).is_some_and(|state| state.cancel(until)) {
            self.notify(Side::Agent, CANCEL.to_owned(), params, extra);
        }
        self.cancel_permissions(|of| of == session);
        while let Some(prompt) = self.sessions.get_mut(&session).and_then(SessionState::next_prompt)
        {
            self.prompt_cancelled(&prompt.id);
        }
    }

    /// Cancels all turns, after the editor has disconnected.
    pub(super) fn cancel_all(&mut self) {
        let sessions: Vec<String> = self.sessions.keys().cloned().collect();
        for session in sessions {
            self.cancel(json!({"sessionId": session}), Map::new());
        }
        self.cancel_permissions(|_| true);
    }

    /// Cancels the pending permission requests of matching sessions, the oldest first.
    fn cancel_permissions(&mut self, is_it: impl Fn(&str) -> bool) {
        let waiting = self.agent.received.iter().filter_map(|(id, request)| match request {
            IncomingRequest::Permission { session, .. } => is_it(session).then(|| id.clone()),
            IncomingRequest::Forwarded(_)
            | IncomingRequest::Queued { .. }
            | IncomingRequest::Command
            | IncomingRequest::Host => None,
        });
        let waiting: Vec<Id> = waiting.collect();
        for id in waiting {
            self.cancel_permission(&id, Withdrawal::TurnCancelled);
        }
    }

    /// Answers a permission request with `cancelled` and notifies the editor or the caller.
    pub(super) fn cancel_permission(&mut self, id: &Id, why: Withdrawal) {
        let at_editor = match self.agent.received.get(id) {
            Some(IncomingRequest::Permission { decider: Decider::Editor(number), .. }) => {
                Some(*number)
            }
            _ => None,
        };
        self.answer(Side::Agent, id, Ok(PermissionOutcome::Cancelled.to_result()), Map::new());
        match (at_editor, why) {
            // The editor cancelled the turn itself.
            (Some(number), Withdrawal::TurnCancelled) => {
                self.editor.sent.complete(&number.into());
            }
            (Some(number), _) => self.cancel_sent_request(Side::Editor, number),
            (None, why) => {
                self.events.push_back(RelayEvent::Request(RequestEvent::Withdrawn {
                    id: id.clone(),
                    why,
                }));
            }
        }
    }
}
