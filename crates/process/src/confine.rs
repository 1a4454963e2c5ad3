//! Restricting where a process and its descendants may write: Landlock, and namespaces.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, BitFlags, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};

use crate::namespace::{NamespaceError, enter_namespace};
use crate::sys;

/// Where a confined process may write. Executing and the network are not restricted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Directories, with everything below them, and files. Missing paths are ignored.
    pub writable: Vec<PathBuf>,
    /// The paths to hide, if a [namespace](crate::enter_namespace) confines the process too.
    pub namespace: Option<Vec<PathBuf>>,
}

/// Why a process could not be confined. The process must not run tools in that case.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel has no Landlock, or a version that breaks tools.
    #[error("this kernel's Landlock (version {0}) cannot confine tools; version 2 or later can")]
    Unsupported(u32),
    /// The kernel rejected the rules.
    #[error("cannot set up Landlock: {0}")]
    Rules(#[from] RulesetError),
    /// A path could not be opened.
    #[error("cannot set up Landlock: {0}")]
    Path(#[from] PathFdError),
    /// The process could not enter a namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}

/// Restrictions that the kernel's Landlock can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Nothing: no Landlock, or version 1, which forbids renaming a file into another directory, as
    /// compilers do.
    Nothing,
    /// Restricts writes.
    Writes,
    /// Restricts writes, signals and abstract unix sockets.
    WritesAndSignals,
}

/// Devices that programs expect to be writable.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"];

/// Returns what this kernel can enforce.
pub fn enforcement() -> Enforcement {
    match sys::landlock_version() {
        0 | 1 => Enforcement::Nothing,
        2..=5 => Enforcement::Writes,
        _ => Enforcement::WritesAndSignals,
    }
}

/// Confines this process and all its future children for good, as far as [`enforcement`] allows,
/// and sets `no_new_privs`. Must be called before the process starts a thread. In a namespace, Landlock
/// may be absent.
pub fn confine(confinement: &Confinement) -> Result<(), ConfineError> {
    if let Some(hidden) = &confinement.namespace {
        enter_namespace(&confinement.writable, hidden)?;
        if enforcement() == Enforcement::Nothing {
            return Ok(());
        }
    }
    let version = sys::landlock_version();
    let abi = match version {
        0 | 1 => return Err(ConfineError::Unsupported(version)),
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => ABI::V6,
    };
    // A tool that may open a device may also use its ioctls.
    let writes = AccessFs::from_write(abi) & !BitFlags::from(AccessFs::IoctlDev);
    let mut ruleset = Ruleset::default().handle_access(writes)?;
    if enforcement() == Enforcement::WritesAndSignals {
        ruleset = ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket)?;
    }
    let mut ruleset = ruleset.create()?;
    let devices = DEVICES.map(PathBuf::from);
    for path in confinement.writable.iter().chain(&devices) {
        if let Some(rule) = rule(path, writes)? {
            ruleset = ruleset.add_rule(rule)?;
        }
    }
    ruleset.restrict_self()?;
    Ok(())
}

fn rule(
    path: &Path,
    writes: BitFlags<AccessFs>,
) -> Result<Option<PathBeneath<PathFd>>, PathFdError> {
    let is_missing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if is_missing(&error) => return Ok(None),
        // Opening it reports the cause.
        Err(_) => return PathFd::new(path).map(|fd| Some(PathBeneath::new(fd, writes))),
    };
    let rights = if metadata.is_dir() { writes } else { writes & AccessFs::from_file(ABI::V6) };
    Ok(Some(PathBeneath::new(PathFd::new(path)?, rights)))
}
