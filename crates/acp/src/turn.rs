//! One prompt, from its request to the last update that belongs to it.

use std::time::Instant;

use serde_json::Value;

use crate::counts::Counts;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::timeline::{AnswerFrom, Timeline};
use crate::turn_end::{CancelCause, StopReason, TurnEnd};

/// The state of a turn (`spec/acp.md#turns`).
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) number: u64,
    pub(crate) timeline: Timeline,
    phase: Phase,
    cancelled: Option<CancelCause>,
    counts: Counts,
    /// UpdateScope it has taken long enough.
    total: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    Running,
    /// Until then the agent may end it by itself; `None` once it is known that it has not.
    Cancelling(Option<Instant>),
    /// The agent has answered. What still comes belongs to it.
    Draining {
        outcome: Outcome,
        quiet: Option<Instant>,
        last: Option<Instant>,
    },
}

/// How a prompt was answered, with all of the answer.
type Outcome = Result<(StopReason, Value), Failure>;

/// What the clock tells of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It is to be cancelled.
    Cancel(CancelCause),
    /// It was, and the agent does not end it.
    Overdue,
    /// Nothing more is expected.
    Drained,
}

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnPhase {
    /// The agent works.
    Running,
    /// It was asked to stop.
    Cancelling,
    /// It has answered.
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

    /// Counts an update; false if the turn has had as many as count.
    pub(crate) fn count(&mut self, kind: &str, limits: &Limits) -> bool {
        self.counts.count(kind, limits.turn_kinds);
        self.counts.updates <= limits.turn_updates as u64
    }

    /// Counts an update that found no room; true for the first.
    pub(crate) fn count_dropped(&mut self) -> bool {
        self.counts.dropped = self.counts.dropped.saturating_add(1);
        self.counts.dropped == 1
    }

    /// Something has come: the quiet begins anew.
    pub(crate) fn record_activity(&mut self, now: Instant, limits: &Limits) {
        if let Phase::Draining { quiet, .. } = &mut self.phase {
            *quiet = now.checked_add(limits.drain_idle);
        }
    }

    /// True if it has to be told to the agent.
    pub(crate) fn cancel(&mut self, cause: CancelCause, until: Option<Instant>) -> bool {
        let is_running = matches!(self.phase, Phase::Running);
        if is_running {
            self.cancelled = Some(cause);
            self.phase = Phase::Cancelling(until);
        }
        is_running
    }

    /// The agent has answered.
    pub(crate) fn answered(&mut self, outcome: Outcome, now: Instant, limits: &Limits) {
        let after = |pause| now.checked_add(pause);
        let (quiet, last) = (after(limits.drain_idle), after(limits.drain_total));
        self.phase = Phase::Draining { outcome, quiet, last };
    }

    /// UpdateScope the clock next has something to tell. `idle` is when the agent has been quiet for too
    /// long, `None` as long as something is owed to it.
    pub(crate) fn poll_timeout(&self, idle: Option<Instant>) -> Option<Instant> {
        let times = match self.phase {
            Phase::Running => [idle, self.total],
            Phase::Cancelling(until) => [until, None],
            Phase::Draining { quiet, last, .. } => [quiet, last],
        };
        times.into_iter().flatten().min()
    }

    /// What the clock tells now, if anything.
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

    /// All that came of it. A turn that was not answered ended by `otherwise`.
    pub(crate) fn into_end(self, session: &str, from: AnswerFrom, otherwise: Failure) -> TurnEnd {
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
            answer: self.timeline.into_answer(from),
            response,
            counts: self.counts,
        }
    }
}
