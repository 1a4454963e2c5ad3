//! What a peer asks for and waits for.

use crate::message::Id;

/// Requests of a peer by their ids as they came, each of which is taken out once, to be answered.
#[derive(Debug)]
pub(crate) struct Unanswered<W> {
    /// Few, in the order they came.
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

    /// Takes one out; whoever has it has to answer it.
    pub(crate) fn take(&mut self, id: &Id) -> Option<W> {
        let at = self.requests.iter().position(|(waiting, _)| waiting == id)?;
        Some(self.requests.remove(at).1)
    }

    /// Takes out the oldest of a sort.
    pub(crate) fn take_first(&mut self, is_it: impl Fn(&W) -> bool) -> Option<(Id, W)> {
        let at = self.requests.iter().position(|(_, what)| is_it(what))?;
        Some(self.requests.remove(at))
    }
}
