//! Counts of a turn's updates.

use std::collections::BTreeMap;

/// Counts of updates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All updates.
    pub updates: u64,
    /// Updates dropped for lack of space.
    pub dropped: u64,
    /// Counts by the protocol's kind; kinds above [`Limits::turn_kinds`](crate::Limits::turn_kinds)
    /// count as `(other)`.
    pub kinds: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts an update; at most `kinds` names get a count of their own.
    pub(crate) fn count(&mut self, kind: &str, kinds: usize) {
        self.updates = self.updates.saturating_add(1);
        let is_known = self.kinds.contains_key(kind) || self.kinds.len() < kinds;
        // A name may be as long as a line.
        let name = if is_known && kind.len() <= LONGEST_KIND { kind } else { "(other)" };
        match self.kinds.get_mut(name) {
            Some(count) => *count = count.saturating_add(1),
            None => _ = self.kinds.insert(name.to_owned(), 1),
        }
    }
}

/// The longest kind with a count of its own, in bytes.
const LONGEST_KIND: usize = 64;
