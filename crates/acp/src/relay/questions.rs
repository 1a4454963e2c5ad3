//! Questions of the caller to the editor (`spec/questions.md#editors`).

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::event::RelayEvent;
use super::fields::Fields;
use super::path_map::Direction;
use super::requests::{ForwardedRequest, RequestKind};
use super::{PERMISSION, Relay, Side};
use crate::message::RpcError;

impl Relay {
    /// Sends the editor a permission request of the caller, in the session whose turn began last.
    /// `call` and `options` are those of the request, with the agent paths. Returns the request's
    /// number; `None` without an editor or a running turn. [`RelayEvent::QuestionAnswered`] follows,
    /// unless the question is withdrawn.
    pub fn ask_question(
        &mut self,
        question: &str,
        call: Value,
        options: Value,
        now: Instant,
    ) -> Option<u64> {
        self.now = now;
        let running = self.sessions.iter().filter(|(_, state)| state.is_running());
        let (session, _) = running.max_by_key(|(_, state)| state.touched)?;
        if !self.editor.is_open() {
            return None;
        }
        let mut params = json!({"sessionId": session, "toolCall": call, "options": options});
        Fields::new(&self.config.map, Direction::ToEditor).params(PERMISSION, &mut params);
        let kind = RequestKind::Question { question: question.to_owned() };
        let request = ForwardedRequest { id: 0_u64.into(), kind };
        let call = (PERMISSION.to_owned(), params);
        self.editor.send(request, None, call, Map::new()).ok()
    }

    /// Cancels a question at the editor; a late answer is dropped.
    pub fn withdraw_question(&mut self, number: u64, now: Instant) {
        self.now = now;
        self.cancel_sent_request(Side::Editor, number);
    }

    /// Cancels the running turns, as the editor can.
    pub fn cancel_turns(&mut self, now: Instant) {
        self.now = now;
        let running = self.sessions.iter().filter(|(_, state)| state.is_running());
        let running: Vec<String> = running.map(|(session, _)| session.clone()).collect();
        for session in running {
            self.cancel(json!({"sessionId": session}), Map::new());
        }
    }

    pub(super) fn question_answered(
        &mut self,
        question: String,
        outcome: &Result<Value, RpcError>,
    ) {
        let option = outcome.as_ref().ok().and_then(selected_option);
        let option = option.and_then(|option| option.as_str().map(str::to_owned));
        self.events.push_back(RelayEvent::QuestionAnswered { question, option });
    }
}

/// Returns the option that an answer to a permission request selects.
pub(super) fn selected_option(result: &Value) -> Option<Value> {
    let outcome = result.get("outcome")?;
    let is_selected = outcome.get("outcome")?.as_str() == Some("selected");
    outcome.get("optionId").filter(|_| is_selected).cloned()
}
