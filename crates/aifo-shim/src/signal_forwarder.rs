//! The signals that are for the tool.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aifo_process::{CaughtSignals, SignalSet, is_ignored};
use aifo_types::{ExecId, Signal};
use nix::sys::signal::{Signal as Number, raise};

use crate::connection;
use crate::settings::ProxyAddress;

/// Catches signals as readable events and forwards them to the tool by `/signal`.
///
/// Blocked and read from an fd, they can be waited for together with output, without a handler or a
/// thread, and none can come between a check and a wait.
#[derive(Debug)]
pub(crate) struct SignalForwarder {
    proxy: ProxyAddress,
    /// The call that the signals are for.
    id: ExecId,
    caught: CaughtSignals,
    interrupt_count: u32,
    /// Requests on their way. Closing one early could look like a client that gave up.
    requests: Vec<OwnedFd>,
}

/// What a signal asks of the call itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardOutcome {
    /// Go on and wait for the tool.
    Wait,
    /// Ctrl-C again after even KILL did not end the wait: the proxy does not answer.
    GiveUp,
}

/// What goes to the tool, beside INT, which escalates.
const FORWARDED: [(Number, Signal); 7] = [
    (Number::SIGTERM, Signal::Term),
    (Number::SIGHUP, Signal::Hup),
    (Number::SIGQUIT, Signal::Quit),
    (Number::SIGUSR1, Signal::Usr1),
    (Number::SIGUSR2, Signal::Usr2),
    (Number::SIGTSTP, Signal::Tstp),
    (Number::SIGCONT, Signal::Cont),
];

/// Ctrl-C, Ctrl-C again, and once more (`spec/shim.md#signals`).
const ESCALATION: [Signal; 3] = [Signal::Int, Signal::Term, Signal::Kill];

impl SignalForwarder {
    /// From now on signals wait to be read. One that our parent ignores stays ignored.
    pub(crate) fn catch(proxy: ProxyAddress, id: ExecId) -> nix::Result<Self> {
        let mut watched = SignalSet::default();
        let all = FORWARDED.iter().map(|(number, _)| *number).chain([Number::SIGINT]);
        all.filter(|number| !is_ignored(*number)).for_each(|it| watched.insert(it as u8));
        let caught = CaughtSignals::new(watched)?;
        // What a version 3 call caught beyond these has its own effect again.
        watched.restore()?;
        Ok(SignalForwarder { proxy, id, caught, interrupt_count: 0, requests: Vec::new() })
    }

    /// Whether the user pressed Ctrl-C.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt_count > 0
    }

    /// Forwards every signal that has come.
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
                // The tool stops over there; here it is our turn. CONT will be read next.
                let _ = raise(Number::SIGSTOP);
            }
        }
        ForwardOutcome::Wait
    }

    /// Asks the proxy to deliver a signal, without waiting for what it says: the tool's ending will
    /// tell, and so does a proxy that is gone.
    fn post(&mut self, signal: Signal) {
        let mut request = Vec::new();
        let ProxyAddress { endpoint, token } = &self.proxy;
        aifo_wire::encode_signal(&mut request, endpoint, token, &self.id, signal);
        if let Ok(socket) = connection::open(endpoint) {
            connection::send_request(&socket, &request);
            self.requests.push(socket);
        }
    }
}

impl AsFd for SignalForwarder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.caught.as_fd()
    }
}
