//! Queue of requests.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::mailbox::files::limits;
use crate::mailbox::files::name::RequestId;

/// Requests that wait or run, each listed once however often it is announced.
#[derive(Debug, Default)]
pub(crate) struct RequestQueue {
    waiting: VecDeque<RequestId>,
    known: HashSet<RequestId>,
    /// Running requests, and whether the same id was announced again meanwhile.
    running: HashMap<RequestId, Requeue>,
    /// True if a request was dropped because the queue was full.
    missed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requeue {
    No,
    Yes,
}

impl RequestQueue {
    /// Adds a request.
    pub(crate) fn offer(&mut self, id: RequestId) {
        if let Some(requeue) = self.running.get_mut(&id) {
            *requeue = Requeue::Yes;
        } else if self.waiting.len() >= limits::WAITING {
            self.missed = true;
        } else if self.known.insert(id.clone()) {
            self.waiting.push_back(id);
        }
    }

    /// Returns the next request to run, unless the limit of running ones is reached.
    pub(crate) fn next_to_run(&mut self) -> Option<RequestId> {
        if self.running.len() >= limits::RUNNING {
            return None;
        }
        let id = self.waiting.pop_front()?;
        self.known.remove(&id);
        self.running.insert(id.clone(), Requeue::No);
        Some(id)
    }

    /// Returns the next request to refuse, whatever the number of running ones.
    pub(crate) fn next_to_refuse(&mut self) -> Option<RequestId> {
        let id = self.waiting.pop_front()?;
        self.known.remove(&id);
        Some(id)
    }

    /// Ends a running request. Queues it again if its id was announced meanwhile.
    pub(crate) fn ended(&mut self, id: &RequestId) {
        if self.running.remove(id) == Some(Requeue::Yes) {
            self.offer(id.clone());
        }
    }

    /// Returns whether to read the directory for dropped requests. Resets the flag.
    pub(crate) fn needs_rescan(&mut self) -> bool {
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
    fn each_request_is_returned_once() {
        let mut queue = RequestQueue::default();
        for name in ["a", "b", "a"] {
            queue.offer(id(name));
        }
        assert_eq!(queue.next_to_run(), Some(id("a")));
        queue.offer(id("a"));
        assert_eq!(queue.next_to_run(), Some(id("b")));
        assert_eq!(queue.next_to_run(), None, "a is running");
        queue.ended(&id("a"));
        assert_eq!(queue.next_to_run(), Some(id("a")), "a was announced again");
        queue.ended(&id("a"));
        assert_eq!(queue.next_to_run(), None);
        for name in ["b", "c"] {
            queue.offer(id(name));
        }
        assert_eq!(queue.next_to_refuse(), Some(id("c")), "b is running");
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut queue = RequestQueue::default();
        for number in 0..limits::WAITING + 5 {
            queue.offer(id(&number.to_string()));
        }
        assert!(!queue.needs_rescan(), "requests are queued");
        for _ in 0..limits::RUNNING {
            assert!(queue.next_to_run().is_some());
        }
        assert_eq!(queue.next_to_run(), None, "the limit is reached");
        for number in 0..limits::WAITING {
            queue.ended(&id(&number.to_string()));
            queue.next_to_run();
        }
        assert!(queue.needs_rescan());
        assert!(!queue.needs_rescan());
    }
}
