//! A peer's requests that wait for an answer.

use crate::message::Id;

/// Unanswered requests by id. Removing one obliges the caller to answer it.
#[derive(Debug)]
pub(crate) struct Unanswered<W> {
    /// Few, in the order of arrival.
    requests: Vec<(Id, W)>,
}

impl<W> Default for Unanswered<W> {
    fn default() -> Self {
        Unanswered { requests: Vec::new() }
    }
}

impl<W> Unanswered<W> {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn contains(&self, id: &Id) -> bool {
        self.get(id).is_some()
    }

    pub(crate) fn get(&self, id: &Id) -> Option<&W> {
        self.iter().find_map(|(waiting, what)| (waiting == id).then_some(what))
    }

    pub(crate) fn get_mut(&mut self, id: &Id) -> Option<&mut W> {
        self.requests.iter_mut().find_map(|(waiting, what)| (waiting == id).then_some(what))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Id, &W)> {
        self.requests.iter().map(|(id, what)| (id, what))
    }

    pub(crate) fn push(&mut self, id: Id, what: W) {
        self.requests.push((id, what));
    }

    /// Removes a request; the caller must answer it.
    pub(crate) fn take(&mut self, id: &Id) -> Option<W> {
        let at = self.requests.iter().position(|(waiting, _)| waiting == id)?;
        Some(self.requests.remove(at).1)
    }

    /// Removes the oldest request that matches.
    pub(crate) fn take_first(&mut self, is_it: impl Fn(&W) -> bool) -> Option<(Id, W)> {
        let at = self.requests.iter().position(|(_, what)| is_it(what))?;
        Some(self.requests.remove(at))
    }
}
