//! Signal escalation: INT, then TERM, then KILL, as a state machine without a clock.

use std::time::{Duration, Instant};

use aifo_types::Signal;

/// Which signals are sent, and when (`spec/runner.md#signal-escalation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscalationPlan {
    /// The time limit has passed: INT at once, TERM after 5 s, KILL after 10 s.
    Timeout,
    /// The client has disconnected, the proxy was lost, or the session ends: INT at once, TERM
    /// after 1 s, KILL after 3 s.
    Cancel,
    /// A client of version 3 has disconnected: KILL at once.
    Immediate,
    /// A client that has just sent a signal has disconnected: TERM after 5 s, KILL after 7 s. The
    /// tool handles that signal first.
    CancelAfterSignal,
    /// The tool has ended and left processes that must end too: TERM at once, KILL after 2 s.
    Leftovers,
}

impl EscalationPlan {
    fn steps(self) -> &'static [(u64, Signal)] {
        match self {
            EscalationPlan::Timeout => &[(0, Signal::Int), (5, Signal::Term), (10, Signal::Kill)],
            EscalationPlan::Cancel => &[(0, Signal::Int), (1, Signal::Term), (3, Signal::Kill)],
            EscalationPlan::Immediate => &[(0, Signal::Kill)],
            EscalationPlan::CancelAfterSignal => &[(5, Signal::Term), (7, Signal::Kill)],
            EscalationPlan::Leftovers => &[(0, Signal::Term), (2, Signal::Kill)],
        }
    }
}

/// A running escalation. After its last step it repeats KILL every second, because a kill can race
/// with a fork. The owner drops it when no process is left.
#[derive(Clone, Debug)]
pub struct Escalation {
    started: Instant,
    plan: EscalationPlan,
    steps_taken: usize,
}

impl Escalation {
    /// Starts an escalation; its first step may be due at once.
    pub fn new(plan: EscalationPlan, now: Instant) -> Self {
        Escalation { started: now, plan, steps_taken: 0 }
    }

    /// Returns when the next step is due.
    pub fn poll_timeout(&self) -> Instant {
        self.started + Duration::from_secs(self.step(self.steps_taken).0)
    }

    /// Returns the signal that is due at `now`, if any. Of several overdue steps only the last is
    /// taken.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Signal> {
        let mut due = None;
        while self.poll_timeout() <= now {
            due = Some(self.step(self.steps_taken).1);
            self.steps_taken += 1;
        }
        due
    }

    /// Returns when KILL is due for the first time.
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
        assert_eq!(signals_sent(EscalationPlan::CancelAfterSignal, 7), [(5, Term), (7, Kill)]);
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
