//! Sent requests that wait for a response.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::message::Id;

/// Pending requests by id. Each completes exactly once: by its response, its deadline, or the end
/// of the stream (`spec/acp.md#requests`).
#[derive(Debug)]
pub struct Pending<T> {
    /// The last id; ids are 1, 2, ..
    last: u64,
    entries: BTreeMap<u64, PendingRequest<T>>,
}

#[derive(Debug)]
struct PendingRequest<T> {
    request: T,
    deadline: Option<Instant>,
}

/// The request that a response completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion<T> {
    /// This one.
    Known(u64, T),
    /// One that was completed before.
    Duplicate,
    /// One that was never sent.
    Unknown,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Pending { last: 0, entries: BTreeMap::new() }
    }
}

impl<T> Pending<T> {
    /// Adds a request and returns its id.
    pub fn enter(&mut self, request: T, deadline: Option<Instant>) -> u64 {
        self.last = self.last.saturating_add(1);
        self.entries.insert(self.last, PendingRequest { request, deadline });
        self.last
    }

    /// Removes the request of a response.
    pub fn complete(&mut self, id: &Id) -> Completion<T> {
        let Some(id) = id.as_u64() else { return Completion::Unknown };
        match self.entries.remove(&id) {
            Some(entry) => Completion::Known(id, entry.request),
            None if (1..=self.last).contains(&id) => Completion::Duplicate,
            None => Completion::Unknown,
        }
    }

    /// Removes one request whose deadline has passed.
    pub fn expire(&mut self, now: Instant) -> Option<(u64, T)> {
        let is_due =
            |entry: &PendingRequest<T>| entry.deadline.is_some_and(|deadline| deadline <= now);
        let (id, _) = self.entries.iter().find(|(_, entry)| is_due(entry))?;
        let id = *id;
        self.entries.remove(&id).map(|entry| (id, entry.request))
    }

    /// Removes the oldest request.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.entries.pop_first().map(|(id, entry)| (id, entry.request))
    }

    /// Returns the earliest deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.entries.values().filter_map(|entry| entry.deadline).min()
    }

    /// Returns all pending requests, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().map(|(id, entry)| (*id, &entry.request))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_request_is_completed_once() {
        let mut pending = Pending::default();
        assert_eq!(pending.complete(&Id::from(1)), Completion::Unknown, "none was sent");
        let (first, second) = (pending.enter("a", None), pending.enter("b", None));
        assert_eq!((first, second), (1, 2));
        assert_eq!(pending.complete(&Id::Text("2".into())), Completion::Known(2, "b"));
        assert_eq!(pending.complete(&Id::from(2)), Completion::Duplicate);
        assert_eq!(pending.complete(&Id::from(1)), Completion::Known(1, "a"));
        for stranger in [Id::from(0), Id::from(3), Id::from(u64::MAX), Id::Text("x".into())] {
            assert_eq!(pending.complete(&stranger), Completion::Unknown, "{stranger:?}");
        }
    }

    #[test]
    fn a_response_after_the_deadline_is_a_duplicate() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pending = Pending::default();
        let [slow, never, quick] =
            [Some(at(9)), None, Some(at(3))].map(|deadline| pending.enter((), deadline));
        assert_eq!(pending.poll_timeout(), Some(at(3)));
        assert_eq!(pending.expire(at(2)), None);
        assert_eq!(pending.expire(at(3)), Some((quick, ())));
        assert_eq!(pending.expire(at(3)), None);
        assert_eq!(pending.complete(&Id::from(quick)), Completion::Duplicate);
        assert_eq!(pending.poll_timeout(), Some(at(9)));
        assert_eq!(pending.iter().map(|(id, ())| id).collect::<Vec<_>>(), [slow, never]);
        assert_eq!(
            [pending.pop(), pending.pop(), pending.pop()],
            [Some((slow, ())), Some((never, ())), None]
        );
        assert_eq!(pending.poll_timeout(), None);
    }
}
