//! A client: shows a held terminal on this process's own (`spec/attach.md#the-clients-terminal`).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use aifo_process::{CaughtSignals, SignalSet, terminal};
use aifo_types::{Ending, TerminalModes, WindowSize};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};

use crate::connection::Connection;
use crate::detach_keys::{DetachKeys, DetachSequence, Typed};
use crate::frame::{ClientRole, Frame, FrameReader};
use crate::guard::Guard;
use crate::screen::LEAVE_ALTERNATE;

/// Output for the terminal that is kept; then the holder is read no more.
const MAX_OUTPUT: usize = 256 * 1024;
/// Input for a holder that does not read; more is dropped.
const MAX_INPUT: usize = 1024 * 1024;
/// The time that a terminal gets to take its modes back.
const RESTORE_TIME: Duration = Duration::from_millis(500);

/// Saves and restores a terminal title, on a stack of its own.
const SAVE_TITLE: &[u8; 7] = b"\x1b[22;0t";
const RESTORE_TITLE: &[u8; 7] = b"\x1b[23;0t";

/// Why a client has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEnd {
    /// The command has ended.
    Ended(Ending),
    /// The user pressed the detach keys.
    Left,
    /// The terminal was closed, or a signal ended the client.
    HungUp,
    /// A command disconnected the client.
    Disconnected,
    /// The holder was lost.
    Lost,
}

/// A client on the terminal of this process's stdin and stdout.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    received: FrameReader,
    terminal: OwnedFd,
    /// The same, opened so that writes do not block.
    display: File,
    modes: TerminalModes,
    restore: Vec<u8>,
    keys: DetachKeys,
    output: Vec<u8>,
    input: Vec<u8>,
    guard: Option<Guard>,
    signals: CaughtSignals,
    end: Option<ClientEnd>,
}

