//! The plan that ends a tool: INT, then TERM, then KILL. No clock of its own.

use std::time::{Duration, Instant};

use aifo_types::Signal;

/// Which steps are taken, and when. Seconds after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscalationPlan {
    /// The tool ran into its time limit: INT at once, TERM after 5 s, KILL after 10 s
    /// (`spec/toolexec.md#time-limit`).
    Timeout,
    /// Nobody waits for the tool any more, or the session ends: INT at once, TERM after 1 s, KILL
    /// after 3 s (`spec/toolexec.md#disconnect`).
    Cancel,
    /// Whoever started the tool as if it were here was killed: KILL at once
    /// (`spec/exec3.md#frames`).
    Immediate,
    /// As [`EscalationPlan::Cancel`], but the caller has just sent a signal of its own, so no INT.
    CancelAfterSignal,
    /// The tool has ended and left processes behind that are to go too: TERM, KILL after 2 s.
    Leftovers,
}

impl EscalationPlan {
    fn steps(self) -> &'static [(u64, Signal)] {
        match self {
            EscalationPlan::Timeout => &[(0, Signal::Int), (5, Signal::Term), (10, Signal::Kill)],
            EscalationPlan::Cancel => &[(0, Signal::Int), (1, Signal::Term), (3, Signal::Kill)],
            EscalationPlan::Immediate => &[(0, Signal::Kill)],
            EscalationPlan::CancelAfterSignal => &[(1, Signal::Term), (3, Signal::Kill)],
            EscalationPlan::Leftovers => &[(0, Signal::Term), (2, Signal::Kill)],
        }
    }
}

/// A plan being climbed. It never ends by itself: after the last step KILL comes again every
/// second, because a kill can race with a fork; the owner drops it when nothing is left to signal.
#[derive(Clone, Debug)]
pub struct Escalation {
    started: Instant,
    plan: EscalationPlan,
    steps_taken: usize,
}

impl Escalation {
    /// Starts at the foot of the plan; the first step may be due at once.
    pub fn new(plan: EscalationPlan, now: Instant) -> Self {
        Escalation { started: now, plan, steps_taken: 0 }
    }

    /// When the next step is due.
    pub fn poll_timeout(&self) -> Instant {
        self.started + Duration::from_secs(self.step(self.steps_taken).0)
    }

    /// The signal that is due at `now`, if any. Of several steps that are overdue only the last
    /// one is taken: a late KILL needs no INT before it.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Signal> {
        let mut due = None;
        while self.poll_timeout() <= now {
            due = Some(self.step(self.steps_taken).1);
            self.steps_taken += 1;
        }
        due
    }

    /// When KILL is due for the first time.
    pub fn kill_at(&self) -> Instant {
        let last = self.plan.steps().len() - 1;
        self.started + Duration::from_secs(self.step(last).0)
    }

    fn step(&self, index: usize) -> (u64, Signal) {
        let steps = self.plan.steps();
        let last = steps.len() - 1;
        let repeats = index.saturating_sub(last) as u64;
        let (after, signal) = steps[index.min(last)];
        (after + repeats, signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Signal::{Int, Kill, Term};

    fn signals_sent(plan: EscalationPlan, upto_secs: u64) -> Vec<(u64, Signal)> {
        let start = Instant::now();
        let mut escalation = Escalation::new(plan, start);
        let half_seconds = (0..=2 * upto_secs).map(|half| Duration::from_millis(500 * half));
        half_seconds
            .filter_map(|at| Some((at.as_secs(), escalation.handle_timeout(start + at)?)))
            .collect()
    }

    #[test]
    fn every_plan_step_by_step() {
        assert_eq!(signals_sent(EscalationPlan::Timeout, 10), [(0, Int), (5, Term), (10, Kill)]);
        assert_eq!(signals_sent(EscalationPlan::Cancel, 3), [(0, Int), (1, Term), (3, Kill)]);
        assert_eq!(signals_sent(EscalationPlan::CancelAfterSignal, 3), [(1, Term), (3, Kill)]);
        assert_eq!(signals_sent(EscalationPlan::Leftovers, 2), [(0, Term), (2, Kill)]);
    }

    #[test]
    fn kill_repeats_every_second() {
        let steps = signals_sent(EscalationPlan::Cancel, 6);
        assert_eq!(steps[3..], [(4, Kill), (5, Kill), (6, Kill)]);
    }

    #[test]
    fn overdue_steps_collapse_into_the_last() {
        let start = Instant::now();
        let mut escalation = Escalation::new(EscalationPlan::Timeout, start);
        assert_eq!(escalation.handle_timeout(start + Duration::from_secs(60)), Some(Kill));
        assert_eq!(escalation.handle_timeout(start + Duration::from_secs(60)), None);
        assert_eq!(escalation.kill_at(), start + Duration::from_secs(10));
    }
}
