//! Files of the workspace that agents, tools and git execute or obey
//! (`spec/trust.md#changed-project-files`).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aifo_host::linked_repository;
use aifo_process::{Links, RootDirectory};
use nix::{
    fcntl::OFlag,
    unistd::{UnlinkatFlags, unlinkat},
};

mod git_config;
mod manifest;
mod names;
mod repository;
mod search;

use self::git_config::UserConfig;
use self::names::Names;
use self::search::{FileState, Item, Scope, Search};

/// Directories that are read at the start, each in some 10 to 20 us.
const DIRECTORIES_AT_START: usize = 1000;
const DIRECTORIES_AT_END: usize = 100_000;
/// The clock of file systems is late by less.
const CLOCK_DELAY: Duration = Duration::from_secs(1);
/// Names in a report.
const MAX_NAMES: usize = 20;

/// The state of these files at one time.
#[derive(Debug)]
pub(crate) struct ProjectFiles {
    workspace: PathBuf,
    /// The repository outside of the workspace.
    linked: Option<PathBuf>,
    names: Names,
    /// Paths that the configuration of git names, and whether they may be directories.
    named: BTreeMap<PathBuf, bool>,
    files: BTreeMap<Item, FileState>,
    started: SystemTime,
    /// The levels of directories that were searched as a whole.
    levels: usize,
}

impl ProjectFiles {
    /// Reads the files. Of links that count, also what they lead to in the workspace.
    pub(crate) fn read(workspace: &Path) -> Self {
        ProjectFiles::read_with(workspace, &UserConfig::new(std::env::var_os::<&str>))
    }

    fn read_with(workspace: &Path, user: &UserConfig) -> Self {
        let started = SystemTime::now() - CLOCK_DELAY;
        let names = Names::of_rows();
        let linked = linked_repository(workspace).ok().flatten().map(|it| it.common);
        let mut search = Search::new(workspace, &names);
        let git = linked.as_deref().unwrap_or(Path::new(".git"));
        let named = search.named_paths(git, user);
        let levels = search.all(linked.as_deref(), &named, Scope::Start(DIRECTORIES_AT_START));
        let files = search.files;
        let workspace = workspace.to_owned();
        ProjectFiles { workspace, linked, names, named, files, started, levels }
    }

    /// Returns the items that were changed, created or removed since, sorted, with their state now.
    fn changes(&self) -> Vec<(Item, Option<FileState>)> {
        let mut now = Search::new(&self.workspace, &self.names);
        now.all(self.linked.as_deref(), &self.named, Scope::End(DIRECTORIES_AT_END));
        let missing = self.files.keys().filter(|item| !now.files.contains_key(item));
        for path in missing.map(|item| item.path.clone()).collect::<Vec<_>>() {
            // The search did not reach them.
            now.again(&path);
        }
        let mut now = now.files;
        let mut changes = Vec::new();
        for (item, state) in &self.files {
            let found = now.remove(item);
            if found.as_ref() != Some(state) || found == Some(FileState::TooMany) {
                changes.push((item.clone(), found));
            }
        }
        now.retain(|item, state| !self.is_old(&item.path, state));
        changes.extend(now.into_iter().map(|(item, state)| (item, Some(state))));
        changes.sort_by(|(one, _), (other, _)| one.cmp(other));
        changes
    }

    /// Returns whether a file that the search at the start did not reach is older than that.
    fn is_old(&self, path: &Path, state: &FileState) -> bool {
        let is_checkout = |above: &Path| self.workspace.join(above).join(".git").exists();
        let mut above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        let depth = match above.any(is_checkout) {
            true => path.components().count() - 1,
            false => self.names.depth(path),
        };
        let is_unsearched = path.is_relative() && depth >= self.levels;
        let Ok(metadata) = self.workspace.join(path).symlink_metadata() else { return false };
        let changed = match state {
            // The names in a repository change often.
            FileState::Directory => metadata.created().ok(),
            _ => None,
        };
        let changed = changed.unwrap_or_else(|| changed_at(&metadata));
        (is_unsearched || self.names.is_in_data(path)) && changed < self.started
    }