impl Client {
    /// Prepares a client. This program calls [`guard_process`](crate::guard_process). Must be called before the
    /// process starts a thread. Errors: stdin is no terminal.
    pub fn new(connection: Connection) -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let modes = terminal::modes(terminal.as_fd())?;
        // Another open file: `O_NONBLOCK` of stdout would be the shell's too.
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let display = {
            use std::os::unix::fs::OpenOptionsExt;
            let mut options = File::options();
            options.write(true).custom_flags(flags.bits());
            match options.open("/proc/self/fd/1") {
                Ok(file) => file,
                Err(_) => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            }
        };
        set_nonblocking(&connection.writer)?;
        let shown = io::stdout().as_fd().try_clone_to_owned()?;
        let guard = Guard::start(shown, &modes)?;
        let mut set = SignalSet::default();
        for number in [libc::SIGHUP, libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGWINCH] {
            set.insert(u8::try_from(number).unwrap_or_default());
        }
        let signals = CaughtSignals::new(set)?;
        Ok(Client {
            connection,
            received: FrameReader::default(),
            terminal,
            display,
            modes,
            restore: Vec::new(),
            keys: DetachKeys::new(Some(DetachSequence::default())),
            output: Vec::new(),
            input: Vec::new(),
            guard: Some(guard),
            signals,
            end: None,
        })
    }

    /// Sets the keys with which the user leaves; `None` for no keys.
    #[must_use]
    pub fn with_detach_keys(mut self, keys: Option<DetachSequence>) -> Self {
        self.keys = DetachKeys::new(keys);
        self
    }

    /// Shows the terminal until the command ends or the client leaves, and restores the terminal.
    pub fn run(mut self) -> io::Result<ClientEnd> {
        self.send(&Frame::Hello(ClientRole::Attach, self.size()));
        self.enter()?;
        let served = self.serve();
        if matches!(served, Ok(ClientEnd::Ended(_))) {
            self.flush(None);
        }
        self.leave(!matches!(served, Ok(ClientEnd::Ended(_))));
        if let Some(guard) = self.guard.take() {
            guard.end();
        }
        served
    }

    fn serve(&mut self) -> io::Result<ClientEnd> {
        loop {
            if let Some(end) = self.end {
                return Ok(end);
            }
            let timeout = self.keys.deadline().map(|deadline| {
                let left = deadline.saturating_duration_since(Instant::now());
                u16::try_from(left.as_millis()).unwrap_or(u16::MAX).saturating_add(1)
            });
            let wants = |condition: bool, flags| if condition { flags } else { PollFlags::empty() };
            let may_read = self.output.len() < MAX_OUTPUT;
            let mut polled = [
                PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.connection.reader.as_fd(), wants(may_read, PollFlags::POLLIN)),
                PollFd::new(
                    self.connection.writer.as_fd(),
                    wants(!self.input.is_empty(), PollFlags::POLLOUT),
                ),
                PollFd::new(
                    self.display.as_fd(),
                    wants(!self.output.is_empty(), PollFlags::POLLOUT),
                ),
            ];
            match poll(&mut polled, timeout.map_or(PollTimeout::NONE, PollTimeout::from)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let ready = polled.map(|fd| fd.any().unwrap_or(false));
            let [typed, signalled, received, writable, shows] = ready;
            if self.keys.deadline().is_some_and(|deadline| Instant::now() >= deadline) {
                let held = self.keys.take();
                self.send(&Frame::Input(held));
            }
            if signalled {
                self.receive_signals();
            }
            if typed {
                self.read_terminal();
            }
            if received && may_read {
                self.read_holder()?;
            }
            if writable {
                self.write_holder();
            }
            if shows {
                self.write_terminal();
            }
        }
    }

    fn receive_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match i32::from(signal.number) {
                libc::SIGWINCH => self.send(&Frame::Resize(self.size())),
                _ => self.end = self.end.or(Some(ClientEnd::HungUp)),
            }
        }
    }

    fn read_terminal(&mut self) {
        let mut bytes = [0; 4096];
        match nix::unistd::read(&self.terminal, &mut bytes) {
            Ok(0) | Err(Errno::EIO) => self.end = self.end.or(Some(ClientEnd::HungUp)),
            Ok(count) => {
                let typed = bytes.get(..count).unwrap_or_default();
                match self.keys.receive(typed, Instant::now()) {
                    Typed::Input(input) => self.send(&Frame::Input(input)),
                    Typed::Detach(input) => {
                        self.send(&Frame::Input(input));
                        self.end = self.end.or(Some(ClientEnd::Left));
                    }
                }
            }
            Err(_) => {}
        }
    }

    fn read_holder(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        let count = match nix::unistd::read(&self.connection.reader, &mut bytes) {
            Ok(count) => count,
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(()),
            Err(_) => 0,
        };
        self.received.receive(bytes.get(..count).unwrap_or_default());
        loop {
            match self.received.next_frame() {
                Ok(Some(frame)) => self.handle(frame)?,
                Ok(None) => break,
                Err(_) => {
                    self.end = self.end.or(Some(ClientEnd::Lost));
                    break;
                }
            }
        }
        if count == 0 {
            self.end = self.end.or(Some(ClientEnd::Lost));
        }
        self.write_terminal();
        Ok(())
    }

    fn handle(&mut self, frame: Frame) -> io::Result<()> {
        match frame {
            Frame::Output(bytes) => self.output.extend(bytes),
            Frame::Restore(mut bytes) => {
                bytes.splice(0..0, *RESTORE_TITLE);
                if let Some(guard) = &mut self.guard {
                    // Without its guard the client still restores the terminal itself.
                    let _ = guard.set_restore(&bytes);
                }
                self.restore = bytes;
            }
            Frame::Stopped => self.stop()?,
            Frame::Detached => self.end = self.end.or(Some(ClientEnd::Disconnected)),
            Frame::Ended(ending) => self.end = Some(ClientEnd::Ended(ending)),
            Frame::Hello(..) | Frame::Input(_) | Frame::Resize(_) | Frame::Resume => {
                self.end = self.end.or(Some(ClientEnd::Lost));
            }
        }
        Ok(())
    }

    /// Stops with the command, as a job of the shell.
    fn stop(&mut self) -> io::Result<()> {
        self.leave(true);
        raise(Signal::SIGSTOP)?;
        self.enter()?;
        self.send(&Frame::Resume);
        // Draws the screen again.
        self.send(&Frame::Hello(ClientRole::Attach, self.size()));
        Ok(())
    }

    fn size(&self) -> WindowSize {
        terminal::window_size(self.terminal.as_fd()).unwrap_or_default()
    }

    /// Sets the terminal raw, and saves its title.
    fn enter(&mut self) -> io::Result<()> {
        terminal::set_modes(self.terminal.as_fd(), &terminal::raw(&self.modes))?;
        self.output.extend(SAVE_TITLE);
        Ok(())
    }

    /// Restores the terminal. `line` begins a new line on a screen that stays.
    fn leave(&mut self, line: bool) {
        self.output.clear();
        self.output.extend(&self.restore);
        let leave_alternate = LEAVE_ALTERNATE.as_bytes();
        if line && !self.restore.windows(leave_alternate.len()).any(|it| it == leave_alternate) {
            // With no line of the program after the shell's.
            self.output.extend(b"\r\n\x1b[J");
        }
        self.flush(Some(RESTORE_TIME));
        self.output.clear();
        // The terminal may be closed.
        let _ = terminal::set_modes(self.terminal.as_fd(), &self.modes);
    }

    /// Writes all output to the terminal, unless it is closed or the time is over.
    fn flush(&mut self, time: Option<Duration>) {
        let deadline = time.map(|time| Instant::now() + time);
        while !self.output.is_empty() {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::from(u16::try_from(left.as_millis()).unwrap_or(u16::MAX))
            });
            let mut polled = [
                PollFd::new(self.display.as_fd(), PollFlags::POLLOUT),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut polled, timeout) {
                Ok(0) => return,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return,
            }
            if polled[1].any().unwrap_or(false) && time.is_none() {
                self.receive_signals();
                if self.end == Some(ClientEnd::HungUp) {
                    return;
                }
            }
            self.write_terminal();
        }
    }

    fn write_terminal(&mut self) {
        while !self.output.is_empty() {
            match self.display.write(&self.output) {
                Ok(0) => return,
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.output.clear();
                    self.end = self.end.or(Some(ClientEnd::HungUp));
                }
            }
        }
    }

    fn send(&mut self, frame: &Frame) {
        if self.input.len() < MAX_INPUT {
            frame.encode(&mut self.input);
        }
        self.write_holder();
    }

    fn write_holder(&mut self) {
        while !self.input.is_empty() {
            match nix::unistd::write(&self.connection.writer, &self.input) {
                Ok(count) => drop(self.input.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                // Reading finds the end, after what is left.
                Err(_) => self.input.clear(),
            }
        }
    }
}

pub(crate) fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
