//! What came during a turn, by numbers.

use std::collections::BTreeMap;

/// Updates, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that came.
    pub updates: u64,
    /// Those of which something found no room.
    pub dropped: u64,
    /// By the protocol's names of their kinds; those above [`Limits::turn_kinds`](crate::Limits::turn_kinds) as `(other)`.
    pub kinds: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts an update; at most `kinds` names are counted apart.
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

/// Names of kinds that are longer than this are not counted apart, in bytes.
const LONGEST_KIND: usize = 64;
