//! The state that a page shows: HTML by key (`spec/web.md#pages`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value;

/// A number of a change. All pages of a server share one counter.
pub(crate) type Seq = u64;

/// A change of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageChange {
    pub(crate) seq: Seq,
    pub(crate) key: Arc<str>,
    /// The new HTML as a JSON string, which is made once for all readers; `None` removes the key.
    pub(crate) html: Option<Arc<str>>,
}

/// The changes after a sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageChanges {
    /// The latest change of each changed key, in order.
    Since(Vec<PageChange>),
    /// Every key, in the order of its latest change: too many removals are forgotten, or the number
    /// is unknown.
    Snapshot(Vec<PageChange>),
}

/// HTML by key, each with the number of its latest change.
///
/// A reader at number N needs the keys that have changed since N, each once and as it is now, and
/// the removals since N. So the state itself is the buffer for readers that fall behind.
#[derive(Debug)]
pub(crate) struct PageState {
    keys: HashMap<Arc<str>, Seq>,
    by_seq: BTreeMap<Seq, (Arc<str>, Option<Arc<str>>)>,
    /// Removed keys that are remembered, the oldest first.
    removals: VecDeque<Seq>,
    /// A reader before this number gets a snapshot.
    oldest: Seq,
    most_removals: usize,
}

/// Removals that are remembered, unless a page has another limit.
const REMOVALS: usize = 4096;

impl PageChange {
    /// Writes the change as a server-sent event. JSON has no line ends, so no text can end the
    /// event or begin another.
    pub(crate) fn write(&self, out: &mut String) {
        let (seq, key) = (self.seq, &self.key);
        let html = self.html.as_deref().unwrap_or("null");
        // Writing to a string cannot fail.
        _ = write!(out, "id: {seq}\ndata: {{\"seq\":{seq},\"key\":\"{key}\",\"html\":{html}}}\n\n");
    }
}

impl PageState {
    /// Creates an empty page; readers from before `now` get a snapshot.
    pub(crate) fn new(now: Seq) -> Self {
        PageState {
            keys: HashMap::new(),
            by_seq: BTreeMap::new(),
            removals: VecDeque::new(),
            oldest: now,
            most_removals: REMOVALS,
        }
    }

    /// Sets how many removals are remembered.
    pub(crate) fn limit_removals(&mut self, most: usize) {
        self.most_removals = most;
    }

    /// Sets the HTML of a key, unless it is the same.
    pub(crate) fn put(&mut self, seq: &mut Seq, key: &str, html: String) {
        let html = Value::String(html).to_string();
        let last = self.keys.get(key).copied();
        if let Some((_, Some(old))) = last.and_then(|last| self.by_seq.get(&last))
            && **old == *html
        {
            return;
        }
        self.change(seq, key, Some(html.into()), last);
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, seq: &mut Seq, key: &str) {
        let last = self.keys.get(key).copied();
        if !self.has(key) {
            return;
        }
        self.change(seq, key, None, last);
        self.removals.push_back(*seq);
        if self.removals.len() > self.most_removals
            && let Some(forgotten) = self.removals.pop_front()
        {
            if let Some((key, None)) = self.by_seq.get(&forgotten) {
                self.keys.remove(key);
                self.by_seq.remove(&forgotten);
            }
            self.oldest = self.oldest.max(forgotten);
        }
    }

    /// Returns whether a key has HTML.
    pub(crate) fn has(&self, key: &str) -> bool {
        let seq = self.keys.get(key);
        seq.and_then(|seq| self.by_seq.get(seq)).is_some_and(|(_, html)| html.is_some())
    }

    /// Returns the keys with HTML.
    pub(crate) fn keys(&self) -> Vec<Arc<str>> {
        let shown = self.by_seq.values().filter(|(_, html)| html.is_some());
        shown.map(|(key, _)| Arc::clone(key)).collect()
    }

    /// Returns the changes after a number; `None` asks for all.
    pub(crate) fn changes(&self, after: Option<Seq>, now: Seq) -> PageChanges {
        let change = |(seq, (key, html)): (&Seq, &(Arc<str>, Option<Arc<str>>))| PageChange {
            seq: *seq,
            key: Arc::clone(key),
            html: html.clone(),
        };
        match after {
            Some(after) if after >= self.oldest && after <= now => {
                let after = after.saturating_add(1);
                PageChanges::Since(self.by_seq.range(after..).map(change).collect())
            }
            _ => {
                let all = self.by_seq.iter().filter(|(_, (_, html))| html.is_some());
                PageChanges::Snapshot(all.map(change).collect())
            }
        }
    }

