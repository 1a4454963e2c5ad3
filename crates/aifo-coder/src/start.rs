//! Starts a session; a signal cancels the start.

use aifo_launch::{Session, SessionConfig};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cleanup;
use crate::console::{self, PROGRESS};

/// Receives INT, TERM and HUP from its creation on.
pub(crate) struct EndSignals([(Signal, u8); 3]);

impl EndSignals {
    pub(crate) fn listen() -> std::io::Result<Self> {
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
    pub(crate) async fn recv(&mut self) -> u8 {
        let [(int, int_number), (term, term_number), (hup, hup_number)] = &mut self.0;
        tokio::select! {
            _ = int.recv() => *int_number,
            _ = term.recv() => *term_number,
            _ = hup.recv() => *hup_number,
        }
    }
}

/// A running session, or the number of the signal that cancelled its start.
pub(crate) enum Started {
    Running(Box<Session>),
    Cancelled(u8),
}

/// Starts a session. A signal cancels the start and removes what has been started.
pub(crate) async fn start(
    config: SessionConfig,
    signals: &mut EndSignals,
) -> anyhow::Result<Started> {
    tokio::select! {
        () = cleanup::remove_killed_sessions() => {}
        signal = signals.recv() => return Ok(Started::Cancelled(signal)),
    }
    let started = Session::start_or_cancel(config, signals.recv()).await;
    console::set_status("");
    Ok(match started? {
        Ok(session) => {
            if let Some(notice) = session.state_notice() {
                tracing::info!(target: PROGRESS, "{notice}");
            }
            Started::Running(Box::new(session))
        }
        Err(signal) => Started::Cancelled(signal),
    })
}
