//! The ends of the two streams.

use std::time::Instant;

use serde_json::Map;

use super::end::{Asked, At, Stream, What};
use super::event::RelayEvent;
use super::link::Link;
use super::{Relay, Release, Side};
use crate::event::Withdrawal;
use crate::message::{RpcError, code};

impl Relay {
    pub(super) fn ended(&mut self, side: Side) {
        self.end_mut(side).stream = Stream::Ended;
        match side {
            Side::Editor => self.without_editor(),
            Side::Agent => self.without_agent(),
        }
        self.events.push_back(RelayEvent::Ended { side });
        if self.end(side.other()).stream == Stream::Ended {
            self.release();
            self.events.push_back(RelayEvent::Closed);
        }
    }

    /// Every turn is to end, and what the editor was asked fails. It is still told how its own
    /// requests ended: that it has no more to say does not mean that it does not listen.
    fn without_editor(&mut self) {
        self.cancel_all();
        while let Some((_, sent)) = self.editor.sent.pop() {
            self.answer(Side::Agent, &sent.id, Err(Self::editor_ended()), Map::new());
        }
        self.release = Release::At(self.grace());
    }

    /// All that waits for the agent fails at once, and nobody waits for what it has asked.
    fn without_agent(&mut self) {
        let error = self.agent_ended();
        while let Some((_, sent)) = self.agent.sent.pop() {
            self.answer(Side::Editor, &sent.id, Err(error.clone()), Map::new());
            if let What::Prompt { session } = sent.what {
                self.end_turn(&session, Err(error.clone()));
            }
        }
        for link in self.sessions.values_mut() {
            while Link::next_prompt(link).is_some() {}
        }
        while let Some((id, _)) = self.editor.asked.take_first(|_| true) {
            self.refuse(Side::Editor, id, error.clone());
        }
        while let Some((id, asked)) = self.agent.asked.take_first(|_| true) {
            match asked {
                Asked::Forwarded(number) | Asked::Permission { at: At::Editor(number), .. } => {
                    self.withdraw_sent(Side::Editor, number);
                }
                Asked::Permission { at: At::Owner(_), .. } | Asked::Host | Asked::Queued { .. } => {
                    self.events.push_back(RelayEvent::Withdrawn { id, why: Withdrawal::Ended });
                }
            }
        }
    }

    /// Tells once that the agent is not needed any more: when all that it has asked is answered, and the
    /// answers are taken.
    pub(super) fn release(&mut self) {
        let now = self.now;
        let is_late = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        if let Release::At(until) = self.release
            && (self.editor.asked.len() == 0 || is_late(until))
        {
            self.release = Release::Flushing(self.grace());
            self.fail_hosts();
        }
        if let Release::Flushing(until) = self.release
            && (self.agent.out.held() == 0 || self.agent.stream == Stream::Ended || is_late(until))
        {
            self.release = Release::Told;
            self.events.push_back(RelayEvent::Released);
        }
    }

    /// Answers what is ours to serve and still runs. Everything else was answered when the editor went.
    fn fail_hosts(&mut self) {
        while let Some((id, _)) = self.agent.asked.take_first(|asked| matches!(asked, Asked::Host))
        {
            self.refuse(Side::Agent, id.clone(), Self::editor_ended());
            self.events.push_back(RelayEvent::Withdrawn { id, why: Withdrawal::Ended });
        }
    }

    /// Whether the agent's requests are served: not any more once it is about to be ended.
    pub(super) fn is_serving(&self) -> bool {
        matches!(self.release, Release::No | Release::At(_))
    }

    fn grace(&self) -> Option<Instant> {
        self.now.checked_add(self.config.limits.cancel_grace)
    }

    /// Why nothing comes of what the editor asks.
    pub(super) fn agent_ended(&self) -> RpcError {
        let text = match self.end_reason.as_str() {
            "" => "the agent has ended".to_owned(),
            reason => format!("the agent has ended: {reason}"),
        };
        RpcError::new(code::INTERNAL, text)
    }

    pub(super) fn editor_ended() -> RpcError {
        RpcError::new(code::INTERNAL, "the editor has ended")
    }
}