    fn change(&mut self, seq: &mut Seq, key: &str, html: Option<Arc<str>>, last: Option<Seq>) {
        *seq = seq.saturating_add(1);
        let key = match last.and_then(|last| self.by_seq.remove(&last)) {
            Some((key, _)) => key,
            None => key.into(),
        };
        self.keys.insert(Arc::clone(&key), *seq);
        self.by_seq.insert(*seq, (key, html));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A browser: applies changes as `page.js` does.
    #[derive(Default)]
    struct Reader {
        shown: BTreeMap<String, String>,
        at: Option<Seq>,
    }

    impl Reader {
        fn read(&mut self, page: &PageState, now: Seq, most: usize) {
            let changes = match page.changes(self.at, now) {
                PageChanges::Since(changes) => changes,
                PageChanges::Snapshot(changes) => {
                    self.shown.clear();
                    self.at = None;
                    changes
                }
            };
            for change in changes.into_iter().take(most) {
                match change.html {
                    Some(html) => _ = self.shown.insert(change.key.to_string(), html.to_string()),
                    None => _ = self.shown.remove(&*change.key),
                }
                self.at = Some(change.seq);
            }
        }
    }

    fn shown(page: &PageState) -> BTreeMap<String, String> {
        let all = page
            .by_seq
            .values()
            .filter_map(|(key, html)| Some((key.to_string(), html.as_ref()?.to_string())));
        all.collect()
    }

    #[test]
    fn a_reader_gets_each_changed_key_once_as_it_is_now() {
        let (mut page, mut seq) = (PageState::new(0), 0);
        page.put(&mut seq, "a", "1".to_owned());
        page.put(&mut seq, "b", "1".to_owned());
        page.put(&mut seq, "a", "2".to_owned());
        page.put(&mut seq, "a", "2".to_owned());
        assert_eq!(seq, 3, "the same HTML is no change");
        page.remove(&mut seq, "b");
        page.remove(&mut seq, "b");
        let PageChanges::Since(changes) = page.changes(Some(1), seq) else { panic!() };
        let changes: Vec<_> = changes
            .iter()
            .map(|change| (change.seq, &*change.key, change.html.as_deref()))
            .collect();
        assert_eq!(changes, [(3, "a", Some("\"2\"")), (4, "b", None)]);
        let PageChanges::Snapshot(all) = page.changes(None, seq) else { panic!() };
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn no_text_ends_an_event() {
        let (mut page, mut seq) = (PageState::new(0), 0);
        page.put(&mut seq, "a", "x\r\ny\n\nid: 7\nevent: reset\u{2028}".to_owned());
        let PageChanges::Since(changes) = page.changes(Some(0), seq) else { panic!() };
        let mut out = String::new();
        changes[0].write(&mut out);
        assert_eq!(out.matches('\n').count(), 3, "{out}");
        assert!(!out.contains('\r'), "{out}");
    }

    #[test]
    fn an_unknown_number_gives_a_snapshot() {
        let page = PageState::new(100);
        let is_snapshot = |after| matches!(page.changes(after, 200), PageChanges::Snapshot(_));
        for (after, expected) in
            [(None, true), (Some(0), true), (Some(99), true), (Some(100), false), (Some(201), true)]
        {
            assert_eq!(is_snapshot(after), expected, "{after:?}");
        }
    }

    #[test]
    fn memory_of_removals_is_bounded() {
        let (mut page, mut seq) = (PageState::new(0), 0);
        for number in 0..3 * REMOVALS {
            let key = number.to_string();
            page.put(&mut seq, &key, String::new());
            page.remove(&mut seq, &key);
        }
        assert!(page.by_seq.len() <= REMOVALS && page.keys.len() <= REMOVALS);
        assert!(matches!(page.changes(Some(2), seq), PageChanges::Snapshot(_)), "no hole");
    }

    proptest! {
        #[test]
        fn any_cuts_end_in_the_same_page(
            steps in prop::collection::vec((0..4u8, 0..12u8, any::<u8>()), 0..300),
        ) {
            let (mut page, mut seq) = (PageState::new(0), 0);
            let mut readers: Vec<Reader> = (0..2).map(|_| Reader::default()).collect();
            for (what, key, value) in steps {
                let key = key.to_string();
                match what {
                    0 => page.remove(&mut seq, &key),
                    1 => readers[usize::from(value % 2)].read(&page, seq, usize::from(value / 8)),
                    _ => page.put(&mut seq, &key, value.to_string()),
                }
            }
            for reader in &mut readers {
                reader.read(&page, seq, usize::MAX);
                prop_assert_eq!(&reader.shown, &shown(&page));
            }
        }
    }
}
