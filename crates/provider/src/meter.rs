//! Counts of a session's requests, and their limits (`spec/keys.md#limits`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::demand::Demand;
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
    /// Tokens that were charged to the limit for responses without counts.
    pub estimated: u64,
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
    counts: Mutex<Counts>,
    /// A reservation has ended.
    settled: Notify,
}

#[derive(Debug, Default)]
struct Counts {
    usage: Usage,
    /// Tokens of the requests that are being answered.
    reserved: u64,
    /// Tokens of the largest response so far.
    largest: u64,
}

/// Tokens that are reserved for a request until its response has ended. Without [`Reservation::settle`] it
/// is charged in full: the response may cost what was not read.
#[derive(Debug)]
pub(crate) struct Reservation {
    meter: Arc<Meter>,
    tokens: u64,
    /// The most that the request says it costs, which a response that has ended without usage is charged.
    owed: u64,
    has_ended: bool,
    /// Bytes of the request body, and of the response's so far.
    sent: u64,
    received: u64,
    /// What the response has counted so far.
    pub(crate) counted: Tokens,
    is_settled: bool,
}

/// A reservation is at least this part of the limit: the first requests may be small, and the next ones large.
const SMALLEST_PART: u64 = 16;

/// Bytes of a token of most texts. Those of a request may have a token per byte.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

impl Meter {
    pub(crate) fn new(limits: UsageLimits) -> Self {
        Meter { limits, ..Meter::default() }
    }

    /// Returns whether tokens are limited.
    pub(crate) fn limits_tokens(&self) -> bool {
        self.limits.tokens.is_some()
    }

    /// Counts a request that costs no tokens, unless a limit is reached.
    pub(crate) fn admit(&self) -> Result<(), Refusal> {
        let mut counts = self.lock();
        self.left(&counts)?;
        counts.usage.requests += 1;
        Ok(())
    }

    /// Counts a request and reserves its tokens. Waits while only other reservations leave no room for it.
    pub(crate) async fn reserve(self: &Arc<Self>, demand: Demand) -> Result<Reservation, Refusal> {
        loop {
            let settled = self.settled.notified();
            if let Some(tokens) = self.try_reserve(demand)? {
                return Ok(Reservation {
                    meter: Arc::clone(self),
                    tokens,
                    owed: demand.most(),
                    has_ended: false,
                    sent: demand.sent,
                    received: 0,
                    counted: Tokens::default(),
                    is_settled: false,
                });
            }
            settled.await;
        }
    }

    fn try_reserve(&self, demand: Demand) -> Result<Option<u64>, Refusal> {
        let mut counts = self.lock();
        let left = self.left(&counts)?;
        let mut tokens = 0;
        if let Some((limit, left)) = self.limits.tokens.zip(left) {
            if let Some(stated) = demand.stated.filter(|&stated| stated > left) {
                return Err(Refusal::Room { limit, left, stated });
            }
            tokens = demand.most().max(counts.largest).max(limit / SMALLEST_PART);
            // A request that is alone is admitted even if only a guess at its size has no room.
            if counts.reserved > 0 && tokens > left.saturating_sub(counts.reserved) {
                return Ok(None);
            }
        }
        counts.usage.requests += 1;
        counts.reserved = counts.reserved.saturating_add(tokens);
        Ok(Some(tokens))
    }

    /// Returns the tokens that are left, or the limit that is reached.
    fn left(&self, counts: &Counts) -> Result<Option<u64>, Refusal> {
        let left = self.limits.tokens.map(|limit| limit.saturating_sub(counts.spent()));
        if let Some((limit, 0)) = self.limits.tokens.zip(left) {
            return Err(Refusal::Limit(format!("{limit} tokens"), "--max-tokens"));
        }
        match self.limits.requests.filter(|&most| counts.usage.requests >= most) {
            Some(most) => Err(Refusal::Limit(format!("{most} requests"), "--max-requests")),
            None => Ok(left),
        }
    }

    pub(crate) fn add_sent(&self, bytes: usize) {
        self.lock().usage.sent += bytes as u64;
    }

    pub(crate) fn add_received(&self, bytes: usize) {
        self.lock().usage.received += bytes as u64;
    }

    pub(crate) fn usage(&self) -> Usage {
        self.lock().usage
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn spent(&self) -> u64 {
        self.usage.tokens.sum().saturating_add(self.usage.estimated)
    }
}

impl Reservation {
    pub(crate) fn add_received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    /// Returns whether more is charged than what the response has counted.
    pub(crate) fn is_open(&self) -> bool {
        self.meter.limits_tokens() && !self.is_settled
    }

    /// The response has ended without usage.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// The response is an error: without usage it costs what was read.
    pub(crate) fn fail(&mut self) {
        (self.owed, self.has_ended) = (0, true);
    }

