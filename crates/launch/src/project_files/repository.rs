//! Files of a repository that git executes or obeys: all but its data.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::FileType;
use std::path::{Path, PathBuf};

use aifo_types::normalise_path;
use nix::fcntl::OFlag;

use super::git_config::{UserConfig, Word, words};
use super::search::{FileState, MAX_DEPTH, Search};

/// Files of configuration that are read.
const MAX_CONFIGS: usize = 32;

/// Data in a repository directory.
const DATA: [&str; 18] = [
    "AUTO_MERGE",
    "HEAD",
    "MERGE_AUTOSTASH",
    "MERGE_MODE",
    "MERGE_RR",
    "description",
    "gc.log",
    "gc.pid",
    "index",
    "lfs",
    "logs",
    "objects",
    // The id of a project of an agent.
    "opencode",
    "packed-refs",
    "refs",
    "reftable",
    "rr-cache",
    "shallow",
];
const DATA_PREFIXES: [&str; 2] = ["BISECT_", "sharedindex."];
const DATA_SUFFIXES: [&str; 4] = [".lock", "_EDITMSG", "_HEAD", "_MSG"];

/// Data that leads to other data.
const POINTERS_IN_OBJECTS: [&str; 2] = ["info/alternates", "info/http-alternates"];

/// What a bare repository has in the workspace root besides data. Other names are the project's.
const IN_BARE_ROOT: [&str; 6] =
    ["commondir", "config", "config.worktree", "hooks", "info", "worktrees"];

impl Search<'_> {
    /// Adds a `.git`.
    pub(super) fn repository(&mut self, path: &Path) {
        match self.metadata(path) {
            Some(found) if found.is_dir() => self.git_directory(path, MAX_DEPTH),
            Some(found) => self.file(path, &found),
            None => {}
        }
    }

    /// Adds a repository directory, worktree or submodule.
    pub(super) fn git_directory(&mut self, path: &Path, depth: usize) {
        self.insert(path, FileState::Directory);
        for (name, kind) in self.entries(path) {
            self.git_entry(&path.join(&name), kind, depth);
        }
    }

    /// Adds a directory that git takes for a bare repository.
    pub(super) fn bare_repository(&mut self, path: &Path) {
        if !path.as_os_str().is_empty() {
            return self.git_directory(path, MAX_DEPTH);
        }
        self.insert(Path::new("HEAD"), FileState::Directory);
        for (name, kind) in self.entries(path) {
            if IN_BARE_ROOT.iter().any(|it| *it == name) {
                self.git_entry(Path::new(&name), kind, MAX_DEPTH);
            }
        }
    }

    fn git_entry(&mut self, path: &Path, kind: FileType, depth: usize) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.as_ref();
        let Some(depth) = depth.checked_sub(1) else { return self.data.push(path.to_owned()) };
        if kind.is_dir() && is_data(name) {
            // git takes a directory in it for a repository if the index or a setting leads there.
            self.data.push(path.to_owned());
        }
        if name == "objects" && kind.is_dir() {
            for pointer in POINTERS_IN_OBJECTS {
                self.whole(&path.join(pointer));
            }
        } else if matches!(name, "modules" | "worktrees") && kind.is_dir() {
            self.git_directories(path, depth);
        } else if name == "info" && kind.is_dir() {
            for (name, _) in self.entries(path) {
                // A list for servers, which packing writes.
                if name != "refs" {
                    self.whole(&path.join(name));
                }
            }
        } else if is_data(name) && kind.is_symlink() {
            self.link(path);
        } else if !is_data(name) && (kind.is_symlink() || !self.is_default(path)) {
            self.whole(path);
        }
    }

    /// Adds the directories below `modules` and `worktrees`. The name of a submodule may have parts.
    fn git_directories(&mut self, path: &Path, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return self.data.push(path.to_owned()) };
        for (name, kind) in self.entries(path) {
            let path = path.join(&name);
            match () {
                () if !kind.is_dir() => self.whole(&path),
                () if self.metadata(&path.join("HEAD")).is_some() => {
                    self.git_directory(&path, depth);
                }
                () => self.git_directories(&path, depth),
            }
        }
    }

    /// Returns whether a file says the same as its absence. Sessions create such mount points.
    fn is_default(&mut self, path: &Path) -> bool {
        let directory = path.parent().unwrap_or(path);
        let worktrees = directory.parent().filter(|it| it.ends_with("worktrees"));
        let main = worktrees.and_then(Path::parent);
        // A bare repository in the workspace root is entered as its `HEAD`.
        let is_worktree = main.is_some_and(|main| {
            self.is_git_directory(main) || self.is_git_directory(&main.join("HEAD"))
        });
        match path.file_name().and_then(OsStr::to_str) {
            Some("config.worktree") => {
                self.metadata(path).is_some_and(|it| it.is_file() && it.len() == 0)
            }
            Some("commondir") => match self.content(path) {
                Some(text) if is_worktree => text == b"../..\n",
                Some(text) => matches!(text.as_slice(), b".\n" | b"./.\n"),
                None => false,
            },
            _ => false,
        }
    }

    /// Returns the paths of the workspace that a repository configuration, the user's own and the
    /// files that these include name, and whether they may be directories. Paths are relative to the
    /// workspace, the repository or the configuration.
    pub(super) fn named_paths(&mut self, git: &Path, user: &UserConfig) -> BTreeMap<PathBuf, bool> {
        let mut named = BTreeMap::new();
        let of_repository = ["config", "config.worktree"].map(|name| git.join(name));
        let mut configs: Vec<_> = of_repository.into_iter().chain(user.files.clone()).collect();
        let mut position = 0;
        while let Some(config) = configs.get(position).filter(|_| position < MAX_CONFIGS).cloned() {
            position += 1;
            let text = self.read(&config, OFlag::empty()).unwrap_or_default();
            let beside = config.parent().unwrap_or(&config);
            for Word { path, is_path, is_include } in words(&text) {
                let path = match path.strip_prefix("~") {
                    Ok(rest) => user.home.join(rest),
                    Err(_) => path,
                };
                let included = normalise_path(&self.workspace.join(beside).join(&path));
                if is_include && !configs.contains(&included) {
                    configs.push(included);
                }
                for base in [Path::new(""), git, beside] {
                    if let Some(path) = self.in_workspace(&base.join(&path)) {
                        *named.entry(path).or_default() |= is_path;
                    }
                }
            }
        }
        named
    }

    /// Returns the path of a file in the workspace, but not in its repository.
    fn in_workspace(&self, path: &Path) -> Option<PathBuf> {
        let full = normalise_path(&self.workspace.join(path));
        let path = full.strip_prefix(self.workspace).ok()?;
        let is_own = path.as_os_str().is_empty() || path.starts_with(".git");
        (!is_own).then(|| path.to_owned())
    }
}

fn is_data(name: &str) -> bool {
    DATA.contains(&name)
        || DATA_PREFIXES.iter().any(|it| name.starts_with(it))
        || DATA_SUFFIXES.iter().any(|it| name.ends_with(it))
}
