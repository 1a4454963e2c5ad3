//! epoll with typed tokens.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use aifo_wire::Stream;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Identifies an exec of this runner; never reused.
pub(crate) type ExecKey = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    Control,
    /// The output of the control connection, while bytes are pending.
    ControlOutput,
    Signals,
    Exec(ExecKey, ExecFd),
    /// A socket of the network stack.
    Stack(StackFd),
}

/// A socket of the network stack that the runner serves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StackFd {
    /// Datagrams for DNS.
    Dns,
    /// A listener, by its position.
    Listener(u16),
    /// A listener for a mirror, by its port.
    Mirror(u16),
    /// A connection, by its number.
    Connection(u32),
    /// A connection in progress, by the serial of its request.
    Connecting(u32),
}

/// A descriptor of an exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecFd {
    Client,
    Monitor,
    /// The runner's end of a stream.
    Stream(Stream),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyEvent {
    pub(crate) source: EventSource,
    /// Room to write, or an error that the next write reports.
    pub(crate) writable: bool,
    /// Data, end of file, or an error that the next read reports.
    pub(crate) readable: bool,
}

#[derive(Debug)]
pub(crate) struct Poller {
    epoll: Epoll,
}

impl ExecFd {
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

    /// Adds a descriptor and waits for input on it.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, source: EventSource) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, source.token()))?)
    }

    /// Removes a descriptor. Needed before closing one whose open file description is shared; epoll
    /// drops others by itself.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // It may not have been added.
        let _ = self.epoll.delete(fd);
    }

    /// Changes the events of a descriptor from `before` to `wanted`.
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
            // epoll reports hang-ups even with an empty mask.
            self.epoll.delete(fd)?;
        } else {
            self.epoll.modify(fd, &mut event)?;
        }
        Ok(())
    }

    /// Waits for events, `deadline` or a signal, and appends the events.
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
            EventSource::Stack(StackFd::Dns) => STACK,
            EventSource::Stack(StackFd::Listener(index)) => STACK | LISTENER | u64::from(index),
            EventSource::Stack(StackFd::Mirror(port)) => STACK | MIRROR | u64::from(port),
            EventSource::Stack(StackFd::Connection(id)) => STACK | CONNECTION | u64::from(id),
            EventSource::Stack(StackFd::Connecting(serial)) => {
                STACK | CONNECTING | u64::from(serial)
            }
        }
    }

    fn from_token(token: u64) -> Self {
        if token & STACK != 0 {
            let number = token as u32;
            let kinds = LISTENER | MIRROR | CONNECTION | CONNECTING;
            return EventSource::Stack(match token & kinds {
                LISTENER => StackFd::Listener(number as u16),
                MIRROR => StackFd::Mirror(number as u16),
                CONNECTION => StackFd::Connection(number),
                CONNECTING => StackFd::Connecting(number),
                _ => StackFd::Dns,
            });
        }
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

// The highest bits of a token, which no exec's has.
const STACK: u64 = 1 << 63;
const LISTENER: u64 = 1 << 62;
const CONNECTION: u64 = 1 << 61;
const MIRROR: u64 = 1 << 60;
const CONNECTING: u64 = 1 << 59;

/// Tokens per exec; at least the number of descriptors.
const FDS_PER_EXEC: u64 = 8;

fn wait_time(deadline: Option<Instant>) -> EpollTimeout {
    let Some(deadline) = deadline else { return EpollTimeout::NONE };
    // Rounded up, so that the timeout is due on return.
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
            .chain(
                [StackFd::Dns, StackFd::Listener(0), StackFd::Listener(129), StackFd::Mirror(1)]
                    .map(EventSource::Stack),
            )
            .chain([0, 1, u32::MAX].map(|id| EventSource::Stack(StackFd::Connection(id))))
            .chain([0, 1, u32::MAX].map(|id| EventSource::Stack(StackFd::Connecting(id))))
        {
            assert_eq!(EventSource::from_token(source.token()), source);
        }
    }
}
