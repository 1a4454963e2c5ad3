//! Input from the caller terminal (`spec/terminal.md#at-the-caller`).

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

/// A stdin that is a terminal. It is read, in raw mode, only while the shim is in the terminal's
/// foreground process group. Drop restores the modes.
#[derive(Debug)]
pub(crate) struct TerminalInput {
    fd: StandardFd,
    reader: StdinForwarder,
    processing: OutputProcessing,
    ownership: TtyOwnership,
    /// True if the runner was sent that the shim is in the background.
    is_background_sent: bool,
}

/// The terminal that processes output (`OPOST`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputProcessing {
    /// The tool's pseudo terminal, by the modes that the tool sets.
    Remote,
    /// The caller terminal. Another process, usually a pipeline's next, writes to it.
    Local,
}

#[derive(Debug)]
enum TtyOwnership {
    /// Not acquired. Holds the time of the next attempt.
    NotOwned(Instant),
    /// Acquired. Holds the previous modes, and a lock if the terminal could be opened.
    Owned(TerminalModes, Option<Flock<OwnedFd>>),
    /// The terminal has hung up.
    HungUp,
}

impl TerminalInput {
    pub(crate) fn new(processing: OutputProcessing) -> Self {
        let reader = StdinForwarder::for_terminal(StandardFd::input());
        let ownership = TtyOwnership::NotOwned(Instant::now());
        let fd = StandardFd::input();
        TerminalInput { fd, reader, processing, ownership, is_background_sent: false }
    }

    /// Acquires the terminal if an attempt is due and the shim is in the foreground. Otherwise the
    /// tool becomes a background process of its own terminal.
    pub(crate) fn try_acquire(&mut self, now: Instant, connection: &mut FrameConnection) {
        let TtyOwnership::NotOwned(due) = self.ownership else { return };
        if now < due {
            return;
        }
        self.ownership = self.acquire().unwrap_or(TtyOwnership::NotOwned(now + RETRY_INTERVAL));
        let is_owned = matches!(self.ownership, TtyOwnership::Owned(..));
        // Another terminal than the controlling one has no job control.
        let is_background = !is_owned && terminal::is_background(self.fd.as_fd());
        if is_background != self.is_background_sent {
            self.is_background_sent = is_background;
            let number = if is_background { Signal::SIGTTIN } else { Signal::SIGTTOU };
            connection.push(&Frame::Signal { number: number as u8 });
        }
        if !is_owned {
            return;
        }
        // SIGWINCH is only sent to the foreground process group.
        if let Ok(size) = terminal::window_size(self.fd.as_fd()) {
            connection.push(&Frame::Resize(size));
        }
    }

    /// Makes the next attempt due.
    pub(crate) fn retry_now(&mut self) {
        if let TtyOwnership::NotOwned(due) = &mut self.ownership {
            *due = Instant::now();
        }
    }

    /// Returns when the next attempt is due, if one is.
    pub(crate) fn next_attempt(&self) -> Option<Instant> {
        match self.ownership {
            TtyOwnership::NotOwned(due) => Some(due),
            TtyOwnership::Owned(..) | TtyOwnership::HungUp => None,
        }
    }

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

    /// Adds credit in bytes. Errors: the sum exceeds the limit.
    pub(crate) fn add_credit(&mut self, bytes: u32) -> Result<(), CreditError> {
        self.reader.add_credit(bytes)
    }

    pub(crate) fn read(&mut self, connection: &mut FrameConnection) {
        // A read in the background would stop the shim while the terminal is raw.
        if !terminal::is_foreground(self.fd.as_fd()) {
            self.release();
            return;
        }
        if self.reader.read(connection) == ReadOutcome::End {
            // Hung up; SIGHUP is forwarded to the tool.
            self.release();
            self.ownership = TtyOwnership::HungUp;
        }
    }

    /// Returns typed bytes that the ended tool has not read to the terminal, for the next program.
    /// `taken` is the report of the runner: one more than the used bytes, or 0.
    ///
    /// The terminal is still raw, so they are neither echoed again nor edited.
    pub(crate) fn give_back(&mut self, taken: u64) {
        let Some(taken) = taken.checked_sub(1) else { return };
        let is_owned = matches!(self.ownership, TtyOwnership::Owned(..));
        if !is_owned || !terminal::is_foreground(self.fd.as_fd()) || !terminal::can_insert_input() {
            return;
        }
        let Some(mut keys) = self.reader.unread_keys(taken) else { return };
        keys.iter_mut().filter(|key| **key == b'\r').for_each(|key| *key = b'\n');
        // A sandbox may refuse it; then the bytes are lost.
        let _ = terminal::insert_input(self.fd.as_fd(), &keys);
    }

    pub(crate) fn release(&mut self) {
        let not_owned = TtyOwnership::NotOwned(Instant::now() + RETRY_INTERVAL);
        if let TtyOwnership::Owned(modes, lock) = std::mem::replace(&mut self.ownership, not_owned)
        {
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
            Ok(tty) => match Flock::lock(tty, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => Some(lock),
                // Another shim reads from this terminal.
                Err((_, Errno::EWOULDBLOCK)) => return None,
                Err(_) => None,
            },
            // It cannot be opened, for example from another container; use it without a lock.
            Err(_) => None,
        };
        // Read the modes after locking: the previous owner restores them before it unlocks.
        let modes = terminal::modes(self.fd.as_fd()).ok()?;
        let mut raw = terminal::raw(&modes);
        if self.processing == OutputProcessing::Local {
            raw.output = modes.output;
        }
        self.set_modes(&raw);
        self.reader.set_reader(lock.as_ref().and_then(|lock| lock.try_clone().ok()));
        Some(TtyOwnership::Owned(modes, lock))
    }

    /// Sets the modes. Blocks SIGTTOU, since the shim may be in the background.
    fn set_modes(&self, modes: &TerminalModes) {
        let mut only = SignalSet::default();
        only.insert(Signal::SIGTTOU as u8);
        let before = only.block();
        // A hung-up terminal has no modes to restore.
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

/// Returns modes without output processing, which the caller terminal does then.
pub(crate) fn without_output_processing(mut modes: TerminalModes) -> TerminalModes {
    modes.output &= !libc::OPOST;
    modes
}

const RETRY_INTERVAL: Duration = Duration::from_millis(250);
