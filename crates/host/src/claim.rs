//! The claim of a workspace to be a linked worktree or a submodule of a repository
//! (`spec/containers.md#linked-repositories`).
//!
//! Tools and agents can write to the workspace's `.git`, so its claim is not trusted: the repository
//! must name this workspace, in a file that only programs with access to the repository can write.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use aifo_sidecar::LinkedRepository;
use aifo_types::normalise_path;

use crate::beneath::{Beneath, Found};

/// A workspace and a repository that name each other.
pub(crate) struct Claim {
    pub(crate) repository: LinkedRepository,
    /// The workspace directory in the repository; a real path.
    pub(crate) directory: PathBuf,
    /// The same directory, as the workspace's `.git` names it.
    pub(crate) named: PathBuf,
}

impl Claim {
    /// Reads the claim of a workspace, a real path. `None` if its `.git` is no file. Errors: the two
    /// do not name each other.
    pub(crate) fn of(workspace: &Path) -> Result<Option<Self>, String> {
        let git = workspace.join(".git");
        if !git.symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Ok(None);
        }
        let text = read(&git)?;
        let named = text.as_bytes().strip_prefix(b"gitdir: ").and_then(line);
        let named = named.ok_or("'.git' names no directory")?;
        let named = normalise_path(&workspace.join(OsStr::from_bytes(named)));
        let missing = |error| format!("'{}': {error}", named.display());
        let directory = named.canonicalize().map_err(missing)?;
        let repository = match worktree_of(&directory) {
            Some((common, name)) => {
                let back = read(&directory.join("gitdir"))?;
                let back =
                    line(back.as_bytes()).map(|back| directory.join(OsStr::from_bytes(back)));
                let back = back.filter(|back| back.file_name() == Some(OsStr::new(".git")));
                expect(back.as_deref().and_then(Path::parent), workspace, &directory)?;
                LinkedRepository { common, worktree: Some(name) }
            }
            None => {
                let back = configured_worktree(&directory.join("config"))?;
                let back = back.map(|back| directory.join(back));
                expect(back.as_deref(), workspace, &directory)?;
                LinkedRepository { common: directory.clone(), worktree: None }
            }
        };
        Ok(Some(Claim { repository, directory, named }))
    }
}

/// Returns the repository directory and the name of a worktree in it, if a directory has the form of a
/// linked worktree's: `COMMON/worktrees/NAME`.
fn worktree_of(directory: &Path) -> Option<(PathBuf, OsString)> {
    let worktrees = directory.parent().filter(|it| it.file_name() == Some("worktrees".as_ref()))?;
    Some((worktrees.parent()?.to_owned(), directory.file_name()?.to_owned()))
}

/// Errors: the path that a repository names is not the workspace.
fn expect(named: Option<&Path>, workspace: &Path, directory: &Path) -> Result<(), String> {
    match named.and_then(|named| named.canonicalize().ok()) {
        Some(real) if real == workspace => Ok(()),
        _ => Err(format!("'{}' does not name this workspace", directory.display())),
    }
}

/// Returns `core.worktree` of a configuration file. Ignores included files.
pub(crate) fn configured_worktree(file: &Path) -> Result<Option<PathBuf>, String> {
    if file.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = read(file)?.into_vec();
    let mut in_core = false;
    let mut found = None;
    for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.starts_with(b"[") {
            in_core = line.eq_ignore_ascii_case(b"[core]");
            if !in_core && line.to_ascii_lowercase().starts_with(b"[core]") {
                return Err(format!("'{}' has a setting in a section's line", file.display()));
            }
        } else if in_core
            && let Some(at) = line.iter().position(|byte| *byte == b'=')
            && let (name, value) = line.split_at(at)
            && name.trim_ascii().eq_ignore_ascii_case(b"worktree")
        {
            let value = value.strip_prefix(b"=").unwrap_or(value).trim_ascii();
            let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
            let value = quoted.unwrap_or(value);
            if value.iter().any(|byte| b"\"\\#;".contains(byte)) {
                return Err(format!("'{}' has an unusual 'core.worktree'", file.display()));
            }
            found = Some(PathBuf::from(OsStr::from_bytes(value)));
        }
    }
    Ok(found)
}

/// Returns the only line of a file. The final line feed is optional.
fn line(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    (!text.is_empty() && !text.contains(&b'\n')).then_some(text)
}

/// Reads a small regular file of the user at a real path, without following links.
fn read(path: &Path) -> Result<OsString, String> {
    let shown = path.display();
    let root = Beneath::open(Path::new("/")).map_err(|error| error.to_string())?;
    match root.read(path.strip_prefix("/").unwrap_or(path), MAX_BYTES) {
        Found::File(text, _) => Ok(OsString::from_vec(text)),
        Found::Missing => Err(format!("'{shown}' does not exist")),
        Found::Rejected(why) => Err(format!("'{shown}' {why}")),
    }
}

/// A configuration has a section for each branch.
const MAX_BYTES: u64 = 256 << 10;
