//! What an argument list makes a runtime run.

use crate::decision::Reason;

/// The entry point that a runtime's arguments name. What follows it is the program's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryPoint<'a> {
    /// A file or folder, as typed.
    Script(&'a [u8]),
    /// A python module.
    Module(&'a [u8]),
    /// No program of the file system, for this reason.
    NoFile(Reason),
}
