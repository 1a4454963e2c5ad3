//! The three-way merge of one path: pure.

use crate::entry::Entry;

/// The action for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Merge {
    /// The pod has not changed it, or both sides have the same.
    Nothing,
    /// Only the pod has changed it: its version, or its deletion, is applied.
    Apply,
    /// Both sides have changed it. The workspace version stays.
    Conflict(ConflictKind),
}

/// A change on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both have another content.
    BothChanged,
    /// The pod has deleted it.
    DeletedInPod,
    /// The user has deleted it, or something else is in its place.
    GoneHere,
}

/// The workspace version of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here<'a> {
    /// Nothing is there.
    Missing,
    /// A file or link.
    Entry(&'a Entry),
    /// A directory, a special file, a file that cannot be read, or a path behind a link or file.
    Other,
}

/// Decides by the version that both sides had at last, the workspace's and the pod's; `None`: missing.
pub fn merge(base: Option<&Entry>, here: Here<'_>, pod: Option<&Entry>) -> Merge {
    if base == pod {
        return Merge::Nothing;
    }
    match (here, pod) {
        (Here::Missing, None) => Merge::Nothing,
        (Here::Entry(here), Some(pod)) if here == pod => Merge::Nothing,
        (Here::Missing, Some(_)) if base.is_none() => Merge::Apply,
        (Here::Entry(here), _) if Some(here) == base => Merge::Apply,
        (_, None) => Merge::Conflict(ConflictKind::DeletedInPod),
        (Here::Entry(_), Some(_)) => Merge::Conflict(ConflictKind::BothChanged),
        (Here::Missing | Here::Other, Some(_)) => Merge::Conflict(ConflictKind::GoneHere),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unchanged_file_is_replaced() {
        let entry = |byte| Entry::file([byte; 32], false);
        let (a, b, c) = (&entry(1), &entry(2), &entry(3));
        let executable = &Entry::file([1; 32], true);
        let (nothing, apply) = (Merge::Nothing, Merge::Apply);
        let both = Merge::Conflict(ConflictKind::BothChanged);
        let deleted = Merge::Conflict(ConflictKind::DeletedInPod);
        let gone = Merge::Conflict(ConflictKind::GoneHere);
        let is = Here::Entry;
        for (base, here, pod, expected) in [
            (Some(a), is(a), Some(a), nothing),
            (Some(a), is(b), Some(a), nothing),
            (Some(a), Here::Missing, Some(a), nothing),
            (Some(a), is(a), Some(b), apply),
            (Some(a), is(a), Some(executable), apply),
            (Some(a), is(a), None, apply),
            (Some(a), is(b), Some(b), nothing),
            (Some(a), is(c), Some(b), both),
            (Some(a), is(b), None, deleted),
            (Some(a), Here::Missing, None, nothing),
            (Some(a), Here::Missing, Some(b), gone),
            (Some(a), Here::Other, Some(b), gone),
            (Some(a), Here::Other, None, deleted),
            (None, Here::Missing, Some(a), apply),
            (None, is(a), Some(a), nothing),
            (None, is(b), Some(a), both),
            (None, Here::Other, Some(a), gone),
            (None, is(b), None, nothing),
        ] {
            assert_eq!(merge(base, here, pod), expected, "{base:?} {here:?} {pod:?}");
        }
    }
}
