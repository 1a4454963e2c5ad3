//! The pod's side of a result.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;

use aifo_workspace::Tree;
use tempfile::TempDir;

use super::commit::Uncommitted;
use super::git::{Git, PrivateRepository};
use super::header::{
    Branch, Header, MAX_BRANCHES, MAX_SHALLOW, PushState, write_chunks, write_end,
};
use super::object_id::ObjectId;
use super::references::{BRANCHES, References, STASH, short_name};
use crate::error::SyncError;

/// A result that is asked for.
#[derive(Debug)]
pub struct ResultRequest<'a> {
    /// The git of the container.
    pub git: &'a Git,
    /// The workspace, which the agent can write.
    pub workspace: &'a Path,
    /// A directory for temporary files, which the agent cannot write.
    pub scratch: &'a Path,
    /// The session id.
    pub session: &'a str,
    /// The commits that the repository had before the agent; empty if they are not known.
    pub start: &'a [ObjectId],
    /// True if uncommitted files become a commit.
    pub commits_files: bool,
    /// The outcome of its push.
    pub push: PushState,
}

/// Branches with new commits that are searched.
const MAX_SEARCHED: usize = 1000;
/// Lines of git's answers are short.
const MAX_OUTPUT: u64 = 16 << 20;

/// Writes the branches of a repository with their new commits, for [`receive_result`](crate::receive_result).
pub fn send_result(request: &ResultRequest<'_>, mut out: impl Write) -> Result<(), SyncError> {
    let (found, _scratch) = find(request)?;
    found.header.write(&mut out)?;
    let packed = found.pack(&mut out);
    write_end(&mut out, packed.is_ok())?;
    packed
}

/// Returns whether a repository has new commits or, if they become a commit, uncommitted files.
pub fn has_result(request: &ResultRequest<'_>) -> Result<bool, SyncError> {
    find(request).map(|(found, _scratch)| !found.header.branches.is_empty())
}

fn find<'a>(request: &ResultRequest<'a>) -> Result<(Found<'a>, TempDir), SyncError> {
    let scratch = tempfile::Builder::new().prefix("aifo-result-").tempdir_in(request.scratch);
    let scratch = scratch.map_err(SyncError::file("write", request.scratch))?;
    let tree = Tree::open(request.workspace).map_err(SyncError::file("open", request.workspace))?;
    let references = References::read(&tree)?;
    let has_repository = references.is_some();
    let references = references.unwrap_or_default();
    let repository = PrivateRepository::create(request.git, scratch.path(), references.format())?;
    if has_repository {
        repository.use_objects_of(&request.workspace.join(".git/objects"))?;
    }
    let mut found = Found {
        repository,
        header: Header {
            format: references.format(),
            push: request.push.clone(),
            ..Header::default()
        },
        start: Vec::new(),
    };
    found.search(request, &tree, &references, has_repository)?;
    found.cut(&references)?;
    Ok((found, scratch))
}

/// The branches that were found.
struct Found<'a> {
    repository: PrivateRepository<'a>,
    header: Header,
    /// Commits of the session's start that exist.
    start: Vec<ObjectId>,
}

