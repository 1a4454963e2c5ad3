//! Which requests are under way, and which comes next.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::limits;
use crate::name::Stem;

/// Requests that were seen, each once however often it is announced.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Stem>,
    known: HashSet<Stem>,
    /// Those that run, and whether another with the same stem was seen meanwhile.
    running: HashMap<Stem, Again>,
    /// More was seen than is remembered.
    missed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    No,
    Yes,
}

impl Queue {
    /// A request is there.
    pub fn offer(&mut self, stem: Stem) {
        if let Some(again) = self.running.get_mut(&stem) {
            *again = Again::Yes;
        } else if self.waiting.len() >= limits::WAITING {
            self.missed = true;
        } else if self.known.insert(stem.clone()) {
            self.waiting.push_back(stem);
        }
    }

    /// The next one that may run, unless as many do as may.
    pub fn next_to_run(&mut self) -> Option<Stem> {
        if self.running.len() >= limits::RUNNING {
            return None;
        }
        let stem = self.waiting.pop_front()?;
        self.known.remove(&stem);
        self.running.insert(stem.clone(), Again::No);
        Some(stem)
    }

    /// The next one that is not to run any more, however many do.
    pub fn next_to_refuse(&mut self) -> Option<Stem> {
        let stem = self.waiting.pop_front()?;
        self.known.remove(&stem);
        Some(stem)
    }

    /// One that was handed out is over. Another of the same stem waits from now on.
    pub fn ended(&mut self, stem: &Stem) {
        if self.running.remove(stem) == Some(Again::Yes) {
            self.offer(stem.clone());
        }
    }

    /// Whether the directory has to be read for requests that are not remembered. Answers yes once.
    pub fn takes_a_look(&mut self) -> bool {
        self.waiting.is_empty() && std::mem::take(&mut self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stem(name: &str) -> Stem {
        Stem::of_file(format!("{name}.req").as_bytes()).unwrap().0
    }

    #[test]
    fn each_is_handed_out_once() {
        let mut queue = Queue::default();
        for name in ["a", "b", "a"] {
            queue.offer(stem(name));
        }
        assert_eq!(queue.next_to_run(), Some(stem("a")));
        queue.offer(stem("a"));
        assert_eq!(queue.next_to_run(), Some(stem("b")));
        assert_eq!(queue.next_to_run(), None, "the first a still runs");
        queue.ended(&stem("a"));
        assert_eq!(queue.next_to_run(), Some(stem("a")), "another a came meanwhile");
        queue.ended(&stem("a"));
        assert_eq!(queue.next_to_run(), None);
        for name in ["b", "c"] {
            queue.offer(stem(name));
        }
        assert_eq!(queue.next_to_refuse(), Some(stem("c")), "b still runs");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut queue = Queue::default();
        for number in 0..limits::WAITING + 5 {
            queue.offer(stem(&number.to_string()));
        }
        assert!(!queue.takes_a_look(), "there is enough to do");
        for _ in 0..limits::RUNNING {
            assert!(queue.next_to_run().is_some());
        }
        assert_eq!(queue.next_to_run(), None, "as many run as may");
        for number in 0..limits::WAITING {
            queue.ended(&stem(&number.to_string()));
            queue.next_to_run();
        }
        assert!(queue.takes_a_look());
        assert!(!queue.takes_a_look());
    }
}
