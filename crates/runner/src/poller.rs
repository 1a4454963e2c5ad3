//! What the event loop waits for.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use aifo_wire::Stream;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// A number that names one exec of a runner, never used twice.
pub(crate) type ExecKey = u64;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    Control,
    /// The way out of the control connection, which is full.
    ControlOutput,
    Signals,
    Exec(ExecKey, ExecFd),
}

/// An fd of an exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecFd {
    /// The client's connection.
    Client,
    /// The connection to the monitor of its terminal.
    Monitor,
    /// Our end of a stream.
    Stream(Stream),
}

/// What has become ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyEvent {
    pub(crate) source: EventSource,
    /// There is room to write, or a write will tell that nobody reads.
    pub(crate) writable: bool,
    /// Something to read, an end, or an error, which a read will tell.
    pub(crate) readable: bool,
}

/// An epoll instance whose tokens are sources.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: Epoll,
}

impl ExecFd {
    /// All of them; an exec has a few.
    pub(crate) const ALL: [ExecFd; 6] = [
        ExecFd::Client,
        ExecFd::Monitor,
        ExecFd::Stream(Stream::Stdin),
        ExecFd::Stream(Stream::Stdout),
        ExecFd::Stream(Stream::Stderr),
        ExecFd::Stream(Stream::Terminal),
    ];
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Poller { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    /// Waits for input on `fd` from now on.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, source: EventSource) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, source.token()))?)
    }

    /// Waits for `fd` no longer. To be said before an fd is closed whose open file somebody else has
    /// too; any other leaves epoll by being closed.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // It may not have been waited for.
        let _ = self.epoll.delete(fd);
    }

    /// Makes epoll wait for what is wanted now on `fd`, after what was wanted `before`.
    pub(crate) fn modify(
        &self,
        fd: BorrowedFd<'_>,
        source: EventSource,
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
    pub(crate) fn wait(
        &self,
        deadline: Option<Instant>,
        ready: &mut Vec<ReadyEvent>,
    ) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, wait_time(deadline)) {
            Err(Errno::EINTR) => 0,
            result => result?,
        };
        let writable = EpollFlags::EPOLLOUT | EpollFlags::EPOLLERR;
        ready.extend(events.iter().take(count).map(|event| ReadyEvent {
            source: EventSource::from_token(event.data()),
            writable: event.events().intersects(writable),
            readable: event.events().intersects(!EpollFlags::EPOLLOUT),
        }));
        Ok(())
    }
}

impl EventSource {
    fn token(self) -> u64 {
        match self {
            EventSource::Control => 0,
            EventSource::Signals => 1,
            EventSource::ControlOutput => 2,
            EventSource::Exec(key, fd) => {
                let fd = ExecFd::ALL.iter().position(|known| *known == fd).unwrap_or(0);
                (key + 1) * FDS_PER_EXEC + fd as u64
            }
        }
    }

    fn from_token(token: u64) -> Self {
        match (token / FDS_PER_EXEC, (token % FDS_PER_EXEC) as usize) {
            (0, 0) => EventSource::Control,
            (0, 1) => EventSource::Signals,
            (0, _) => EventSource::ControlOutput,
            (key, fd) => {
                EventSource::Exec(key - 1, ExecFd::ALL.get(fd).copied().unwrap_or(ExecFd::Client))
            }
        }
    }
}

/// Room for every fd in a token.
const FDS_PER_EXEC: u64 = 8;

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
    fn every_source_has_its_token() {
        let execs = [0, 7].into_iter().flat_map(|key| ExecFd::ALL.map(|fd| (key, fd)));
        let execs = execs.map(|(key, fd)| EventSource::Exec(key, fd));
        for source in [EventSource::Control, EventSource::ControlOutput, EventSource::Signals]
            .into_iter()
            .chain(execs)
        {
            assert_eq!(EventSource::from_token(source.token()), source);
        }
    }
}
