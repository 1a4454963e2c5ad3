//! What the event loop waits for.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use aifo_wire::Stream;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// A number that names one exec of a runner, never used twice.
pub(crate) type Slot = u64;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Control,
    /// The way out of the control connection, which is full.
    Uplink,
    Signals,
    Exec(Slot, Port),
}

/// An fd of an exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The client's connection.
    Client,
    /// The connection to the monitor of its terminal.
    Monitor,
    /// Our end of a stream.
    Lane(Stream),
}

/// What has become ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) source: Source,
    /// There is room to write, or a write will tell that nobody reads.
    pub(crate) room: bool,
    /// Something to read, an end, or an error, which a read will tell.
    pub(crate) input: bool,
}

/// An epoll instance whose tokens are sources.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: Epoll,
}

impl Port {
    /// All of them; an exec has a few.
    pub(crate) const ALL: [Port; 6] = [
        Port::Client,
        Port::Monitor,
        Port::Lane(Stream::Stdin),
        Port::Lane(Stream::Stdout),
        Port::Lane(Stream::Stderr),
        Port::Lane(Stream::Terminal),
    ];
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Poller { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    /// Waits for input on `fd` from now on.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, source: Source) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, source.token()))?)
    }

    /// Waits for `fd` no longer. To be said before an fd is closed whose open file somebody else has
    /// too; any other leaves epoll by being closed.
    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) {
        // It may not have been waited for.
        let _ = self.epoll.delete(fd);
    }

    /// Makes epoll wait for what is wanted now on `fd`, after what was wanted `before`.
    pub(crate) fn update(
        &self,
        fd: BorrowedFd<'_>,
        source: Source,
        before: EpollFlags,
        wanted: EpollFlags,
    ) -> io::Result<()> {
        if before == wanted {
            return Ok(());
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
        Ok(())
    }

    /// Waits until something is ready, `deadline` has come or a signal has; appends what is ready.
    pub(crate) fn wait(&self, deadline: Option<Instant>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, wait_time(deadline)) {
            Err(Errno::EINTR) => 0,
            result => result?,
        };
        let writable = EpollFlags::EPOLLOUT | EpollFlags::EPOLLERR;
        ready.extend(events.iter().take(count).map(|event| Ready {
            source: Source::from_token(event.data()),
            room: event.events().intersects(writable),
            input: event.events().intersects(!EpollFlags::EPOLLOUT),
        }));
        Ok(())
    }
}

impl Source {
    fn token(self) -> u64 {
        match self {
            Source::Control => 0,
            Source::Signals => 1,
            Source::Uplink => 2,
            Source::Exec(slot, port) => {
                let port = Port::ALL.iter().position(|known| *known == port).unwrap_or(0);
                (slot + 1) * PORTS + port as u64
            }
        }
    }

    fn from_token(token: u64) -> Self {
        match (token / PORTS, (token % PORTS) as usize) {
            (0, 0) => Source::Control,
            (0, 1) => Source::Signals,
            (0, _) => Source::Uplink,
            (slot, port) => {
                Source::Exec(slot - 1, Port::ALL.get(port).copied().unwrap_or(Port::Client))
            }
        }
    }
}

/// Room for every port in a token.
const PORTS: u64 = 8;

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
        let execs = [0, 7].into_iter().flat_map(|slot| Port::ALL.map(|port| (slot, port)));
        let execs = execs.map(|(slot, port)| Source::Exec(slot, port));
        for source in [Source::Control, Source::Uplink, Source::Signals].into_iter().chain(execs) {
            assert_eq!(Source::from_token(source.token()), source);
        }
    }
}
