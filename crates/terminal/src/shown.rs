//! A held terminal, shown on this one by the program that runs.

use std::ffi::{CString, OsStr};
use std::io;

use crate::client::{Client, ClientEnd};
use crate::connection::Connection;
use crate::detach_keys::DetachSequence;
use crate::guard::{PROGRAM, guard};

/// The first argument of a process that guards a client terminal.
const GUARD: &str = "_guard";
/// Runs a guard, if the first argument of the command line is one's. A program that calls [`show_held`] calls
/// this before it does anything else.
pub fn guard_process(first: &OsStr) -> Option<io::Result<()>> {
    (first == GUARD).then(guard)
}

/// Shows a held terminal on this one until it ends or its client leaves; `keys` leave it. Errors: those of
/// this terminal.
pub fn show_held(connection: Connection, keys: Option<DetachSequence>) -> io::Result<ClientEnd> {
    let program = CString::new(PROGRAM)?;
    let client = Client::new(connection, (&program, GUARD)).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot use this terminal: {error}"))
    })?;
    client.with_detach_keys(keys).run()
}
