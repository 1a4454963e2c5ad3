//! What the event loop waits for.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::exec::Interest;

/// A number that names one exec of a runner, never used twice.
pub(crate) type Slot = u64;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Control,
    Signals,
    Channel(Slot),
    Output(Slot),
}

/// What has become ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) source: Source,
    /// There is room to write.
    pub(crate) room: bool,
    /// Something to read, an end, or an error, which a read will tell.
    pub(crate) input: bool,
}

/// An epoll instance whose tokens are sources.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: Epoll,
}

/// The fds of one exec, as far as they are open.
#[derive(Debug)]
pub(crate) struct ExecFds<'a> {
    pub(crate) channel: Option<BorrowedFd<'a>>,
    pub(crate) output: Option<BorrowedFd<'a>>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Poller { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    /// Waits for input on `fd` from now on.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, source: Source) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, source.token()))?)
    }

    /// Waits for `fd` no longer.
    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.epoll.delete(fd)?)
    }

    /// Makes epoll wait for what an exec wants now, after what it wanted `before`. An fd that was
    /// closed has left epoll by itself.
    pub(crate) fn update(
        &self,
        slot: Slot,
        fds: &ExecFds<'_>,
        before: Interest,
        wanted: Interest,
    ) -> io::Result<()> {
        let changes = [
            (fds.channel, Source::Channel(slot), before.channel_events(), wanted.channel_events()),
            (fds.output, Source::Output(slot), before.output_events(), wanted.output_events()),
        ];
        for (fd, source, before, wanted) in changes {
            let Some(fd) = fd else { continue };
            if before == wanted {
                continue;
            }
            let mut event = EpollEvent::new(wanted, source.token());
            if before.is_empty() {
                self.epoll.add(fd, event)?;
            } else if wanted.is_empty() {
                // Not merely muted: a hang-up is reported whether it is wanted or not.
                self.epoll.delete(fd)?;
            } else {
                self.epoll.modify(fd, &mut event)?;
            }
        }
        Ok(())
    }

    /// Waits until something is ready, `deadline` has come or a signal has; appends what is ready.
    pub(crate) fn wait(&self, deadline: Option<Instant>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, wait_time(deadline)) {
            Err(Errno::EINTR) => 0,
            result => result?,
        };
        ready.extend(events.iter().take(count).map(|event| Ready {
            source: Source::from_token(event.data()),
            room: event.events().contains(EpollFlags::EPOLLOUT),
            input: event.events().intersects(!EpollFlags::EPOLLOUT),
        }));
        Ok(())
    }
}

impl Interest {
    fn channel_events(self) -> EpollFlags {
        let mut events = EpollFlags::empty();
        events.set(EpollFlags::EPOLLIN, self.channel);
        events.set(EpollFlags::EPOLLOUT, self.channel_room);
        events
    }

    fn output_events(self) -> EpollFlags {
        if self.output { EpollFlags::EPOLLIN } else { EpollFlags::empty() }
    }
}

impl Source {
    fn token(self) -> u64 {
        match self {
            Source::Control => 0,
            Source::Signals => 1,
            Source::Channel(slot) => 2 * (slot + 1),
            Source::Output(slot) => 2 * (slot + 1) + 1,
        }
    }

    fn from_token(token: u64) -> Self {
        match (token / 2, token % 2) {
            (0, 0) => Source::Control,
            (0, _) => Source::Signals,
            (slot, 0) => Source::Channel(slot - 1),
            (slot, _) => Source::Output(slot - 1),
        }
    }
}

fn wait_time(deadline: Option<Instant>) -> EpollTimeout {
    let Some(deadline) = deadline else { return EpollTimeout::NONE };
    // Rounded up, so that what is due is due when we wake for it.
    let wait = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    EpollTimeout::try_from(wait).unwrap_or(EpollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_there_and_back() {
        let sources = [Source::Control, Source::Signals, Source::Channel(0), Source::Output(0)];
        for source in sources.into_iter().chain([Source::Channel(7), Source::Output(7)]) {
            assert_eq!(Source::from_token(source.token()), source);
        }
    }
}
