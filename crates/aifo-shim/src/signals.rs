//! The signals of a version 3 call: all are the tool's, each as it is (`spec/shim.md#signals`).

use std::os::fd::{AsFd, BorrowedFd};

use aifo_process::{CaughtSignals, SignalSet, is_ignored};
use nix::sys::signal::{Signal, raise};

/// Catches every signal that can be caught as something to read.
///
/// Blocked and read from an fd, they can be waited for together with output, without a handler or a
/// thread, and none can come between a check and a wait.
#[derive(Debug)]
pub(crate) struct Signals {
    caught: CaughtSignals,
    /// Which have come, and how often those whose number counts.
    received: SignalSet,
    interrupts: u32,
    continued: u32,
}

/// What is not caught: KILL and STOP cannot be; CHLD tells of children, and we have none; a write to
/// a pipe without a reader is an error here; and TTIN and TTOU stop who touches a terminal from the
/// background, which would be us.
const NOT_FORWARDED: [Signal; 6] = [
    Signal::SIGKILL,
    Signal::SIGSTOP,
    Signal::SIGCHLD,
    Signal::SIGPIPE,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

impl Signals {
    /// From now on signals wait to be read. One that our parent ignores stays ignored.
    pub(crate) fn catch(ignored: SignalSet) -> nix::Result<Self> {
        let mut set = SignalSet::from_bits(!ignored.bits());
        NOT_FORWARDED.iter().for_each(|signal| set.remove(*signal as u8));
        let caught = CaughtSignals::new(set)?;
        Ok(Signals { caught, received: SignalSet::default(), interrupts: 0, continued: 0 })
    }

    /// The next one that has come.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let number = self.caught.next()?.number;
        self.received.insert(number);
        if number == Signal::SIGINT as u8 {
            self.interrupts = self.interrupts.saturating_add(1);
        }
        if number == Signal::SIGCONT as u8 {
            self.continued = self.continued.wrapping_add(1);
        }
        Some(number)
    }

    /// Whether one has come to us.
    pub(crate) fn has_received(&self, number: u8) -> bool {
        self.received.contains(number)
    }

    /// How often INT has come.
    pub(crate) fn interrupt_count(&self) -> u32 {
        self.interrupts
    }

    /// How often CONT has come.
    pub(crate) fn continue_count(&self) -> u32 {
        self.continued
    }

    /// Counts a CONT that nobody sent.
    pub(crate) fn add_continue(&mut self) {
        self.continued = self.continued.wrapping_add(1);
    }

    /// Has those that came wait once more, for another who reads them.
    pub(crate) fn raise_again(&self) {
        for number in self.received.iter() {
            if let Ok(signal) = Signal::try_from(i32::from(number)) {
                let _ = raise(signal);
            }
        }
    }

    /// Stops this process, and returns when it goes on. `number` is what stopped the tool.
    pub(crate) fn stop(&mut self, number: u8) {
        let mut only = SignalSet::default();
        only.insert(Signal::SIGTSTP as u8);
        if number == Signal::SIGTSTP as u8 && !is_ignored(Signal::SIGTSTP) {
            // Whoever waits for us is told the very signal. One that came to our whole group waits
            // for us already.
            let _ = raise(Signal::SIGTSTP);
            let _ = only.unblock();
            let _ = only.block();
        } else {
            let _ = raise(Signal::SIGSTOP);
        }
        self.received.remove(number);
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.caught.as_fd()
    }
}
