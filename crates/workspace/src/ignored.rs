//! The rules of `.gitignore` in a workspace.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::tree::Tree;

/// The rules for a directory: its own, then those of the directories above it.
#[derive(Clone, Debug, Default)]
pub struct Rules(Option<Arc<Level>>);

#[derive(Debug)]
struct Level {
    directory: PathBuf,
    rules: Gitignore,
    above: Rules,
}

/// A larger file is ignored.
const MAX_BYTES: u64 = 256 << 10;

impl Rules {
    /// Returns the rules of the workspace root: `.git/info/exclude`, and `.gitignore` before it.
    pub fn of_root(tree: &Tree) -> Self {
        let exclude = Rules::default().and(tree, Path::new(""), Path::new(".git/info/exclude"));
        exclude.below(tree, Path::new(""))
    }

    /// Adds the rules of a directory.
    pub fn below(&self, tree: &Tree, directory: &Path) -> Self {
        self.clone().and(tree, directory, &directory.join(".gitignore"))
    }

    fn and(self, tree: &Tree, directory: &Path, file: &Path) -> Self {
        let Some(text) = tree.read(file, MAX_BYTES) else { return self };
        let mut builder = GitignoreBuilder::new("");
        for line in String::from_utf8_lossy(&text).lines() {
            // Git ignores an invalid line, too.
            let _ = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(rules) if !rules.is_empty() => {
                let directory = directory.to_owned();
                Rules(Some(Arc::new(Level { directory, rules, above: self })))
            }
            _ => self,
        }
    }

    /// Returns whether a path of the directory is ignored. Rules nearer to it win.
    pub fn ignores(&self, path: &Path, is_directory: bool) -> bool {
        let mut rules = self;
        while let Some(level) = &rules.0 {
            let relative = path.strip_prefix(&level.directory).unwrap_or(path);
            let matched = level.rules.matched(relative, is_directory);
            if !matched.is_none() {
                return matched.is_ignore();
            }
            rules = &level.above;
        }
        false
    }
}
