//! Checks where a workspace and an agent state may lie (`spec/trust.md#ground-check`).
//!
//! An agent writes to its workspace and its state directories. So neither may contain, or be part
//! of, anything that aifo trusts: the user's home, aifo's own directories, its programs.

use std::io;
use std::path::{Path, PathBuf};

use crate::own_directories::{home, lies_in_session, own_directories, real_path, session_parents};

/// A workspace that passed the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedWorkspace(PathBuf);

impl CheckedWorkspace {
    /// Resolves and checks a workspace root. Errors: not a directory, or an agent that writes to it
    /// could change something that aifo trusts.
    pub fn new(path: &Path) -> Result<Self, WorkspaceError> {
        let real = real_directory(path)?;
        check(&real, "the workspace")?;
        Ok(CheckedWorkspace(real))
    }

    /// Returns the workspace root, a real path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Reasons to reject a directory.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Not a directory.
    #[error("'{}' cannot be the workspace: {source}", path.display())]
    NotADirectory {
        /// The path as given.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Engines and the session records need text.
    #[error(
        "'{}' cannot be {role}: its path is not UTF-8\nhint: rename the directory",
        escaped(path)
    )]
    NotUtf8 {
        /// The directory.
        path: PathBuf,
        /// As in [`Exposes`](WorkspaceError::Exposes).
        role: &'static str,
    },
    /// It would expose something that aifo trusts.
    #[error(
        "'{}' cannot be {role}: it {relation} {what} '{}'\nhint: {hint}",
        path.display(),
        other.display()
    )]
    Exposes {
        /// The directory.
        path: PathBuf,
        /// `the workspace`, `a state directory` or `a repository of the workspace`.
        role: &'static str,
        /// `is`, `contains` or `lies in`.
        relation: &'static str,
        /// The exposed thing, such as `your home directory`.
        what: &'static str,
        /// Its path.
        other: PathBuf,
        /// The remedy.
        hint: &'static str,
    },
}

/// Returns the real path of a directory.
pub fn real_directory(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let failed = |source| WorkspaceError::NotADirectory { path: path.to_owned(), source };
    let real = path.canonicalize().map_err(failed)?;
    if real.is_dir() { Ok(real) } else { Err(failed(io::ErrorKind::NotADirectory.into())) }
}

/// Checks an agent state directory, which need not exist yet.
pub fn check_state(path: &Path) -> Result<(), WorkspaceError> {
    check(&real_path(path), "a state directory")
}

/// Checks a real path of a repository that an agent will write to.
pub(crate) fn check_repository(path: &Path) -> Result<(), WorkspaceError> {
    check(path, "a repository of the workspace")
}

/// Checks that a workspace, a real path, does not contain the session's shim.
pub fn check_shim(workspace: &Path, shim: &Path) -> Result<(), WorkspaceError> {
    if !shim.starts_with(workspace) {
        return Ok(());
    }
    Err(WorkspaceError::Exposes {
        path: workspace.to_owned(),
        role: "the workspace",
        relation: "contains",
        what: "aifo's own program",
        other: shim.to_owned(),
        hint: INSTALL,
    })
}

/// Returns whether a container image has a directory at this path that a mount must not hide.
pub fn is_system_directory(path: &Path) -> bool {
    let systems = [
        "/",
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/home",
        "/lib",
        "/lib64",
        "/opt",
        "/opt/aifo",
        "/proc",
        "/run",
        "/sbin",
        "/sys",
        "/tmp",
        "/usr",
        "/usr/local",
        "/var",
        "/var/tmp",
    ];
    systems.iter().any(|system| Path::new(system) == path)
}

/// Checks a real path that an agent will write to.
fn check(path: &Path, role: &'static str) -> Result<(), WorkspaceError> {
    let refuse = |relation, what, other: &Path, hint| {
        let (path, other) = (path.to_owned(), other.to_owned());
        Err(WorkspaceError::Exposes { path, role, relation, what, other, hint })
    };
    if path.to_str().is_none() {
        return Err(WorkspaceError::NotUtf8 { path: path.to_owned(), role });
    }
    if let Some(home) = home().map(|home| real_path(&home))
        && let Some(relation) = around(path, &home)
    {
        return refuse(relation, "your home directory", &home, OWN_DIRECTORY);
    }
    for own in own_directories() {
        let relation = around(path, &own.path).or(inside(path, &own.path));
        if let Some(relation) = relation {
            return refuse(relation, own.description, &own.path, OWN_DIRECTORY);
        }
    }
    for parent in session_parents() {
        if let Some(relation) = around(path, &parent) {
            let what = "the directory of aifo's sessions";
            return refuse(relation, what, &parent, RUNTIME);
        }
    }
    if lies_in_session(path) {
        return refuse("lies in", "the directory of a session,", path, OWN_DIRECTORY);
    }
    for program in own_programs() {
        if program.starts_with(path) {
            return refuse("contains", "aifo's own program", &program, INSTALL);
        }
    }
    Ok(())
}

const OWN_DIRECTORY: &str = "give the project a directory of its own, and name it with --workspace";
const RUNTIME: &str = "set XDG_RUNTIME_DIR and TMPDIR to directories outside of it, or give the project \
                       a directory of its own";
const INSTALL: &str =
    "install aifo-coder and aifo-shim outside of it: cargo xtask dist --prefix ~/.local";

fn around(path: &Path, other: &Path) -> Option<&'static str> {
    match other.starts_with(path) {
        true if other == path => Some("is"),
        true => Some("contains"),
        false => None,
    }
}

fn inside(path: &Path, other: &Path) -> Option<&'static str> {
    path.starts_with(other).then_some("lies in")
}

/// Returns a path with its invalid bytes as `\xFF`.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02X}")));
    }
    text
}

/// Returns the running program and its shim.
fn own_programs() -> Vec<PathBuf> {
    let executable = std::env::current_exe().into_iter();
    let programs = executable.chain(crate::shim_binary::candidates());
    programs.filter_map(|path| path.canonicalize().ok()).collect()
}
