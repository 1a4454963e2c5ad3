//! The event loop: one control connection, many execs.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use aifo_process::{
    Ladder, OpenFilesLimit, Reaped, become_subreaper, end_descendants, give_back_freed_memory,
    raise_open_files, reap, receive_with_fds, reset_dispositions,
};
use aifo_types::{ExecId, Signal};
use aifo_wire::{
    Delivery, FRAMES_VERSION, Frame, FrameError, Setup, Start, StartError, StartErrorCause,
};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::channel::Channel;
use crate::directory::Roots;
use crate::exec::{Exec, Interest};
use crate::launch::Toolbox;
use crate::output_frame::OutputFrame;
use crate::poller::{ExecFds, Poller, Ready, Slot, Source};

/// Why a runner could not start, or gave up.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A system call that the runner cannot do without failed.
    #[error("the runner cannot go on: {0}")]
    System(#[from] io::Error),
    /// The control connection carried something else than its frames.
    #[error("the control connection broke the protocol: {0}")]
    Protocol(#[from] FrameError),
    /// A frame that has no place on the control connection, or an `Open` without its fd.
    #[error("the control connection carried a frame out of place")]
    OutOfPlace,
    /// A directory of the session is not there.
    #[error("the session's directory is not usable: {0}")]
    Roots(String),
}

/// Serves execs until the control connection closes or SIGTERM arrives, then ends everything below
/// this process: running tools by the ladder, the rest at once.
pub fn serve(control: OwnedFd) -> Result<(), ServeError> {
    let served = Server::start(control).and_then(|mut server| server.run());
    end_descendants();
    served
}

struct Server {
    poller: Poller,
    signals: SignalFd,
    control: Channel,
    /// Fds that came over the control connection, each set for one `Open` frame yet to be read.
    received: VecDeque<Vec<OwnedFd>>,
    open_files: OpenFilesLimit,
    /// `None` until the proxy has said where the session's directories are.
    toolbox: Option<Toolbox>,
    execs: HashMap<Slot, Entry>,
    by_pid: HashMap<Pid, Slot>,
    next_slot: Slot,
    buffer: OutputFrame,
    closing: Option<Instant>,
}

struct Entry {
    state: State,
    registered: Interest,
}

enum State {
    /// Its `Start` has not arrived yet. The fd is what the tool is to write to.
    Opening(Channel, Option<OwnedFd>),
    Running(Exec),
}

/// How long tools have, in all, when the session ends: the ladder's three seconds, and one for the
/// kernel to do it.
const CLOSING_TIME: Duration = Duration::from_secs(4);

impl Server {
    fn start(control: OwnedFd) -> Result<Self, ServeError> {
        give_back_freed_memory();
        reset_dispositions().map_err(io::Error::from)?;
        become_subreaper().map_err(io::Error::from)?;
        let open_files = raise_open_files()?;
        let watched = SigSet::from_iter([Number::SIGCHLD, Number::SIGTERM]);
        watched.thread_block().map_err(io::Error::from)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&watched, flags).map_err(io::Error::from)?;
        let mut server = Server {
            poller: Poller::new()?,
            signals,
            control: Channel::new(control),
            received: VecDeque::new(),
            open_files,
            toolbox: None,
            execs: HashMap::new(),
            by_pid: HashMap::new(),
            next_slot: 0,
            buffer: OutputFrame::new(),
            closing: None,
        };
        server.poller.watch(server.control.as_fd(), Source::Control)?;
        server.poller.watch(server.signals.as_fd(), Source::Signals)?;
        server.control.send(&Frame::Hello { version: FRAMES_VERSION })?;
        Ok(server)
    }

    fn run(&mut self) -> Result<(), ServeError> {
        let mut ready = Vec::new();
        while !self.is_done() {
            self.poller.wait(self.deadline(), &mut ready)?;
            for event in ready.drain(..) {
                match event.source {
                    Source::Control => self.on_control()?,
                    Source::Signals => self.on_signals()?,
                    Source::Channel(slot) => self.on_channel(slot, event)?,
                    Source::Output(slot) => {
                        self.with_exec(slot, |exec, buffer, now| exec.on_output(buffer, now))?;
                    }
                }
            }
            self.handle_timeouts()?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let at_rest = |entry: &Entry| match &entry.state {
            State::Opening(..) => true,
            State::Running(exec) => exec.is_at_rest(),
        };
        self.closing.is_some_and(|started| {
            started.elapsed() >= CLOSING_TIME || self.execs.values().all(at_rest)
        })
    }

    /// When something is due, even if nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let ladders = self.execs.values().filter_map(|entry| match &entry.state {
            State::Opening(..) => None,
            State::Running(exec) => exec.poll_timeout(),
        });
        ladders.chain(self.closing.map(|started| started + CLOSING_TIME)).min()
    }

    fn handle_timeouts(&mut self) -> Result<(), ServeError> {
        let now = Instant::now();
        let due: Vec<Slot> = self
            .execs
            .iter()
            .filter(|(_, entry)| {
                let State::Running(exec) = &entry.state else { return false };
                exec.poll_timeout().is_some_and(|at| at <= now)
            })
            .map(|(slot, _)| *slot)
            .collect();
        for slot in due {
            self.with_exec(slot, |exec, _, now| exec.handle_timeout(now))?;
        }
        Ok(())
    }

    /// Lets no exec begin any more and climbs the ladder for those that run.
    fn close(&mut self) -> Result<(), ServeError> {
        if self.closing.is_some() {
            return Ok(());
        }
        self.closing = Some(Instant::now());
        for slot in self.execs.keys().copied().collect::<Vec<_>>() {
            self.with_exec(slot, |exec, _, now| exec.escalate(Ladder::Cancel, now))?;
        }
        Ok(())
    }

    /// The proxy has gone.
    fn lose_control(&mut self) -> Result<(), ServeError> {
        // Without a reader its end of file would wake us for ever.
        self.poller.forget(self.control.as_fd())?;
        self.close()
    }

    fn on_control(&mut self) -> Result<(), ServeError> {
        let mut bytes = [0; 16 * 1024];
        let received = match receive_with_fds(self.control.as_fd(), &mut bytes, MAX_FDS) {
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
            Err(Errno::ECONNRESET) => return self.lose_control(),
            received => received.map_err(io::Error::from)?,
        };
        if received.bytes == 0 {
            return self.lose_control();
        }
        if !received.fds.is_empty() {
            self.received.push_back(received.fds);
        }
        self.control.receive(&bytes[..received.bytes]);
        loop {
            // Copied out of the reader, so that the handlers may use the rest of us.
            let command = match self.control.next_frame()? {
                None => return Ok(()),
                Some(Frame::Setup(setup)) => Command::Setup(setup),
                Some(Frame::Open) => Command::Open,
                Some(Frame::Kill { serial, signal, id }) => Command::Kill(serial, signal, id),
                Some(_) => return Err(ServeError::OutOfPlace),
            };
            match command {
                Command::Setup(setup) => {
                    let roots = Roots::new(&setup).map_err(ServeError::Roots)?;
                    self.toolbox = Some(Toolbox::new(setup.kind, roots, self.open_files)?);
                }
                Command::Open => self.open()?,
                Command::Kill(serial, signal, id) => {
                    let found = self.signal(&id, signal)?;
                    self.control.send(&Frame::Killed { serial, found })?;
                }
            }
        }
    }

    fn open(&mut self) -> Result<(), ServeError> {
        let mut fds = self.received.pop_front().unwrap_or_default().into_iter();
        let Some(socket) = fds.next() else { return Err(ServeError::OutOfPlace) };
        let slot = self.next_slot;
        self.next_slot += 1;
        let entry = Entry {
            state: State::Opening(Channel::new(socket), fds.next()),
            registered: Interest::default(),
        };
        self.execs.insert(slot, entry);
        self.update(slot)?;
        // `Start` was sent before the channel's end was, so it is there as a rule.
        self.on_opening(slot)
    }

    fn signal(&mut self, id: &ExecId, signal: Signal) -> Result<Delivery, ServeError> {
        let running = self.execs.iter().find_map(|(slot, entry)| match &entry.state {
            State::Running(exec) if exec.id == *id && exec.is_running() => Some(*slot),
            _ => None,
        });
        let Some(slot) = running else { return Ok(Delivery::NoSuchExec) };
        let mut delivered = false;
        self.with_exec(slot, |exec, _, _| delivered = exec.signal(signal))?;
        Ok(if delivered { Delivery::Delivered } else { Delivery::NoSuchExec })
    }

    fn on_signals(&mut self) -> Result<(), ServeError> {
        while let Some(info) = self.signals.read_signal().map_err(io::Error::from)? {
            if info.ssi_signo == Number::SIGTERM as u32 {
                self.close()?;
            }
        }
        // One SIGCHLD may stand for many children.
        while let Some(reaped) = reap() {
            self.on_reaped(reaped)?;
        }
        Ok(())
    }

    fn on_reaped(&mut self, reaped: Reaped) -> Result<(), ServeError> {
        // Whoever is not in the table was left to us by a tool, and is only collected.
        let Some(slot) = self.by_pid.remove(&reaped.pid) else { return Ok(()) };
        self.with_exec(slot, |exec, buffer, now| exec.on_end(reaped, buffer, now))
    }

    fn on_channel(&mut self, slot: Slot, ready: Ready) -> Result<(), ServeError> {
        match self.execs.get_mut(&slot).map(|entry| &mut entry.state) {
            Some(State::Opening(..)) => self.on_opening(slot),
            Some(State::Running(_)) => self.with_exec(slot, |exec, buffer, now| {
                if ready.room {
                    exec.on_channel_room(buffer, now);
                }
                if ready.input {
                    exec.on_channel(now);
                }
            }),
            // Ended by an event just before this one.
            None => Ok(()),
        }
    }

    fn on_opening(&mut self, slot: Slot) -> Result<(), ServeError> {
        let Some(Entry { state: State::Opening(channel, _), .. }) = self.execs.get_mut(&slot)
        else {
            return Ok(());
        };
        let open = channel.fill().unwrap_or(false);
        let start = match channel.next_frame() {
            Ok(Some(Frame::Start(start))) => start,
            Ok(None) if open => return Ok(()),
            // Gone, or not speaking our language: nothing ran, nobody to tell.
            _ => {
                self.execs.remove(&slot);
                return Ok(());
            }
        };
        self.start_tool(slot, &start)
    }

    fn start_tool(&mut self, slot: Slot, start: &Start) -> Result<(), ServeError> {
        let Some(Entry { state: State::Opening(mut channel, output), registered }) =
            self.execs.remove(&slot)
        else {
            return Ok(());
        };
        let started = Instant::now();
        let launched = match &self.toolbox {
            Some(toolbox) if self.closing.is_none() => toolbox.launch(start, output),
            _ => Err(StartError {
                cause: StartErrorCause::Failed,
                message: "the sidecar is not ready".to_owned(),
            }),
        };
        match launched {
            Ok(launched) => {
                self.by_pid.insert(launched.pid, slot);
                let exec = Exec::new(start.id.clone(), launched, channel, started);
                self.execs.insert(slot, Entry { state: State::Running(exec), registered });
                self.update(slot)
            }
            Err(error) => {
                // If the proxy has gone meanwhile, nothing ran and nobody asks.
                let _ = channel.send(&Frame::StartError(error));
                Ok(())
            }
        }
    }

    /// Lets something happen to an exec, then settles what follows from it.
    fn with_exec(
        &mut self,
        slot: Slot,
        happen: impl FnOnce(&mut Exec, &mut OutputFrame, Instant),
    ) -> Result<(), ServeError> {
        if let Some(Entry { state: State::Running(exec), .. }) = self.execs.get_mut(&slot) {
            happen(exec, &mut self.buffer, Instant::now());
            if exec.is_over() {
                self.execs.remove(&slot);
            } else {
                self.update(slot)?;
            }
        }
        Ok(())
    }

    /// Makes the poller wait for what the exec wants now.
    fn update(&mut self, slot: Slot) -> Result<(), ServeError> {
        let Some(entry) = self.execs.get_mut(&slot) else { return Ok(()) };
        let (interest, fds) = match &entry.state {
            State::Opening(channel, _) => (
                Interest { channel: true, ..Interest::default() },
                ExecFds { channel: Some(channel.as_fd()), output: None },
            ),
            State::Running(exec) => {
                (exec.interest(), ExecFds { channel: exec.channel_fd(), output: exec.output_fd() })
            }
        };
        let before = std::mem::replace(&mut entry.registered, interest);
        Ok(self.poller.update(slot, &fds, before, interest)?)
    }
}

/// With `Open`: the channel, and what the tool is to write to.
const MAX_FDS: usize = 2;

/// A frame of the control connection.
enum Command {
    Setup(Setup),
    Open,
    Kill(u32, Signal, ExecId),
}
