//! What an agent asks to be allowed.

use std::path::{Path, PathBuf};

use super::command::CallCommand;

/// A call of a tool as far as it is told exactly: no titles, no texts for people.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// The agent's word for what it does; `""`, if it says nothing, is `other`.
    pub kind: &'a str,
    /// All of its command, if it has one.
    pub command: Option<&'a CallCommand>,
    /// Every path that it names, as the agent spells it, and where each really leads as far as that is
    /// known.
    pub paths: &'a [&'a str],
    /// The absolute names of the workspace, each of which an agent may use. Paths of rules are
    /// relative to it.
    pub workspace: &'a [PathBuf],
    /// What the agent's own relative paths are relative to.
    pub cwd: &'a Path,
}

impl AccessRequest<'_> {
    pub(super) fn kind(&self) -> &str {
        if self.kind.is_empty() { "other" } else { self.kind }
    }
}

impl Default for AccessRequest<'_> {
    /// Nothing is told, and no path is anywhere.
    fn default() -> Self {
        AccessRequest { kind: "", command: None, paths: &[], workspace: &[], cwd: Path::new("/") }
    }
}