    /// The response costs what it has counted.
    pub(crate) fn settle(&mut self) {
        self.is_settled = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut counts = self.meter.lock();
        counts.reserved = counts.reserved.saturating_sub(self.tokens);
        counts.largest = counts.largest.max(self.counted.sum());
        let tokens = &mut counts.usage.tokens;
        tokens.input = tokens.input.saturating_add(self.counted.input);
        tokens.output = tokens.output.saturating_add(self.counted.output);
        if self.is_open() {
            let charge = if self.has_ended { self.owed } else { self.tokens };
            let read = self.sent.saturating_add(self.received / BYTES_PER_TOKEN);
            let estimate = charge.max(read);
            let more = estimate.saturating_sub(self.counted.sum());
            counts.usage.estimated = counts.usage.estimated.saturating_add(more);
            tracing::info!("a response without usage costs {estimate} tokens of the limit");
        }
        drop(counts);
        self.meter.settled.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(requests: Option<u64>, tokens: Option<u64>) -> Arc<Meter> {
        Arc::new(Meter::new(UsageLimits { requests, tokens }))
    }

    async fn reserve(meter: &Arc<Meter>, sent: u64, stated: u64) -> Result<Reservation, Refusal> {
        let reserving = meter.reserve(Demand { sent, stated: Some(stated) });
        let waits = Refusal::Upstream("waits".to_owned());
        tokio::select! { biased; result = reserving => result, () = std::future::ready(()) => Err(waits) }
    }

    fn cost(mut reservation: Reservation, input: u64, output: u64) {
        reservation.counted = Tokens { input, output };
        reservation.settle();
    }

    #[tokio::test]
    async fn limits_are_exact() {
        let two = meter(Some(2), None);
        let admitted = (0..4).filter(|_| two.admit().is_ok()).count();
        assert_eq!((admitted, two.usage().requests), (2, 2));
        assert!(reserve(&two, 0, 0).await.is_err());
        let ten = meter(None, Some(10));
        cost(reserve(&ten, 0, 0).await.unwrap(), 9, 1);
        let refused = reserve(&ten, 0, 0).await.unwrap_err().to_string();
        assert!(refused.contains("10 tokens") && refused.contains("--max-tokens"), "{refused}");
        assert!(ten.admit().is_err());
    }

    #[tokio::test]
    async fn reservations_of_parallel_requests_are_within_the_limit() {
        let all = meter(None, Some(1600));
        let mut held = Vec::new();
        while let Ok(reservation) = reserve(&all, 0, 0).await {
            held.push(reservation);
        }
        assert_eq!(held.len(), 16, "the smallest part");
        held.drain(..15).for_each(|reservation| cost(reservation, 10, 0));
        // 1,450 are left, of which 100 are reserved.
        assert!(reserve(&all, 0, 1351).await.is_err(), "it waits");
        assert!(matches!(reserve(&all, 0, 1451).await, Err(Refusal::Room { left: 1450, .. })));
        held.push(reserve(&all, 100, 1250).await.unwrap());
        assert!(reserve(&all, 0, 0).await.is_err(), "it waits");
        cost(held.remove(1), 0, 400);
        // The largest so far is 400.
        let next = [(); 4].map(|()| reserve(&all, 0, 0));
        let mut admitted = 0;
        for reserving in next {
            if let Ok(reservation) = reserving.await {
                admitted += 1;
                held.push(reservation);
            }
        }
        assert_eq!(admitted, 2);
        assert_eq!(all.lock().reserved, 900);
    }

    #[tokio::test]
    async fn a_waiting_request_follows_a_settled_one() {
        let meter = meter(None, Some(100));
        let first = reserve(&meter, 0, 60).await.unwrap();
        let other = Arc::clone(&meter);
        let waiting =
            tokio::spawn(async move { other.reserve(Demand { sent: 0, stated: Some(60) }).await });
        tokio::task::yield_now().await;
        cost(first, 10, 10);
        drop(waiting.await.unwrap().unwrap());
        assert_eq!((meter.usage().tokens.sum(), meter.usage().estimated), (20, 60));
    }

    #[tokio::test]
    async fn a_response_without_usage_costs_its_reservation_or_what_was_read() {
        let meter = meter(None, Some(1_000_000));
        let mut ended = reserve(&meter, 0, 70_000).await.unwrap();
        ended.end();
        drop(ended);
        assert_eq!(meter.usage().estimated, 70_000);
        let mut small = reserve(&meter, 500, 0).await.unwrap();
        small.end();
        drop(small);
        assert_eq!(meter.usage().estimated, 70_500, "such as an embedding");
        let mut long = reserve(&meter, 400, 100_000).await.unwrap();
        long.add_received(800_000);
        long.counted.input = 100;
        drop(long);
        assert_eq!(meter.usage().estimated, 70_500 + 200_300);
        let huge = reserve(&meter, 0, 0).await.unwrap();
        cost(huge, u64::MAX, u64::MAX);
        assert!(meter.admit().is_err());
        let free = self::meter(None, None);
        drop(reserve(&free, 400, u64::MAX).await.unwrap());
        assert_eq!(free.usage().estimated, 0);
    }
}
