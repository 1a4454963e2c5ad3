//! The last reports of a session, for programs (`spec/web.md#typed-stream`).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clock::unix_ms;

/// Reports with their numbers, in bounded memory.
#[derive(Debug)]
pub(crate) struct ReportRing {
    reports: VecDeque<(u64, Arc<str>)>,
    last: u64,
    bytes: usize,
    limits: ReportLimits,
}

/// How many reports are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportLimits {
    pub(crate) reports: usize,
    /// Bytes of these.
    pub(crate) bytes: usize,
}

/// The reports after a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportsAfter {
    /// True if reports between are no longer there.
    pub(crate) has_gap: bool,
    pub(crate) reports: Vec<(u64, Arc<str>)>,
}

impl ReportRing {
    pub(crate) fn new(limits: ReportLimits) -> Self {
        // Above the numbers of an earlier server.
        let last = unix_ms().saturating_mul(1000);
        ReportRing { reports: VecDeque::new(), last, bytes: 0, limits }
    }

    /// Adds a report and returns its number.
    pub(crate) fn push(&mut self, report: &str) -> u64 {
        self.last = self.last.saturating_add(1);
        self.add(self.last, report);
        self.last
    }

    /// Adds a report of an earlier server.
    pub(crate) fn restore(&mut self, number: u64, report: &str) {
        self.last = self.last.max(number);
        self.add(number, report);
    }

    fn add(&mut self, number: u64, report: &str) {
        self.bytes = self.bytes.saturating_add(report.len());
        self.reports.push_back((number, report.into()));
        let limits = self.limits;
        while self.reports.len() > limits.reports.max(1)
            || (self.bytes > limits.bytes && self.reports.len() > 1)
        {
            let Some((_, oldest)) = self.reports.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.len());
        }
    }

    /// Returns the kept reports with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = &(u64, Arc<str>)> {
        self.reports.iter()
    }

    /// Returns the bytes of the kept reports.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of the last report.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number of the first report that is there, or of the next.
    pub(crate) fn first(&self) -> u64 {
        self.reports.front().map_or(self.last.saturating_add(1), |(first, _)| *first)
    }

    /// Returns at most `most` reports after a number.
    pub(crate) fn after(&self, number: u64, most: usize) -> ReportsAfter {
        let is_known = number.saturating_add(1) >= self.first() && number <= self.last;
        let from = if is_known { number } else { 0 };
        let newer = self.reports.iter().skip_while(|(other, _)| *other <= from);
        ReportsAfter { has_gap: !is_known, reports: newer.take(most).cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1000;
    const MOST_BYTES: usize = 100_000;

    #[test]
    fn reports_follow_a_number_and_gaps_are_named() {
        let mut ring = ReportRing::new(ReportLimits { reports: MOST, bytes: MOST_BYTES });
        let begin = ring.last();
        ["a", "b", "c"].iter().for_each(|report| _ = ring.push(report));
        let after = |ring: &ReportRing, number| {
            let after = ring.after(number, 100);
            let texts: String = after.reports.iter().map(|(_, text)| text.to_string()).collect();
            (after.has_gap, texts)
        };
        assert_eq!(after(&ring, begin), (false, "abc".to_owned()));
        assert_eq!(after(&ring, begin + 2), (false, "c".to_owned()));
        assert_eq!(after(&ring, begin + 3), (false, String::new()));
        assert_eq!(after(&ring, begin + 4), (true, "abc".to_owned()), "of another server");
        assert_eq!(after(&ring, 7), (true, "abc".to_owned()));
        ring.push(&"x".repeat(MOST_BYTES));
        let (has_gap, texts) = after(&ring, begin + 1);
        assert!(has_gap && texts.starts_with('x'), "the oldest are dropped");
        for _ in 0..MOST * 2 {
            ring.push("y");
        }
        assert_eq!(ring.reports.len(), MOST);
    }
}
