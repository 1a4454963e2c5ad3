//! The programs of the engines.

use std::ffi::OsString;
use std::path::PathBuf;

/// A program of this machine that may be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program; an absolute path.
    pub file: PathBuf,
    /// PATH for the program, which finds its helper programs there.
    pub path: OsString,
}

/// Finds the programs of this machine. The implementation decides which of them are trusted.
pub trait Programs {
    /// Finds the program of this name. Errors: it is not installed, or must not be started.
    fn find(&self, name: &str) -> Result<Program, MissingProgram>;
}

/// Why no program was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingProgram {
    /// PATH has no program of that name.
    #[error("it is not installed")]
    Absent,
    /// Every program of that name in PATH is untrusted.
    #[error("'{}' is not a trusted program: {why}", file.display())]
    Untrusted {
        /// The first of them.
        file: PathBuf,
        /// Why it is untrusted.
        why: &'static str,
    },
}

#[cfg(test)]
impl Program {
    pub(crate) fn at(file: &str) -> Self {
        Program { file: file.into(), path: OsString::new() }
    }
}
