//! Plans an undo: pure.

use std::collections::BTreeMap;

use crate::path::{Path, parent};
use crate::scope::{REPOSITORY, Uncovered, in_repository};
use crate::version::{BlobId, Objects, Version};

/// The steps of an undo, and the paths that it leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) kept: Vec<(Path, Kept)>,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) path: Path,
    /// The object now. If it is another one by then, the step is left out.
    pub(crate) now: Option<Version>,
    pub(crate) to: Target,
}

/// The result for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// As it was before the call.
    Version(Option<Version>),
    /// The changes since the call, on the content before it.
    Merge { base: BlobId, before: BlobId, mode: u16 },
}

/// Why a path is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It was changed again later.
    Newer,
    /// A directory in which something stays.
    NotEmpty,
    /// It was created while no call ran.
    NotByCall,
    /// Something that was not covered under another name may be there.
    MayBeMoved,
    /// It is, or lies in, an object that was not covered.
    Uncovered(Uncovered),
    /// Later changes are in the same lines: the file with both stands beside it.
    Conflict,
    /// It has changed while the undo ran, or could not be written.
    Failed,
}

impl Kept {
    /// Returns it for a user.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Kept::Newer => "it was changed again later",
            Kept::NotEmpty => "it is not empty",
            Kept::MayBeMoved => "it may be what was moved from a name that is not covered",
            Kept::NotByCall => "no call created it",
            Kept::Uncovered(why) => why.reason(),
            Kept::Conflict => "later changes are in the same lines",
            Kept::Failed => "it could not be changed",
        }
    }
}

/// One undo: the trees before and after what is undone, and now.
pub(crate) struct Trees<'a> {
    pub(crate) before: &'a Objects,
    pub(crate) after: &'a Objects,
    pub(crate) now: &'a Objects,
}

impl Trees<'_> {
    /// Plans the undo of the paths that `selects` accepts. `by_call` tells whether a call has created a path.
    pub(crate) fn plan(
        &self,
        selects: impl Fn(&[u8]) -> bool,
        by_call: impl Fn(&[u8]) -> bool,
    ) -> Plan {
        let mut plan = Plan::default();
        let may_be_moved = self.has_lost_uncovered();
        let mut changed: BTreeMap<&Path, ()> = BTreeMap::new();
        for (path, version) in self.before {
            if self.after.get(path) != Some(version) {
                changed.insert(path, ());
            }
        }
        changed.extend(
            self.after
                .keys()
                .filter(|path| !self.before.contains_key(*path))
                .map(|path| (path, ())),
        );
        for path in changed.into_keys() {
            // References and index are put back as a whole.
            if !selects(path) || in_repository(path).is_some() {
                continue;
            }
            let [before, after, now] =
                [self.before, self.after, self.now].map(|tree| tree.get(path).copied());
            match self.step(path, (before, after, now), &by_call) {
                Ok(Some(Target::Version(None))) if may_be_moved => {
                    plan.kept.push((path.clone(), Kept::MayBeMoved));
                }
                Ok(None) => {}
                Ok(Some(to)) => plan.steps.push(Step { path: path.clone(), now, to }),
                Err(why) => plan.kept.push((path.clone(), why)),
            }
        }
        plan
    }

    fn step(
        &self,
        path: &[u8],
        (before, after, now): (Option<Version>, Option<Version>, Option<Version>),
        by_call: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Target>, Kept> {
        if now == before {
            return Ok(None);
        }
        if let Some(why) = self.uncovered(path) {
            return Err(Kept::Uncovered(why));
        }
        if before.is_none() && !by_call(path) {
            return Err(Kept::NotByCall);
        }
        if now == after {
            return Ok(Some(Target::Version(before)));
        }
        use Version::{Directory, File};
        match (before, after, now) {
            // The content stays and the permissions go back, or the other way round.
            (
                Some(File { content: b, mode: bm }),
                Some(File { content: a, mode: am }),
                Some(File { content: n, mode: nm }),
            ) => {
                let mode = if nm == am { bm } else { nm };
                match (a == b, n == a) {
                    (true, _) if mode == nm => Err(Kept::Newer),
                    (true, _) => Ok(Some(Target::Version(Some(File { content: n, mode })))),
                    (false, true) => Ok(Some(Target::Version(Some(File { content: b, mode })))),
                    (false, false) if n == b => {
                        Ok((mode != nm).then_some(Target::Version(Some(File { content: b, mode }))))
                    }
                    (false, false) => Ok(Some(Target::Merge { base: a, before: b, mode })),
                }
            }
            // A directory has nothing but permissions, which were changed again.
            (Some(Directory { .. }), Some(Directory { .. }), Some(Directory { .. })) => {
                Err(Kept::Newer)
            }
            // The call created it, and it is gone.
            (None, _, None) => Ok(None),
            _ => Err(Kept::Newer),
        }
    }

    /// Returns whether something is gone whose content is nowhere in the store: a file that was created since may be it,
    /// under another name. Caches can be made again.
    fn has_lost_uncovered(&self) -> bool {
        let is_precious = |path: &Path, version: &Version| match version {
            Version::Uncovered(why) => {
                use Uncovered::{Ignored, Large, Repository, Secret};
                matches!(why, Ignored | Large | Repository | Secret)
            }
            Version::Directory { .. } => **path == *REPOSITORY,
            Version::File { .. } | Version::Link { .. } => false,
        };
        let lost = |(path, version): (&Path, &Version)| {
            is_precious(path, version) && !self.now.contains_key(path)
        };
        self.before.iter().any(lost)
    }

    /// Returns why a path was not covered before, after or now.
    fn uncovered(&self, path: &[u8]) -> Option<Uncovered> {
        let mut at = Some(path);
        while let Some(path) = at {
            for tree in [self.before, self.after, self.now] {
                if let Some(Version::Uncovered(why)) = tree.get(path) {
                    return Some(*why);
                }
            }
            at = parent(path);
        }
        None
    }
}
