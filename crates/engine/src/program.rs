//! The programs that engines are started by.

use std::ffi::OsString;
use std::path::PathBuf;

/// A program of this machine that may be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program; an absolute path.
    pub file: PathBuf,
    /// PATH for the program, in which it looks for its own helpers.
    pub path: OsString,
}

/// Finds the programs of this machine. The implementation decides which of them are trusted.
pub trait Programs {
    /// The program of this name. Errors: it is not installed, or must not be started.
    fn find(&self, name: &str) -> Result<Program, MissingProgram>;
}

/// Why there is no program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingProgram {
    /// PATH has none of that name.
    Absent,
    /// The only ones in PATH must not be started.
    Untrusted {
        /// The first of them.
        file: PathBuf,
        /// Why not.
        why: &'static str,
    },
}

#[cfg(test)]
impl Program {
    pub(crate) fn at(file: &str) -> Self {
        Program { file: file.into(), path: OsString::new() }
    }
}
