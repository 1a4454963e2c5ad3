//! A held terminal, shown on this one by the program that runs.

use std::io;

use crate::client::{Client, ClientEnd};
use crate::connection::Connection;
use crate::detach_keys::DetachSequence;

/// Shows a held terminal on this one until it ends or its client leaves; `keys` leave it. Errors: those of
/// this terminal.
pub fn show_held(connection: Connection, keys: Option<DetachSequence>) -> io::Result<ClientEnd> {
    let client = Client::new(connection).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot use this terminal: {error}"))
    })?;
    client.with_detach_keys(keys).run()
}
