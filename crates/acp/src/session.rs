//! One session and its turns.

use std::time::Instant;

use serde_json::Value;

use crate::content::{Channel, pieces};
use crate::failure::Failure;
use crate::limits::Limits;
use crate::text_run::Streaming;
use crate::timeline::{AnswerPart, Position, PushOutcome, Timeline};
use crate::tool_call::UnfinishedReason;
use crate::tool_calls::{ToolCalls, ToolChange};
use crate::turn::{Due, Turn, TurnPhase};
use crate::turn_end::{CancelCause, StopReason, TurnEnd};
use crate::update::{Update, UpdateKind, UpdateScope};

/// The state of a session (`spec/acp.md#sessions`).
#[derive(Debug)]
pub struct Session {
    id: String,
    phase: Phase,
    /// The number of turns so far.
    turns: u64,
    tools: ToolCalls,
    limits: Limits,
    streaming: Streaming,
}

#[derive(Debug)]
enum Phase {
    /// `session/load` has not been answered.
    Loading,
    Idle,
    Turn(Box<Turn>),
}

/// The effect of an update.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) scope: UpdateScope,
    pub(crate) change: Option<ToolChange>,
    /// The turn dropped something for the first time.
    pub(crate) is_first_drop: bool,
}

impl Session {
    pub(crate) fn open(id: &str, limits: &Limits, streaming: Streaming) -> Self {
        Session {
            id: id.to_owned(),
            phase: Phase::Idle,
            turns: 0,
            tools: ToolCalls::new(limits.tool_calls, limits.tool_bytes),
            limits: limits.clone(),
            streaming,
        }
    }

    /// Marks the session as loading its history.
    pub(crate) fn begin_loading(mut self) -> Self {
        self.phase = Phase::Loading;
        self
    }

    /// Marks the history as complete.
    pub(crate) fn finish_loading(&mut self) {
        if matches!(self.phase, Phase::Loading) {
            self.phase = Phase::Idle;
        }
    }

    /// Returns the agent id of the session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the tool calls of all turns.
    pub fn tools(&self) -> &ToolCalls {
        &self.tools
    }

    /// Returns the phase of the turn; `None` between turns and while loading.
    pub fn turn(&self) -> Option<TurnPhase> {
        match &self.phase {
            Phase::Turn(turn) => Some(turn.phase()),
            Phase::Loading | Phase::Idle => None,
        }
    }

    /// Returns the answer's text so far.
    pub fn draft(&self) -> String {
        match &self.phase {
            Phase::Turn(turn) => turn.timeline.draft(),
            Phase::Loading | Phase::Idle => String::new(),
        }
    }

