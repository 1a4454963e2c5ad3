//! What waits for a user to look at it.

use serde_json::{Value, json};

use super::Inner;
use crate::clock::unix_ms;

/// Something that a user should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attention {
    /// The waiting question, or none for the end of a turn.
    pub(crate) question: Option<String>,
    pub(crate) session: String,
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) time: u64,
}

impl Attention {
    pub(crate) fn new(question: Option<String>, session: &str, title: &str, text: &str) -> Self {
        Attention {
            question,
            session: session.to_owned(),
            title: title.to_owned(),
            text: text.chars().take(MOST_TEXT).collect(),
            time: unix_ms(),
        }
    }

    /// Returns the event as the command reads it.
    pub(crate) fn to_value(&self) -> Value {
        let event = if self.question.is_some() { "permission" } else { "turn_end" };
        json!({
            "event": event,
            "session": self.session,
            "title": self.title,
            "text": self.text,
            "question": self.question,
            "time": self.time,
        })
    }
}

impl Inner {
    /// Adds an event for the user's command.
    pub(super) fn attend_to(&mut self, session: &str, question: Option<String>, text: &str) {
        let facts = self.sessions.get(session).map(|slot| &slot.facts);
        let title = facts.map(|facts| facts.title.clone()).unwrap_or_default();
        self.attend(Attention::new(question, session, &title, text));
    }

    /// Adds what a user should look at.
    pub(super) fn attend(&mut self, event: Attention) {
        self.attention.push_back(event);
        if self.attention.len() > MOST_ATTENTION {
            self.attention.pop_front();
        }
    }

    /// Returns what still waits for a user to look at it.
    pub(crate) fn take_attention(&mut self) -> Vec<Attention> {
        let questions = &self.questions;
        let calls = &self.calls;
        let is_pending = |id: &String| {
            calls.is_waiting(id) || questions.pending().any(|question| question.id == *id)
        };
        let waits = |event: &Attention| event.question.as_ref().is_none_or(is_pending);
        std::mem::take(&mut self.attention).into_iter().filter(waits).collect()
    }
}

/// Events that wait to be reported.
const MOST_ATTENTION: usize = 100;
/// Characters of the text.
const MOST_TEXT: usize = 1000;
