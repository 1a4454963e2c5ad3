//! Counts of a session's requests, and their limits.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::refusal::Refusal;
use crate::usage::Tokens;

/// Counts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requests that were passed on.
    pub requests: u64,
    /// Bytes of their bodies.
    pub sent: u64,
    /// Bytes of the responses' bodies.
    pub received: u64,
    /// Tokens, where a response has counts.
    pub tokens: Tokens,
}

/// Limits of a session. None is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageLimits {
    /// Requests that are passed on.
    pub requests: Option<u64>,
    /// Tokens of prompts and answers together.
    pub tokens: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    limits: UsageLimits,
    requests: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    input: AtomicU64,
    output: AtomicU64,
}

impl Meter {
    pub(crate) fn new(limits: UsageLimits) -> Self {
        Meter { limits, ..Meter::default() }
    }

    /// Counts a request, unless a limit is reached.
    pub(crate) fn admit(&self) -> Result<(), Refusal> {
        let Usage { tokens, .. } = self.usage();
        let spent = tokens.input.saturating_add(tokens.output);
        if let Some(limit) = self.limits.tokens.filter(|&limit| spent >= limit) {
            return Err(Refusal::Limit(format!("{limit} tokens"), "--max-tokens"));
        }
        let most = self.limits.requests.unwrap_or(u64::MAX);
        let admit = |count: u64| (count < most).then(|| count.saturating_add(1));
        match self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, admit) {
            Ok(_) => Ok(()),
            Err(_) => Err(Refusal::Limit(format!("{most} requests"), "--max-requests")),
        }
    }

    pub(crate) fn add_sent(&self, bytes: usize) {
        add(&self.sent, bytes as u64);
    }

    pub(crate) fn add_received(&self, bytes: usize) {
        add(&self.received, bytes as u64);
    }

    pub(crate) fn add_tokens(&self, tokens: Tokens) {
        add(&self.input, tokens.input);
        add(&self.output, tokens.output);
    }

    pub(crate) fn usage(&self) -> Usage {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Usage {
            requests: of(&self.requests),
            sent: of(&self.sent),
            received: of(&self.received),
            tokens: Tokens { input: of(&self.input), output: of(&self.output) },
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_exact() {
        let meter = Meter::new(UsageLimits { requests: Some(2), tokens: None });
        let admitted = (0..4).filter(|_| meter.admit().is_ok()).count();
        assert_eq!((admitted, meter.usage().requests), (2, 2));
        let meter = Meter::new(UsageLimits { requests: None, tokens: Some(10) });
        meter.admit().unwrap();
        meter.add_tokens(Tokens { input: 9, output: 1 });
        let refused = meter.admit().unwrap_err().to_string();
        assert!(refused.contains("10 tokens") && refused.contains("--max-tokens"), "{refused}");
    }
}
