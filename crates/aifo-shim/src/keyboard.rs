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

use crate::inlet::{Inlet, Reading, reopen};
use crate::line::Line;
use crate::standard::Standard;

/// A stdin that is a terminal. It is raw exactly while it is read, which is while we are in its
/// foreground; dropping this puts its modes back.
#[derive(Debug)]
pub(crate) struct Keyboard {
    standard: Standard,
    inlet: Inlet,
    output: Output,
    seat: Seat,
}

/// Who makes line ends of what the tool prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// The pseudo terminal, by whatever modes the tool sets.
    There,
    /// The caller's terminal: somebody else writes to it, the next program of a pipeline as a rule.
    Here,
}

#[derive(Debug)]
enum Seat {
    /// Not ours now. When to look again.
    Away(Instant),
    /// Ours. What its modes were, and the lock on it, if it can be opened.
    Taken(TerminalModes, Option<Flock<OwnedFd>>),
    /// It is gone for good.
    Gone,
}

impl Keyboard {
    /// The terminal that is stdin; nothing is done to it yet.
    pub(crate) fn new(output: Output) -> Self {
        let inlet = Inlet::typed(Standard::input());
        let seat = Seat::Away(Instant::now());
        Keyboard { standard: Standard::input(), inlet, output, seat }
    }

    /// Takes the terminal if it is ours to take and it is time to look.
    pub(crate) fn look(&mut self, now: Instant, line: &mut Line) {
        let Seat::Away(due) = self.seat else { return };
        if now < due {
            return;
        }
        self.seat = self.take().unwrap_or(Seat::Away(now + LOOK));
        if !matches!(self.seat, Seat::Taken(..)) {
            return;
        }
        // It may have changed while we did not hear of it.
        if let Ok(size) = terminal::window_size(self.standard.as_fd()) {
            line.push(&Frame::Resize(size));
        }
    }

    /// Looks anew as soon as possible: something has changed.
    pub(crate) fn look_again(&mut self) {
        if let Seat::Away(due) = &mut self.seat {
            *due = Instant::now();
        }
    }

    /// When to look again; `None` if nothing has to be looked for.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.seat {
            Seat::Away(due) => Some(due),
            Seat::Taken(..) | Seat::Gone => None,
        }
    }

    /// What to wait for.
    pub(crate) fn wants(&self, line: &Line) -> Option<(std::os::fd::BorrowedFd<'_>, PollFlags)> {
        if matches!(self.seat, Seat::Taken(..)) { self.inlet.wants(line) } else { None }
    }

    /// The tool takes so many bytes more. Errors: more than there can be.
    pub(crate) fn grant(&mut self, bytes: u32) -> Result<(), CreditError> {
        self.inlet.grant(bytes)
    }

    /// Has sent what was typed.
    pub(crate) fn read(&mut self, line: &mut Line) {
        // Reading from the background would stop us with the terminal as it is.
        if !terminal::is_foreground(self.standard.as_fd()) {
            self.leave();
            return;
        }
        if self.inlet.read(line) == Reading::End {
            // It was hung up; the tool hears of it by HUP.
            self.leave();
            self.seat = Seat::Gone;
        }
    }

    /// Puts the terminal back as it was.
    pub(crate) fn leave(&mut self) {
        let away = Seat::Away(Instant::now() + LOOK);
        if let Seat::Taken(modes, lock) = std::mem::replace(&mut self.seat, away) {
            self.set(&modes);
            self.inlet.read_by(None);
            drop(lock);
        }
    }

    fn take(&mut self) -> Option<Seat> {
        if !terminal::is_foreground(self.standard.as_fd()) {
            return None;
        }
        let lock = match reopen(&self.standard, OFlag::O_RDWR) {
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
        let modes = terminal::modes(self.standard.as_fd()).ok()?;
        let mut raw = terminal::raw(&modes);
        if self.output == Output::Here {
            raw.output = modes.output;
        }
        self.set(&raw);
        self.inlet.read_by(lock.as_ref().and_then(|lock| lock.try_clone().ok()));
        Some(Seat::Taken(modes, lock))
    }

    /// Sets modes, be it from the background, to which we may have been moved.
    fn set(&self, modes: &TerminalModes) {
        let mut only = SignalSet::default();
        only.insert(Signal::SIGTTOU as u8);
        let before = only.block();
        // A terminal that was hung up has no modes to put back.
        let _ = terminal::set_modes(self.standard.as_fd(), modes);
        if let Ok(before) = before {
            let _ = before.restore();
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Modes for a pseudo terminal that does not make line ends: the caller's terminal does.
pub(crate) fn without_line_ends(mut modes: TerminalModes) -> TerminalModes {
    modes.output &= !libc::OPOST;
    modes
}

/// How often a terminal that is not ours is looked at.
const LOOK: Duration = Duration::from_millis(250);
