//! The client of a held terminal, of this machine or of a pod (`spec/attach.md`).

use std::ffi::{CString, OsStr};
use std::process::ExitCode;

use aifo_attach::{Client, ClientEnd, Connection, DetachSequence, guard};
use anyhow::Context;

/// The first argument of a process that guards a client's terminal.
const GUARD: &str = "_guard";
/// This program, whatever has become of its file.
pub(crate) const PROGRAM: &str = "/proc/self/exe";

/// Runs a guard, if the command line is one's.
pub(crate) fn process(first: &OsStr) -> Option<anyhow::Result<ExitCode>> {
    (first == GUARD).then(|| Ok(guard().map(|()| ExitCode::SUCCESS)?))
}

/// Shows a held terminal on this one.
pub(crate) fn client(connection: Connection) -> anyhow::Result<ClientEnd> {
    let program = CString::new(PROGRAM)?;
    let client = Client::new(connection, (&program, GUARD)).context("cannot use this terminal")?;
    // An error of the file must not keep a user out of a session.
    let keys = aifo_config::load_user().map_err(|error| tracing::warn!("{error}"));
    let keys = keys.map_or_else(|()| Some(DetachSequence::default()), |it| it.detach_keys.value);
    Ok(client.with_detach_keys(keys).run()?)
}