impl Found<'_> {
    fn search(
        &mut self,
        request: &ResultRequest<'_>,
        tree: &Tree,
        references: &References,
        has_repository: bool,
    ) -> Result<(), SyncError> {
        let name = format!("aifo/{}", request.session);
        let is_remote = |name: &&Vec<u8>| name.starts_with(b"refs/remotes/");
        let known: Vec<ObjectId> = match request.start.is_empty() {
            true => {
                let remote = references.all.iter().filter(|(name, _)| is_remote(name));
                remote.map(|(_, id)| id.clone()).collect()
            }
            false => request.start.to_vec(),
        };
        let branches = references
            .all
            .iter()
            .filter(|(name, _)| name.starts_with(BRANCHES) || name.as_slice() == STASH);
        let branches: Vec<(&Vec<u8>, &ObjectId)> = branches.collect();
        let heads = [references.head.as_ref(), references.branch(&name)];
        let candidates = heads.into_iter().flatten().chain(branches.iter().map(|(_, id)| *id));
        let commits = self.commits(candidates.chain(&known))?;
        // Without the shallow commits of the clone, its history would end in missing objects.
        self.repository.cut_at(references.shallow.iter().filter(|id| commits.contains(*id)))?;
        self.start = known.into_iter().filter(|id| commits.contains(id)).collect();
        self.start.sort();
        self.start.dedup();

        // A commit whose history is damaged is none.
        let heads = heads.into_iter().flatten().filter(|id| commits.contains(*id));
        let head = heads.filter_map(|id| Some((id.clone(), self.count(id, &[]).ok()?))).next();
        if head.as_ref().map(|(id, _)| id) != references.head.as_ref() {
            self.note("the commit of HEAD cannot be read");
        }
        let mut has_new = head.as_ref().is_some_and(|(_, new)| *new > 0);
        let mut tip = head.map(|(id, _)| id);
        let mut has_uncommitted = false;
        if request.commits_files {
            let uncommitted =
                Uncommitted::commit(&self.repository, tree, tip.as_ref(), request.session)?;
            uncommitted.notes.iter().for_each(|note| self.note(note));
            if let Some(commit) = uncommitted.commit {
                if tip.is_none() {
                    self.note(match has_repository {
                        true => "the repository has no commit: the files are one commit without history",
                        false => "the workspace has no directory '.git': the files are one commit without history",
                    });
                }
                (tip, has_new, has_uncommitted) = (Some(commit), true, true);
            }
        } else if !has_repository {
            return Ok(());
        }
        let mut others: Vec<(String, &ObjectId)> = Vec::new();
        let mut more = 0;
        let mut searched = BTreeSet::new();
        for (name, id) in &branches {
            let is_known =
                !commits.contains(*id) || self.start.contains(id) || tip.as_ref() == Some(id);
            if is_known || !searched.insert(*id) {
                continue;
            }
            if searched.len() > MAX_SEARCHED || others.len() + 1 >= MAX_BRANCHES {
                more += 1;
            } else {
                let without: Vec<&ObjectId> =
                    tip.iter().chain(others.iter().map(|(_, id)| *id)).collect();
                match self.count(id, &without) {
                    Ok(0) => {}
                    Ok(_) => others.push((short_name(name), id)),
                    Err(SyncError::Git { .. }) => {
                        self.note(&format!("the branch '{}' cannot be read", short_name(name)));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if more > 0 {
            self.note(&format!("{more} more branches are not in the result"));
        }
        if references.is_cut {
            self.note(
                "the repository has too many references: some branches are not in the result",
            );
        }
        // A result begins with the session branch.
        let Some(tip) = tip.filter(|_| has_new || !others.is_empty()) else { return Ok(()) };
        self.header.branches.push(Branch { tip, has_uncommitted, name });
        let others = others.into_iter().map(|(name, tip)| Branch {
            tip: tip.clone(),
            has_uncommitted: false,
            name,
        });
        self.header.branches.extend(others);
        Ok(())
    }

    fn note(&mut self, note: &str) {
        self.header.notes.push(note.to_owned());
    }

    /// Returns those that are commits.
    fn commits<'b>(
        &self,
        ids: impl Iterator<Item = &'b ObjectId>,
    ) -> Result<BTreeSet<ObjectId>, SyncError> {
        let input: String = ids.map(|id| format!("{id}\n")).collect();
        if input.is_empty() {
            return Ok(BTreeSet::new());
        }
        let output = self.repository.output(["cat-file", "--batch-check"], &input, MAX_OUTPUT)?;
        let lines = output.split(|byte| *byte == b'\n');
        let commit = |line: &[u8]| {
            let mut words = line.split(|byte| *byte == b' ');
            let id = words.next()?;
            (words.next()? == b"commit").then(|| ObjectId::parse(id))?
        };
        Ok(lines.filter_map(commit).collect())
    }

    /// Returns the words of a walk from `tips` to the session's start and to `without`.
    fn walk<'b>(
        &self,
        tips: impl IntoIterator<Item = &'b ObjectId>,
        without: &[&ObjectId],
    ) -> String {
        let without = without.iter().copied().chain(&self.start);
        let without = without.map(|id| format!("^{id}\n"));
        tips.into_iter().map(|id| format!("{id}\n")).chain(without).collect()
    }

    fn count(&self, tip: &ObjectId, without: &[&ObjectId]) -> Result<u64, SyncError> {
        let words = ["rev-list", "--count", "--stdin"];
        let output = self.repository.output(words, &self.walk([tip], without), MAX_OUTPUT)?;
        Ok(String::from_utf8_lossy(&output).trim().parse().unwrap_or(0))
    }

    /// Ends the history at the commits that the session began with.
    fn cut(&mut self, references: &References) -> Result<(), SyncError> {
        let tips = || self.header.branches.iter().map(|branch| &branch.tip);
        if tips().next().is_none() {
            return Ok(());
        }
        let words = ["rev-list", "--boundary", "--stdin"];
        let output = self.repository.output(words, &self.walk(tips(), &[]), MAX_OUTPUT)?;
        let lines = output.split(|byte| *byte == b'\n');
        let (mut ends, mut new) = (BTreeSet::new(), BTreeSet::new());
        for line in lines {
            match line.strip_prefix(b"-") {
                Some(end) => ends.extend(ObjectId::parse(end)),
                None => new.extend(ObjectId::parse(line)),
            }
        }
        // A branch without new commits is one of its ends.
        ends.extend(tips().filter(|tip| !new.contains(*tip)).cloned());
        ends.extend(references.shallow.iter().filter(|id| new.contains(*id)).cloned());
        if ends.len() > MAX_SHALLOW {
            let limit = MAX_SHALLOW as u64;
            return Err(SyncError::StreamLimit { limit, of: "ends of its history" });
        }
        self.repository.cut_at(&ends)?;
        self.header.shallow = ends.into_iter().collect();
        Ok(())
    }

    /// Writes all objects of the branches.
    fn pack(&self, mut out: impl Write) -> Result<(), SyncError> {
        if self.header.branches.is_empty() {
            return Ok(());
        }
        let tips: String = self.header.branches.iter().map(|it| format!("{}\n", it.tip)).collect();
        let words = ["pack-objects", "--revs", "--stdout", "-q", "--no-use-bitmap-index"];
        let command = self.repository.command(words.into_iter().chain(["--delta-base-offset"]));
        let feed = |stdin: &mut dyn Write| Ok(stdin.write_all(tips.as_bytes())?);
        let packed = self
            .repository
            .run(command, feed, |stdout: &mut dyn Read| write_chunks(stdout, &mut out));
        packed.map(drop)
    }
}
