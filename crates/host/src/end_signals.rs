//! Signals that end a session.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives INT, TERM and HUP from its creation on, in place of their default action.
#[derive(Debug)]
pub struct EndSignals([(Signal, u8); 3]);

impl EndSignals {
    /// Must be called on a tokio runtime with IO.
    pub fn listen() -> io::Result<Self> {
        let listen = |kind: SignalKind| {
            let number = u8::try_from(kind.as_raw_value()).unwrap_or_default();
            signal(kind).map(|signal| (signal, number))
        };
        Ok(EndSignals([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for a signal and returns its number.
    pub async fn recv(&mut self) -> u8 {
        let [(int, int_number), (term, term_number), (hup, hup_number)] = &mut self.0;
        tokio::select! {
            _ = int.recv() => *int_number,
            _ = term.recv() => *term_number,
            _ = hup.recv() => *hup_number,
        }
    }
}