    /// Describes the changes in lines. A pointer of git to another repository that the session has
    /// created is removed.
    pub(crate) fn report(&self) -> Vec<String> {
        let changes = self.changes();
        let mut lines = Vec::new();
        for (item, state) in &changes {
            let is_git_file = item.path == Path::new(".git")
                && state.as_ref().is_some_and(|it| *it != FileState::Directory);
            let is_common_dir = item.path.ends_with("commondir") && state.is_some();
            let has_head = || self.workspace.join(&item.path).with_file_name("HEAD").exists();
            if is_git_file || is_common_dir && has_head() {
                lines.push(self.describe_pointer(item));
            }
        }
        let names = self.names(&changes);
        let more = match names.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if let Some(names) = names.get(..names.len().min(MAX_NAMES)).filter(|it| !it.is_empty()) {
            lines.push(format!(
                "changed in this session, and agents, tools or git execute or obey them: {}{more}",
                names.join(", ")
            ));
        }
        lines
    }

    fn describe_pointer(&self, item: &Item) -> String {
        let name = shown(&item.path);
        let is_worktree = item.path.iter().rev().nth(2).is_some_and(|it| it == "worktrees");
        let was_there = self.files.contains_key(item) || is_worktree || item.path.ends_with(".git");
        let remedy = match !was_there && remove(&self.workspace, &item.path).is_ok() {
            true => "it was removed",
            false => "check it before you run git here",
        };
        format!(
            "'{name}' was changed in this session and leads git to another repository: {remedy}"
        )
    }

    /// Returns the names of changed files with their parts, new ones last, as anything can create many. A
    /// new repository has one name, with the new files of its checkout.
    fn names(&self, changes: &[(Item, Option<FileState>)]) -> Vec<String> {
        let is_new = |path: &Path| {
            let mut from = self.files.range(Item::whole(path)..);
            from.next().is_none_or(|(item, _)| item.path != path)
        };
        let mut changes: Vec<_> =
            changes.iter().map(|(item, state)| (is_new(&item.path), item, state)).collect();
        changes.sort_by_key(|(is_new, ..)| *is_new);
        let mut covered = BTreeSet::new();
        for (_, Item { path, .. }, state) in changes.iter().filter(|(is_new, ..)| *is_new) {
            let checkout =
                path.parent().filter(|it| path.ends_with(".git") && *it != Path::new(""));
            covered.extend(checkout);
            covered.extend((**state == Some(FileState::Directory)).then_some(path.as_path()));
        }
        let mut names: Vec<(&Path, Vec<&str>)> = Vec::new();
        for (is_new, Item { path, part }, _) in &changes {
            let mut above = path.ancestors().skip(1);
            if *is_new && !path.ends_with(".git") && above.any(|above| covered.contains(&above)) {
                continue;
            }
            match names.last_mut().filter(|(last, _)| last == path) {
                Some((_, parts)) => parts.extend(part.as_deref()),
                None => names.push((path, part.as_deref().into_iter().collect())),
            }
        }
        let name = |(path, parts): &(&Path, Vec<&str>)| match parts.as_slice() {
            [] => shown(path),
            parts => format!("{} ({})", shown(path), aifo_types::escape_line(&parts.join(", "))),
        };
        names.iter().map(name).collect()
    }
}

impl Search<'_> {
    /// Adds all project files. Returns the levels of directories that were searched as a whole.
    fn all(
        &mut self,
        linked: Option<&Path>,
        named: &BTreeMap<PathBuf, bool>,
        scope: Scope,
    ) -> usize {
        if let Some(linked) = linked {
            self.repository(linked);
        }
        for (path, may_be_directory) in named {
            if *may_be_directory || self.metadata(path).is_some_and(|it| !it.is_dir()) {
                self.whole(path);
            }
        }
        self.tree(scope)
    }
}

fn shown(path: &Path) -> String {
    aifo_types::escape_line(&path.to_string_lossy())
}

fn changed_at(metadata: &std::fs::Metadata) -> SystemTime {
    use std::os::unix::fs::MetadataExt;
    let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
    let nanos = u32::try_from(metadata.ctime_nsec()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)
}

/// Removes the workspace file; no link is followed.
fn remove(workspace: &Path, path: &Path) -> std::io::Result<()> {
    let parent = path.parent().unwrap_or(path);
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let parent = RootDirectory::open(workspace)?.open_beneath(parent, flags, Links::Reject)?;
    let name = path.file_name().unwrap_or_default();
    Ok(unlinkat(parent.as_fd(), name, UnlinkatFlags::NoRemoveDir)?)
}

#[cfg(test)]
mod tests;