    /// Returns the final part of the answer's text since `from`; see
    /// [`Timeline::read_on`](crate::Timeline::read_on).
    pub fn read_on(&self, from: &mut Position) -> Vec<AnswerPart<'_>> {
        match &self.phase {
            Phase::Turn(turn) => turn.timeline.read_on(from),
            Phase::Loading | Phase::Idle => Vec::new(),
        }
    }

    pub(crate) fn can_begin(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Begins a turn and returns its number.
    pub(crate) fn begin(&mut self, now: Instant) -> u64 {
        self.turns = self.turns.saturating_add(1);
        let timeline = Timeline::new(self.streaming, self.limits.turn_bytes);
        let total = self.limits.prompt_total.and_then(|total| now.checked_add(total));
        self.phase = Phase::Turn(Box::new(Turn::new(self.turns, timeline, total)));
        self.turns
    }

    /// Applies an update.
    pub(crate) fn apply(&mut self, update: &Update, now: Instant) -> Applied {
        let scope = self.scope();
        let mut outcome = PushOutcome::Stored;
        let counts = match &mut self.phase {
            Phase::Turn(turn) => {
                turn.record_activity(now, &self.limits);
                turn.count(update.kind().name(), &self.limits)
            }
            Phase::Loading | Phase::Idle => true,
        };
        let mut change = None;
        if counts {
            change = self.change(update);
            if let Phase::Turn(turn) = &mut self.phase {
                for (channel, piece) in pieces(update) {
                    // The user's own message is not kept.
                    if channel != Channel::User
                        && turn.timeline.push(channel, update.message_id(), piece)
                            == PushOutcome::Dropped
                    {
                        outcome = PushOutcome::Dropped;
                    }
                }
                if let Some(change) = &change
                    && turn.timeline.push_tool(&change.id) == PushOutcome::Dropped
                {
                    outcome = PushOutcome::Dropped;
                }
            }
        } else {
            outcome = PushOutcome::Dropped;
        }
        let is_first_drop = match &mut self.phase {
            Phase::Turn(turn) if outcome == PushOutcome::Dropped => turn.count_dropped(),
            _ => false,
        };
        Applied { scope, change, is_first_drop }
    }

    /// Applies the tool call of a permission request.
    pub(crate) fn apply_permission(&mut self, params: &Value) -> Option<ToolChange> {
        let change = self.tools.upsert(params.get("toolCall")?)?;
        if let Phase::Turn(turn) = &mut self.phase {
            // If the timeline is full, the call is still recorded.
            let _ = turn.timeline.push_tool(&change.id);
        }
        Some(change)
    }

    /// Cancels the turn. Returns true if the agent must be notified.
    pub(crate) fn cancel(&mut self, cause: CancelCause, now: Instant) -> bool {
        let Phase::Turn(turn) = &mut self.phase else { return false };
        let is_news = turn.cancel(cause, now.checked_add(self.limits.cancel_grace));
        if is_news {
            turn.timeline
                .tools()
                .for_each(|id| self.tools.mark_unfinished(id, UnfinishedReason::Cancelled));
        }
        is_news
    }

    /// Records the answer to the prompt.
    pub(crate) fn prompt_answered(&mut self, outcome: Result<Value, Failure>, now: Instant) {
        if let Phase::Turn(turn) = &mut self.phase {
            let outcome = outcome.map(|result| (StopReason::of(&result), result));
            turn.answered(outcome, now, &self.limits);
        }
    }

    /// Ends the turn, if there is one.
    pub(crate) fn end_turn(&mut self, otherwise: Failure) -> Option<TurnEnd> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Turn(turn) => {
                turn.timeline
                    .tools()
                    .for_each(|id| self.tools.mark_unfinished(id, UnfinishedReason::Abandoned));
                Some(turn.into_end(&self.id, otherwise))
            }
            Phase::Loading | Phase::Idle => None,
        }
    }

    pub(crate) fn poll_timeout(&self, idle: Option<Instant>) -> Option<Instant> {
        match &self.phase {
            Phase::Turn(turn) => turn.poll_timeout(idle),
            Phase::Loading | Phase::Idle => None,
        }
    }

    pub(crate) fn due(&mut self, now: Instant, idle: Option<Instant>) -> Option<Due> {
        match &mut self.phase {
            Phase::Turn(turn) => turn.due(now, idle),
            Phase::Loading | Phase::Idle => None,
        }
    }

    fn scope(&self) -> UpdateScope {
        match &self.phase {
            Phase::Loading => UpdateScope::History,
            Phase::Turn(turn) if turn.phase() == TurnPhase::Draining => {
                UpdateScope::Late(turn.number)
            }
            Phase::Turn(turn) => UpdateScope::Turn(turn.number),
            Phase::Idle if self.turns == 0 => UpdateScope::BeforeTurns,
            Phase::Idle => UpdateScope::Late(self.turns),
        }
    }

    /// Applies the part of an update that outlives the turn.
    fn change(&mut self, update: &Update) -> Option<ToolChange> {
        match update.kind() {
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => self.tools.upsert(update.body()),
            _ => None,
        }
    }
}
