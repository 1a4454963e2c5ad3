//! A relayed session: one running turn, and queued prompts.

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::{Map, Value};

use crate::counts::Counts;
use crate::limits::Limits;
use crate::message::{Id, RpcError};
use crate::tool_call::ToolCall;
use crate::tool_calls::{ToolCalls, ToolChange};
use crate::turn_end::StopReason;

use super::event::RelayedTurn;

/// The state of a session (`spec/acp-relay.md#turns`).
#[derive(Debug)]
pub(super) struct SessionState {
    turn: Option<Turn>,
    /// The number of turns so far.
    turns: u64,
    queue: VecDeque<Prompt>,
    tools: ToolCalls,
    /// The number of the last prompt, over all sessions.
    pub(super) touched: u64,
}

/// A queued prompt.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) id: Id,
    pub(super) params: Value,
    pub(super) extra: Map<String, Value>,
    /// Memory in bytes, about.
    pub(super) weight: usize,
}

#[derive(Debug)]
struct Turn {
    phase: Phase,
    counts: Counts,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The deadline for the agent to end the turn; `None` once it has passed.
    Cancelling(Option<Instant>),
}

impl SessionState {
    pub(super) fn new(limits: &Limits) -> Self {
        let tools = ToolCalls::new(limits.tool_calls, limits.tool_bytes);
        SessionState {
            turn: None,
            turns: 0,
            queue: VecDeque::new(),
            tools: tools.with_max_member(LARGEST_MEMBER),
            touched: 0,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.turn.is_none()
    }

    /// Returns whether a turn runs that is not being cancelled.
    pub(super) fn is_running(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.phase == Phase::Running)
    }

    pub(super) fn is_cancelling(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.phase != Phase::Running)
    }

    pub(super) fn tools(&self) -> &ToolCalls {
        &self.tools
    }

    pub(super) fn begin(&mut self) {
        self.turns = self.turns.saturating_add(1);
        self.turn = Some(Turn { phase: Phase::Running, counts: Counts::default() });
    }

    /// Cancels the turn. Returns true if the agent must be notified.
    pub(super) fn cancel(&mut self, until: Option<Instant>) -> bool {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.phase == Phase::Running) else {
            return false;
        };
        turn.phase = Phase::Cancelling(until);
        true
    }

    /// Ends the turn, if there is one.
    pub(super) fn end(
        &mut self,
        session: &str,
        outcome: Result<StopReason, RpcError>,
    ) -> Option<RelayedTurn> {
        let turn = self.turn.take()?;
        Some(RelayedTurn {
            session: session.to_owned(),
            turn: self.turns,
            outcome,
            was_cancelled: turn.phase != Phase::Running,
            counts: turn.counts,
        })
    }

    pub(super) fn queue(&mut self, prompt: Prompt) {
        self.queue.push_back(prompt);
    }

    pub(super) fn queued(&self) -> impl ExactSizeIterator<Item = &Prompt> {
        self.queue.iter()
    }

    pub(super) fn next_prompt(&mut self) -> Option<Prompt> {
        self.queue.pop_front()
    }

    /// Removes a queued prompt.
    pub(super) fn unqueue(&mut self, id: &Id) -> Option<Prompt> {
        let at = self.queue.iter().position(|prompt| prompt.id == *id)?;
        self.queue.remove(at)
    }

    /// Counts an update and applies it to its tool call. Returns a change of state.
    pub(super) fn update(&mut self, body: &Value, limits: &Limits) -> Option<ToolChange> {
        let kind = body.get("sessionUpdate")?.as_str()?;
        if let Some(turn) = &mut self.turn {
            turn.counts.count(kind, limits.turn_kinds);
        }
        match kind {
            "tool_call" | "tool_call_update" => self.tools.upsert(body).filter(is_news),
            _ => None,
        }
    }

    /// Applies the tool call of a permission request.
    pub(super) fn permission(&mut self, call: &Value) -> (Option<ToolCall>, Option<ToolChange>) {
        let Some(change) = self.tools.upsert(call) else { return (None, None) };
        let call = self.tools.get(&change.id).cloned();
        (call, is_news(&change).then_some(change))
    }

    /// Returns the deadline for the agent to end the turn.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.turn.as_ref()?.phase {
            Phase::Running => None,
            Phase::Cancelling(until) => until,
        }
    }

    /// Returns true once if the deadline has passed.
    pub(super) fn is_overdue(&mut self, now: Instant) -> bool {
        let is_due = self.poll_timeout().is_some_and(|until| until <= now);
        if let Some(turn) = self.turn.as_mut().filter(|_| is_due) {
            turn.phase = Phase::Cancelling(None);
        }
        is_due
    }
}

fn is_news(change: &ToolChange) -> bool {
    change.before.as_ref() != Some(&change.after)
}

/// The largest field kept of a tool call, in bytes. Commands and paths are shorter; file contents
/// are forwarded without a copy.
const LARGEST_MEMBER: usize = 64 * 1024;
