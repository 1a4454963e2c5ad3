//! What the agent asks of us and waits for.

use std::time::Instant;

use serde_json::Value;

use crate::message::Id;

/// Requests of the agent, each of which is taken out once, to be answered.
#[derive(Debug, Default)]
pub(super) struct AskedTable {
    /// Few, in the order they came.
    waiting: Vec<Asked>,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: Id,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// A permission.
    Permission {
        session: String,
        /// The ids of its options.
        options: Vec<Value>,
        deadline: Option<Instant>,
    },
    /// Something that is served.
    Host,
}

impl AskedTable {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn contains(&self, id: &Id) -> bool {
        self.waiting.iter().any(|asked| asked.id == *id)
    }

    pub(super) fn push(&mut self, id: Id, what: What) {
        self.waiting.push(Asked { id, what });
    }

    /// Takes one out; whoever has it has to answer it.
    pub(super) fn take(&mut self, id: &Id) -> Option<Asked> {
        let at = self.waiting.iter().position(|asked| asked.id == *id)?;
        Some(self.waiting.remove(at))
    }

    /// The options of a permission that waits.
    pub(super) fn permission(&self, id: &Id) -> Option<&[Value]> {
        self.waiting.iter().find_map(|asked| match &asked.what {
            What::Permission { options, .. } if asked.id == *id => Some(options.as_slice()),
            _ => None,
        })
    }

    pub(super) fn is_host(&self, id: &Id) -> bool {
        self.waiting.iter().any(|asked| asked.id == *id && matches!(asked.what, What::Host))
    }

    /// Takes out the oldest permission of a session.
    pub(super) fn take_permission_of(&mut self, of: &str) -> Option<Asked> {
        let is_it = |asked: &Asked| match &asked.what {
            What::Permission { session, .. } => session == of,
            What::Host => false,
        };
        let at = self.waiting.iter().position(is_it)?;
        Some(self.waiting.remove(at))
    }

    /// A permission whose deadline has come, and its session.
    pub(super) fn expired(&self, now: Instant) -> Option<(Id, String)> {
        self.waiting.iter().find_map(|asked| match &asked.what {
            What::Permission { session, deadline: Some(deadline), .. } if *deadline <= now => {
                Some((asked.id.clone(), session.clone()))
            }
            _ => None,
        })
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = self.waiting.iter().filter_map(|asked| match asked.what {
            What::Permission { deadline, .. } => deadline,
            What::Host => None,
        });
        deadlines.min()
    }

    /// Takes out the oldest.
    pub(super) fn pop(&mut self) -> Option<Asked> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }
}
