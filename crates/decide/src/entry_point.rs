//! The entry point in a runtime's arguments.

use crate::decision::Reason;

/// The entry point in a runtime's arguments. Later arguments belong to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryPoint<'a> {
    /// A file or directory, as typed.
    Script(&'a [u8]),
    /// A python module.
    Module(&'a [u8]),
    /// Neither a file nor a module, for this reason.
    NoFile(Reason),
}
