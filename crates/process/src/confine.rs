//! Keeping a process, and all that it starts, from writing outside its place (Landlock).

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, BitFlags, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};

use crate::sys;

/// Where a confined process may write. Reading and executing are not restricted, nor is the
/// network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Directories, with all below them, and files. What does not exist cannot be allowed and is
    /// passed over.
    pub writable: Vec<PathBuf>,
}

/// Why a process could not be confined. It must not go on as if it were.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel cannot do it, or not without breaking tools.
    #[error("this kernel's Landlock (version {0}) cannot confine tools; version 2 or later can")]
    Unsupported(u32),
    /// The kernel refused the rules.
    #[error("cannot set up Landlock: {0}")]
    Rules(#[from] RulesetError),
    /// A path could not be opened.
    #[error("cannot set up Landlock: {0}")]
    Path(#[from] PathFdError),
}

/// What the kernel can hold a process to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Nothing: no Landlock, or one (version 1) under which no file can be renamed into another
    /// directory, which compilers do.
    Nothing,
    /// Writes stay in their place.
    Writes,
    /// Writes stay in their place, and so do signals and abstract unix sockets.
    WritesAndSignals,
}

/// Devices that every program expects to be able to write to.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"];

/// What this kernel can enforce.
pub fn enforcement() -> Enforcement {
    match sys::landlock_version() {
        0 | 1 => Enforcement::Nothing,
        2..=5 => Enforcement::Writes,
        _ => Enforcement::WritesAndSignals,
    }
}

/// Confines this process for good, as far as [`enforcement`] says. All it starts afterwards is
/// confined alike. To be called before it has threads; it also gives up gaining privileges by
/// executing setuid programs.
pub fn confine(confinement: &Confinement) -> Result<(), ConfineError> {
    let version = sys::landlock_version();
    let abi = match version {
        0 | 1 => return Err(ConfineError::Unsupported(version)),
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => ABI::V6,
    };
    // Control of devices is left alone: a tool that may open one may talk to it.
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
        // Let the attempt to open it say what is wrong.
        Err(_) => return PathFd::new(path).map(|fd| Some(PathBeneath::new(fd, writes))),
    };
    let rights = if metadata.is_dir() { writes } else { writes & AccessFs::from_file(ABI::V6) };
    Ok(Some(PathBeneath::new(PathFd::new(path)?, rights)))
}
