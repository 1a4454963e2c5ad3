//! Which requests are under way, and which comes next.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::limits;
use crate::name::RequestId;

/// Requests that were seen, each once however often it is announced.
#[derive(Debug, Default)]
pub struct RequestQueue {
    waiting: VecDeque<RequestId>,
    known: HashSet<RequestId>,
    /// Those that run, and whether another with the same id was seen meanwhile.
    running: HashMap<RequestId, Requeue>,
    /// More was seen than is remembered.
    missed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requeue {
    No,
    Yes,
}

impl RequestQueue {
    /// A request is there.
    pub fn offer(&mut self, id: RequestId) {
        if let Some(requeue) = self.running.get_mut(&id) {
            *requeue = Requeue::Yes;
        } else if self.waiting.len() >= limits::WAITING {
            self.missed = true;
        } else if self.known.insert(id.clone()) {
            self.waiting.push_back(id);
        }
    }

    /// The next one that may run, unless as many do as may.
    pub fn next_to_run(&mut self) -> Option<RequestId> {
        if self.running.len() >= limits::RUNNING {
            return None;
        }
        let id = self.waiting.pop_front()?;
        self.known.remove(&id);
        self.running.insert(id.clone(), Requeue::No);
        Some(id)
    }

    /// The next one that is not to run any more, however many do.
    pub fn next_to_refuse(&mut self) -> Option<RequestId> {
        let id = self.waiting.pop_front()?;
        self.known.remove(&id);
        Some(id)
    }

    /// One that was handed out is over. Another of the same id waits from now on.
    pub fn ended(&mut self, id: &RequestId) {
        if self.running.remove(id) == Some(Requeue::Yes) {
            self.offer(id.clone());
        }
    }

    /// Whether the directory has to be read for requests that are not remembered. Answers yes once.
    pub fn needs_rescan(&mut self) -> bool {
        self.waiting.is_empty() && std::mem::take(&mut self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> RequestId {
        RequestId::of_file(format!("{name}.req").as_bytes()).unwrap().0
    }

    #[test]
    fn each_is_handed_out_once() {
        let mut queue = RequestQueue::default();
        for name in ["a", "b", "a"] {
            queue.offer(id(name));
        }
        assert_eq!(queue.next_to_run(), Some(id("a")));
        queue.offer(id("a"));
        assert_eq!(queue.next_to_run(), Some(id("b")));
        assert_eq!(queue.next_to_run(), None, "the first a still runs");
        queue.ended(&id("a"));
        assert_eq!(queue.next_to_run(), Some(id("a")), "another a came meanwhile");
        queue.ended(&id("a"));
        assert_eq!(queue.next_to_run(), None);
        for name in ["b", "c"] {
            queue.offer(id(name));
        }
        assert_eq!(queue.next_to_refuse(), Some(id("c")), "b still runs");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut queue = RequestQueue::default();
        for number in 0..limits::WAITING + 5 {
            queue.offer(id(&number.to_string()));
        }
        assert!(!queue.needs_rescan(), "there is enough to do");
        for _ in 0..limits::RUNNING {
            assert!(queue.next_to_run().is_some());
        }
        assert_eq!(queue.next_to_run(), None, "as many run as may");
        for number in 0..limits::WAITING {
            queue.ended(&id(&number.to_string()));
            queue.next_to_run();
        }
        assert!(queue.needs_rescan());
        assert!(!queue.needs_rescan());
    }
}
