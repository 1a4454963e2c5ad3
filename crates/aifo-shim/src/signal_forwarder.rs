//! Signals of a version 2 call, sent by `/signal` (`spec/shim.md#signals`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aifo_process::{CaughtSignals, SignalSet, is_ignored};
use aifo_types::{ExecId, Signal};
use nix::sys::signal::{Signal as Number, raise};

use crate::connection;
use crate::settings::ProxyAddress;

/// Forwards signals to the tool, each by a `/signal` request.
///
/// The signals are blocked and read from a descriptor, so that one poll waits for them and for
/// output. No handler or thread is needed, and no signal is lost between a check and a wait.
#[derive(Debug)]
pub(crate) struct SignalForwarder {
    proxy: ProxyAddress,
    id: ExecId,
    caught: CaughtSignals,
    interrupt_count: u32,
    /// Connections of requests; closing one early could look like a disconnect.
    requests: Vec<OwnedFd>,
}

/// Result of forwarding a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardOutcome {
    Wait,
    /// INT came again after KILL: the proxy does not respond.
    GiveUp,
}

/// Signals that are forwarded unchanged. INT escalates.
const FORWARDED: [(Number, Signal); 7] = [
    (Number::SIGTERM, Signal::Term),
    (Number::SIGHUP, Signal::Hup),
    (Number::SIGQUIT, Signal::Quit),
    (Number::SIGUSR1, Signal::Usr1),
    (Number::SIGUSR2, Signal::Usr2),
    (Number::SIGTSTP, Signal::Tstp),
    (Number::SIGCONT, Signal::Cont),
];

/// The signals sent for the first, second and third INT.
const ESCALATION: [Signal; 3] = [Signal::Int, Signal::Term, Signal::Kill];

impl SignalForwarder {
    /// Blocks the signals for reading. Ignored signals stay ignored.
    pub(crate) fn catch(proxy: ProxyAddress, id: ExecId) -> nix::Result<Self> {
        let mut watched = SignalSet::default();
        let all = FORWARDED.iter().map(|(number, _)| *number).chain([Number::SIGINT]);
        all.filter(|number| !is_ignored(*number)).for_each(|it| watched.insert(it as u8));
        let caught = CaughtSignals::new(watched)?;
        // Unblock the further signals that a version 3 attempt had caught.
        watched.restore()?;
        Ok(SignalForwarder { proxy, id, caught, interrupt_count: 0, requests: Vec::new() })
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt_count > 0
    }

    pub(crate) fn forward(&mut self) -> ForwardOutcome {
        while let Some(caught) = self.caught.next() {
            let signal = match Number::try_from(i32::from(caught.number)) {
                Ok(Number::SIGINT) => {
                    let step = ESCALATION.get(self.interrupt_count as usize);
                    self.interrupt_count = self.interrupt_count.saturating_add(1);
                    let Some(step) = step else { return ForwardOutcome::GiveUp };
                    *step
                }
                Ok(number) => {
                    let row = FORWARDED.iter().find(|(known, _)| *known == number);
                    let Some((_, signal)) = row else { continue };
                    *signal
                }
                Err(_) => continue,
            };
            self.post(signal);
            if signal == Signal::Tstp {
                // Stop as the tool does. CONT is read next.
                let _ = raise(Number::SIGSTOP);
            }
        }
        ForwardOutcome::Wait
    }

    /// Sends a signal request without reading the response: the call's own connection reports the
    /// result and a failure of the proxy.
    fn post(&mut self, signal: Signal) {
        let mut request = Vec::new();
        let ProxyAddress { endpoint, token } = &self.proxy;
        aifo_wire::encode_signal(&mut request, endpoint, token, &self.id, signal);
        if let Ok(socket) = connection::open(endpoint) {
            connection::send_request(&socket, &request);
            self.requests.push(socket.into());
        }
    }
}

impl AsFd for SignalForwarder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.caught.as_fd()
    }
}
