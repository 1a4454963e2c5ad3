//! The input of the permission rules.

use std::path::{Path, PathBuf};

use super::command::CallCommand;

/// A tool call of an agent, without titles and other free text.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// The kind of the call; `""` means `other`.
    pub kind: &'a str,
    /// The command, if it has one.
    pub command: Option<&'a CallCommand>,
    /// Every path of the call, as the agent sent it, and with links resolved where possible.
    pub paths: &'a [&'a str],
    /// The absolute paths of the workspace, any of which an agent may use. Rules' paths are
    /// relative to it.
    pub workspace: &'a [PathBuf],
    /// The directory for the agent's relative paths.
    pub cwd: &'a Path,
}

impl AccessRequest<'_> {
    pub(super) fn kind(&self) -> &str {
        if self.kind.is_empty() { "other" } else { self.kind }
    }
}

impl Default for AccessRequest<'_> {
    /// A call of kind `other` without a workspace, so no path rule matches.
    fn default() -> Self {
        AccessRequest { kind: "", command: None, paths: &[], workspace: &[], cwd: Path::new("/") }
    }
}
