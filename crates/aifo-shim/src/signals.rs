//! Signals of a version 3 call, all forwarded unchanged (`spec/shim.md#signals`).

use std::os::fd::{AsFd, BorrowedFd};

use aifo_process::{CaughtSignals, SignalSet, is_ignored};
use nix::sys::signal::{Signal, raise};
use nix::unistd::{getpgid, getpgrp, getppid, getsid};

/// Signals that are blocked and read from a descriptor.
///
/// One poll waits for them and for output. No handler or thread is needed, and no signal is lost
/// between a check and a wait.
#[derive(Debug)]
pub(crate) struct Signals {
    caught: CaughtSignals,
    received: SignalSet,
    interrupts: u32,
    continued: u32,
}

/// Signals that are not caught. KILL and STOP cannot be; the shim has no children (CHLD) and sees
/// EPIPE instead of PIPE; TTIN and TTOU stop a process that uses its terminal from the background.
const NOT_FORWARDED: [Signal; 6] = [
    Signal::SIGKILL,
    Signal::SIGSTOP,
    Signal::SIGCHLD,
    Signal::SIGPIPE,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

impl Signals {
    /// Blocks the signals for reading. Ignored signals stay ignored.
    pub(crate) fn catch(ignored: SignalSet) -> nix::Result<Self> {
        let mut set = SignalSet::from_bits(!ignored.bits());
        NOT_FORWARDED.iter().for_each(|signal| set.remove(*signal as u8));
        let caught = CaughtSignals::new(set)?;
        Ok(Signals { caught, received: SignalSet::default(), interrupts: 0, continued: 0 })
    }

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

    pub(crate) fn has_received(&self, number: u8) -> bool {
        self.received.contains(number)
    }

    pub(crate) fn interrupt_count(&self) -> u32 {
        self.interrupts
    }

    pub(crate) fn continue_count(&self) -> u32 {
        self.continued
    }

    /// Counts a CONT that was implied, not sent.
    pub(crate) fn add_continue(&mut self) {
        self.continued = self.continued.wrapping_add(1);
    }

    /// Raises all signals that have arrived again, for another reader.
    pub(crate) fn raise_again(&self) {
        for number in self.received.iter() {
            if let Ok(signal) = Signal::try_from(i32::from(number)) {
                let _ = raise(signal);
            }
        }
    }

    /// Stops this process and returns when it continues. `number` is the signal that stopped the
    /// tool.
    pub(crate) fn stop(&mut self, number: u8) {
        let mut only = SignalSet::default();
        only.insert(Signal::SIGTSTP as u8);
        if number == Signal::SIGTSTP as u8 && !is_ignored(Signal::SIGTSTP) {
            // The parent's wait status shows TSTP. A TSTP sent to the whole process group is
            // already pending.
            let _ = raise(Signal::SIGTSTP);
            let _ = only.unblock();
            let _ = only.block();
        } else {
            let tty = [Signal::SIGTTIN, Signal::SIGTTOU].into_iter();
            let mut tty = tty.filter(|signal| *signal as u8 == number && !is_ignored(*signal));
            // In an orphaned process group only STOP stops.
            let _ = raise(tty.next().filter(|_| has_job_control()).unwrap_or(Signal::SIGSTOP));
        }
        self.received.remove(number);
    }
}

/// Returns whether the parent can continue this process group: it is in the same session.
fn has_job_control() -> bool {
    let parent = getppid();
    getsid(Some(parent)).is_ok_and(|session| getsid(None) == Ok(session))
        && getpgid(Some(parent)).is_ok_and(|group| group != getpgrp())
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.caught.as_fd()
    }
}
