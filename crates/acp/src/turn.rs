//! One turn, from its prompt to the last update.

use std::time::Instant;

use serde_json::Value;

use crate::counts::Counts;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::timeline::Timeline;
use crate::turn_end::{CancelCause, StopReason, TurnEnd};

/// The state of a turn (`spec/acp.md#turns`).
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) number: u64,
    pub(crate) timeline: Timeline,
    phase: Phase,
    cancelled: Option<CancelCause>,
    counts: Counts,
    /// The deadline of the whole turn.
    total: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    Running,
    /// The deadline for the agent to end the turn; `None` once it has passed.
    Cancelling(Option<Instant>),
    /// The prompt is answered; late updates may follow.
    Draining {
        outcome: Outcome,
        quiet: Option<Instant>,
        last: Option<Instant>,
    },
}

/// The answer to a prompt, with its whole result.
type Outcome = Result<(StopReason, Value), Failure>;

/// An expired deadline of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Cancel the turn.
    Cancel(CancelCause),
    /// The agent has not ended the cancelled turn.
    Overdue,
    /// No more updates are expected.
    Drained,
}

/// The phase of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnPhase {
    /// The agent is working.
    Running,
    /// `session/cancel` was sent.
    Cancelling,
    /// The prompt is answered; late updates may follow.
    Draining,
}

impl Turn {
    pub(crate) fn new(number: u64, timeline: Timeline, total: Option<Instant>) -> Self {
        Turn {
            number,
            timeline,
            phase: Phase::Running,
            cancelled: None,
            counts: Counts::default(),
            total,
        }
    }

    pub(crate) fn phase(&self) -> TurnPhase {
        match self.phase {
            Phase::Running => TurnPhase::Running,
            Phase::Cancelling(_) => TurnPhase::Cancelling,
            Phase::Draining { .. } => TurnPhase::Draining,
        }
    }

    /// Counts an update. Returns false above [`Limits::turn_updates`].
    pub(crate) fn count(&mut self, kind: &str, limits: &Limits) -> bool {
        self.counts.count(kind, limits.turn_kinds);
        self.counts.updates <= limits.turn_updates as u64
    }

    /// Counts a dropped update. Returns true for the first.
    pub(crate) fn count_dropped(&mut self) -> bool {
        self.counts.dropped = self.counts.dropped.saturating_add(1);
        self.counts.dropped == 1
    }

    /// Restarts the pause that ends the turn.
    pub(crate) fn record_activity(&mut self, now: Instant, limits: &Limits) {
        if let Phase::Draining { quiet, .. } = &mut self.phase {
            *quiet = now.checked_add(limits.drain_idle);
        }
    }

    /// Cancels the turn. Returns true if the agent must be notified.
    pub(crate) fn cancel(&mut self, cause: CancelCause, until: Option<Instant>) -> bool {
        let is_running = matches!(self.phase, Phase::Running);
        if is_running {
            self.cancelled = Some(cause);
            self.phase = Phase::Cancelling(until);
        }
        is_running
    }

    /// Records the answer to the prompt.
    pub(crate) fn answered(&mut self, outcome: Outcome, now: Instant, limits: &Limits) {
        let after = |pause| now.checked_add(pause);
        let (quiet, last) = (after(limits.drain_idle), after(limits.drain_total));
        self.phase = Phase::Draining { outcome, quiet, last };
    }

    /// Returns the next deadline. `idle` is the idle deadline, `None` while an agent request is
    /// pending.
    pub(crate) fn poll_timeout(&self, idle: Option<Instant>) -> Option<Instant> {
        let times = match self.phase {
            Phase::Running => [idle, self.total],
            Phase::Cancelling(until) => [until, None],
            Phase::Draining { quiet, last, .. } => [quiet, last],
        };
        times.into_iter().flatten().min()
    }

    /// Returns the deadline that has passed, if any.
    pub(crate) fn due(&mut self, now: Instant, idle: Option<Instant>) -> Option<Due> {
        self.poll_timeout(idle).filter(|time| *time <= now)?;
        Some(match &mut self.phase {
            Phase::Running if self.total.is_some_and(|total| total <= now) => {
                Due::Cancel(CancelCause::TooLong)
            }
            Phase::Running => Due::Cancel(CancelCause::Idle),
            Phase::Cancelling(until) => {
                *until = None;
                Due::Overdue
            }
            Phase::Draining { .. } => Due::Drained,
        })
    }

    /// Returns the turn's outcome; `otherwise` is that of an unanswered turn.
    pub(crate) fn into_end(self, session: &str, otherwise: Failure) -> TurnEnd {
        let outcome = match self.phase {
            Phase::Draining { outcome, .. } => outcome,
            Phase::Running | Phase::Cancelling(_) => Err(otherwise),
        };
        let (outcome, response) = match outcome {
            Ok((stop, response)) => (Ok(stop), response),
            Err(failure) => (Err(failure), Value::Null),
        };
        TurnEnd {
            session: session.to_owned(),
            turn: self.number,
            outcome,
            cancelled: self.cancelled,
            answer: self.timeline.into_answer(),
            response,
            counts: self.counts,
        }
    }
}
