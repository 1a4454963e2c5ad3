//! Watches a running call for its deadline and the session's end.

use std::future::Future;
use std::pin::pin;

use aifo_sidecar::{Canceller, deadline_reached};
use aifo_types::{Ending, exit};
use aifo_wire::{CancelCause, Interrupt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::registry::Registration;

/// Ends one tool at its deadline and when the session ends.
///
/// The exec's task awaits everything through [`CallWatcher::watch`], so that a client that does not
/// read cannot extend the tool's time.
#[derive(Debug)]
pub(crate) struct CallWatcher {
    canceller: Canceller,
    deadline: Option<Instant>,
    shutdown: watch::Receiver<bool>,
    shutting_down: bool,
    timed_out: bool,
    at_limit: TimeLimit,
}

/// How a tool is ended at its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeLimit {
    /// INT, TERM 5 s later, KILL 10 s later: the signal escalation for tools.
    Escalate,
    /// As after a disconnect: a notification does not need ten seconds to end.
    Cancel,
}

impl CallWatcher {
    pub(crate) fn new(
        canceller: Canceller,
        deadline: Option<Instant>,
        at_limit: TimeLimit,
        shutdown: watch::Receiver<bool>,
    ) -> Self {
        CallWatcher {
            canceller,
            deadline,
            shutdown,
            shutting_down: false,
            timed_out: false,
            at_limit,
        }
    }

    /// Awaits `work`, and meanwhile ends the tool when it must end.
    pub(crate) async fn watch<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                output = &mut work => return output,
                () = deadline_reached(self.deadline), if !self.timed_out => {
                    self.timed_out = true;
                    tracing::debug!("time limit reached, escalating");
                    let cause = match self.at_limit {
                        TimeLimit::Escalate => CancelCause::Timeout,
                        TimeLimit::Cancel => CancelCause::Disconnect,
                    };
                    self.canceller.cancel(cause, Interrupt::Send);
                }
                () = shutdown_requested(&mut self.shutdown), if !self.shutting_down => {
                    self.shutting_down = true;
                    self.canceller.cancel(CancelCause::Shutdown, Interrupt::Send);
                }
            }
        }
    }

    /// Ends the tool after the client's disconnect. If the client has just sent a signal, the tool
    /// has 5 s to handle it.
    pub(crate) fn disconnect(&self, registration: &Registration) {
        let interrupt = match registration.was_signalled_recently() {
            true => Interrupt::Skip,
            false => Interrupt::Send,
        };
        self.canceller.cancel(CancelCause::Disconnect, interrupt);
    }

    pub(crate) fn timed_out(&self) -> bool {
        self.timed_out
    }

    pub(crate) fn exit_code(&self, ending: Option<Ending>) -> u8 {
        match ending {
            None => exit::UNKNOWN,
            Some(_) if self.timed_out => exit::TIMED_OUT,
            Some(ending) => ending.exit_code(),
        }
    }
}

/// Waits for the shutdown of the proxy or mailbox daemon. Cancel-safe.
pub(crate) async fn shutdown_requested(shutdown: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped, which ends the session too.
    let _ = shutdown.wait_for(|shutdown| *shutdown).await;
}
