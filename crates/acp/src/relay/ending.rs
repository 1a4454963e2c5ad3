//! Handles the end of both streams.

use std::time::Instant;

use serde_json::Map;

use super::event::RelayEvent;
use super::requests::{Decider, IncomingRequest, RequestKind};
use super::session_state::SessionState;
use super::{Relay, Release, Side};
use crate::event::{RequestEvent, Withdrawal};
use crate::message::{RpcError, code};

impl Relay {
    pub(super) fn stream_ended(&mut self, side: Side) {
        match side {
            Side::Editor => self.editor_stream_ended(),
            Side::Agent => self.agent_stream_ended(),
        }
        self.events.push_back(RelayEvent::Ended { side });
        if !self.connection(side.other()).is_open() {
            self.release();
            self.events.push_back(RelayEvent::Closed);
        }
    }

    /// Cancels all turns and fails requests to the editor. The editor still receives answers, as it
    /// may only have closed its output.
    fn editor_stream_ended(&mut self) {
        self.cancel_all();
        while let Some((_, sent)) = self.editor.sent.pop() {
            if let RequestKind::Question { question } = sent.kind {
                self.question_answered(question, &Err(Self::editor_ended()));
                continue;
            }
            self.answer(Side::Agent, &sent.id, Err(Self::editor_ended()), Map::new());
        }
        self.release = Release::At(self.grace());
    }

    /// Fails the editor requests and withdraws the agent's.
    fn agent_stream_ended(&mut self) {
        let error = self.agent_ended();
        while let Some((_, sent)) = self.agent.sent.pop() {
            self.answer(Side::Editor, &sent.id, Err(error.clone()), Map::new());
            if let RequestKind::Prompt { session } = sent.kind {
                self.end_turn(&session, Err(error.clone()));
            }
        }
        for state in self.sessions.values_mut() {
            while SessionState::next_prompt(state).is_some() {}
        }
        while let Some((id, _)) = self.editor.received.take_first(|_| true) {
            self.reject(Side::Editor, id, error.clone());
        }
        while let Some((id, request)) = self.agent.received.take_first(|_| true) {
            match request {
                IncomingRequest::Forwarded(number)
                | IncomingRequest::Permission { decider: Decider::Editor(number), .. } => {
                    self.cancel_sent_request(Side::Editor, number);
                }
                IncomingRequest::Permission { decider: Decider::Host(_), .. }
                | IncomingRequest::Host
                | IncomingRequest::Command
                | IncomingRequest::Queued { .. } => {
                    self.events.push_back(RelayEvent::Request(RequestEvent::Withdrawn {
                        id,
                        why: Withdrawal::Ended,
                    }));
                }
            }
        }
    }

    /// Sends [`RelayEvent::Released`] once all of the agent requests are answered and the answers
    /// written.
    pub(super) fn release(&mut self) {
        let now = self.now;
        let is_late = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        if let Release::At(until) = self.release
            && (self.editor.received.len() == 0 || is_late(until))
        {
            self.release = Release::Flushing(self.grace());
            self.fail_host_requests();
        }
        if let Release::Flushing(until) = self.release
            && (self.agent.out.held() == 0 || !self.agent.is_open() || is_late(until))
        {
            self.release = Release::Reported;
            self.events.push_back(RelayEvent::Released);
        }
    }

    /// Fails the requests that the caller still serves. All others were answered when the editor
    /// disconnected.
    fn fail_host_requests(&mut self) {
        while let Some((id, _)) =
            self.agent.received.take_first(|request| matches!(request, IncomingRequest::Host))
        {
            self.reject(Side::Agent, id.clone(), Self::editor_ended());
            self.events.push_back(RelayEvent::Request(RequestEvent::Withdrawn {
                id,
                why: Withdrawal::Ended,
            }));
        }
    }

    /// Returns whether the agent requests are still served.
    pub(super) fn is_serving(&self) -> bool {
        matches!(self.release, Release::No | Release::At(_))
    }

    fn grace(&self) -> Option<Instant> {
        self.now.checked_add(self.config.limits.cancel_grace)
    }

    /// Returns the error for requests after the agent's end.
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
