//! The caller's terminal as the place where one types (`spec/terminal.md#at-the-caller`).

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use aifo_process::{SignalSet, terminal};
use aifo_types::TerminalModes;
use aifo_wire::{CreditError, Frame};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::libc;
use nix::poll::PollFlags;
use nix::sys::signal::Signal;

use crate::frame_connection::FrameConnection;
use crate::standard_fd::StandardFd;
use crate::stdin_forwarder::{ReadOutcome, StdinForwarder, reopen_nonblocking};

/// A stdin that is a terminal. It is raw exactly while it is read, which is while we are in its
/// foreground; dropping this puts its modes back.
#[derive(Debug)]
pub(crate) struct TerminalInput {
    fd: StandardFd,
    reader: StdinForwarder,
    processing: OutputProcessing,
    ownership: TtyOwnership,
}

/// Who makes line ends of what the tool prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputProcessing {
    /// The pseudo terminal, by whatever modes the tool sets.
    Remote,
    /// The caller's terminal: somebody else writes to it, the next program of a pipeline as a rule.
    Local,
}

#[derive(Debug)]
enum TtyOwnership {
    /// Not ours now. When to look again.
    NotOwned(Instant),
    /// Ours. What its modes were, and the lock on it, if it can be opened.
    Owned(TerminalModes, Option<Flock<OwnedFd>>),
    /// It is gone for good.
    HungUp,
}

impl TerminalInput {
    /// The terminal that is stdin; nothing is done to it yet.
    pub(crate) fn new(processing: OutputProcessing) -> Self {
        let reader = StdinForwarder::for_terminal(StandardFd::input());
        let ownership = TtyOwnership::NotOwned(Instant::now());
        TerminalInput { fd: StandardFd::input(), reader, processing, ownership }
    }

    /// Takes the terminal if it is ours to take and it is time to look.
    pub(crate) fn try_acquire(&mut self, now: Instant, connection: &mut FrameConnection) {
        let TtyOwnership::NotOwned(due) = self.ownership else { return };
        if now < due {
            return;
        }
        self.ownership = self.acquire().unwrap_or(TtyOwnership::NotOwned(now + RETRY_INTERVAL));
        if !matches!(self.ownership, TtyOwnership::Owned(..)) {
            return;
        }
        // It may have changed while we did not hear of it.
        if let Ok(size) = terminal::window_size(self.fd.as_fd()) {
            connection.push(&Frame::Resize(size));
        }
    }

    /// Looks anew as soon as possible: something has changed.
    pub(crate) fn retry_now(&mut self) {
        if let TtyOwnership::NotOwned(due) = &mut self.ownership {
            *due = Instant::now();
        }
    }

    /// When to look again; `None` if nothing has to be looked for.
    pub(crate) fn next_attempt(&self) -> Option<Instant> {
        match self.ownership {
            TtyOwnership::NotOwned(due) => Some(due),
            TtyOwnership::Owned(..) | TtyOwnership::HungUp => None,
        }
    }

    /// What to wait for.
    pub(crate) fn poll_interest(
        &self,
        connection: &FrameConnection,
    ) -> Option<(std::os::fd::BorrowedFd<'_>, PollFlags)> {
        if matches!(self.ownership, TtyOwnership::Owned(..)) {
            self.reader.poll_interest(connection)
        } else {
            None
        }
    }

    /// The tool takes so many bytes more. Errors: more than there can be.
    pub(crate) fn add_credit(&mut self, bytes: u32) -> Result<(), CreditError> {
        self.reader.add_credit(bytes)
    }

    /// Has sent what was typed.
    pub(crate) fn read(&mut self, connection: &mut FrameConnection) {
        // Reading from the background would stop us with the terminal as it is.
        if !terminal::is_foreground(self.fd.as_fd()) {
            self.release();
            return;
        }
        if self.reader.read(connection) == ReadOutcome::End {
            // It was hung up; the tool hears of it by HUP.
            self.release();
            self.ownership = TtyOwnership::HungUp;
        }
    }

    /// Puts the terminal back as it was.
    pub(crate) fn release(&mut self) {
        let away = TtyOwnership::NotOwned(Instant::now() + RETRY_INTERVAL);
        if let TtyOwnership::Owned(modes, lock) = std::mem::replace(&mut self.ownership, away) {
            self.set_modes(&modes);
            self.reader.set_reader(None);
            drop(lock);
        }
    }

    fn acquire(&mut self) -> Option<TtyOwnership> {
        if !terminal::is_foreground(self.fd.as_fd()) {
            return None;
        }
        let lock = match reopen_nonblocking(&self.fd, OFlag::O_RDWR) {
            Ok(own) => match Flock::lock(own, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => Some(lock),
                // Another shim reads here.
                Err((_, Errno::EWOULDBLOCK)) => return None,
                Err(_) => None,
            },
            // A terminal of another container, say; it is ours all the same.
            Err(_) => None,
        };
        // Only now: whoever held the lock has put them back before.
        let modes = terminal::modes(self.fd.as_fd()).ok()?;
        let mut raw = terminal::raw(&modes);
        if self.processing == OutputProcessing::Local {
            raw.output = modes.output;
        }
        self.set_modes(&raw);
        self.reader.set_reader(lock.as_ref().and_then(|lock| lock.try_clone().ok()));
        Some(TtyOwnership::Owned(modes, lock))
    }

    /// Sets modes, be it from the background, to which we may have been moved.
    fn set_modes(&self, modes: &TerminalModes) {
        let mut only = SignalSet::default();
        only.insert(Signal::SIGTTOU as u8);
        let before = only.block();
        // A terminal that was hung up has no modes to put back.
        let _ = terminal::set_modes(self.fd.as_fd(), modes);
        if let Ok(before) = before {
            let _ = before.restore();
        }
    }
}

impl Drop for TerminalInput {
    fn drop(&mut self) {
        self.release();
    }
}

/// Modes for a pseudo terminal that does not make line ends: the caller's terminal does.
pub(crate) fn without_output_processing(mut modes: TerminalModes) -> TerminalModes {
    modes.output &= !libc::OPOST;
    modes
}

/// How often a terminal that is not ours is looked at.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
