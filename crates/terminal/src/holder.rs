//! The holder of a pseudo terminal (`spec/attach.md#the-holder`).

mod clients;
mod end;

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aifo_process::{
    CaughtSignals, ChildEvent, Group, Pty, SignalSet, Spawn, bind_unix, reap, resize,
    signal_group_number, signal_process,
};
use aifo_types::{Ending, Signal, TerminalModes, WindowSize};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Backlog, listen};
use nix::unistd::{Pid, setsid, ttyname};

use crate::frame::Frame;
use crate::guard::PROGRAM;
use crate::peer::Peer;
use crate::screen::{Screen, bounded};

/// Name of the socket in the holder directory.
pub const SOCKET: &str = "socket";
/// Name of the file with the number of clients.
pub const CLIENTS_FILE: &str = "clients";

const MAX_CLIENTS: usize = 16;
/// Input that waits for the command.
const MAX_INPUT: usize = 64 * 1024;
/// Time for a client's first frame.
const HELLO_TIME: Duration = Duration::from_secs(5);

/// A command to hold.
#[derive(Debug)]
pub struct Held {
    /// An existing directory of mode 0700.
    pub directory: PathBuf,
    /// The file to execute.
    pub program: CString,
    /// `argv`, including the program's name.
    pub argv: Vec<CString>,
    /// The whole environment, as `NAME=value`.
    pub env: Vec<CString>,
    /// The size until a client connects; a number that is 0 or out of range is replaced.
    pub size: WindowSize,
    /// The first client.
    pub first: Option<UnixStream>,
    /// The time for the first client to connect; then the command gets TERM. `None` for no limit.
    pub first_client_within: Option<Duration>,
    /// The time for clients to disconnect after the end was sent to them. Clients of a pod lose bytes
    /// that are under way when the holder ends.
    pub end_confirmed_within: Option<Duration>,
}

impl Held {
    /// Describes `aifo-coder run --held ID` with these arguments, by this program in this process's environment.
    /// `directory` is an existing one of mode 0700. Errors: a word has a NUL.
    pub fn session(directory: &Path, id: &str, args: &[OsString]) -> io::Result<Self> {
        let words = ["aifo-coder", "run", "--held", id].map(OsString::from);
        let words = words.into_iter().chain(args.iter().cloned());
        let variables = std::env::vars_os();
        let env = variables.filter_map(|(name, value)| aifo_process::variable(&name, &value));
        Ok(Held {
            directory: directory.to_owned(),
            program: CString::new(PROGRAM)?,
            argv: words.map(|word| CString::new(word.into_vec())).collect::<Result<_, _>>()?,
            env: env.collect(),
            size: WindowSize::default(),
            first: None,
            first_client_within: None,
            end_confirmed_within: None,
        })
    }
}

/// A pseudo terminal with a command, and its clients.
#[derive(Debug)]
pub struct Holder {
    held: Held,
    master: OwnedFd,
    /// Keeps the terminal open until the command has ended.
    terminal: File,
    listener: OwnedFd,
    signals: CaughtSignals,
    command: Pid,
    screen: Screen,
    size: WindowSize,
    has_output: bool,
    is_stopped: bool,
    nudged: Option<Instant>,
    input: Vec<u8>,
    peers: Vec<Peer>,
    counted: Option<usize>,
    /// When the command gets TERM, unless a client has connected.
    unattended_until: Option<Instant>,
}

impl Holder {
    /// Leads a new session with a pseudo terminal, and starts the command in its foreground. Must be
    /// called before the process starts a thread.
    pub fn start(mut held: Held) -> io::Result<Self> {
        // Fails for a process that leads a session already, such as the first of a container.
        let _ = setsid();
        let size = bounded(held.size);
        let pty = Pty::open(size, &usual_modes())?;
        let terminal = File::options().read(true).write(true).open(ttyname(&pty.slave)?)?;
        let listener = bind_socket(&held)?;
        let mut set = SignalSet::default();
        for number in [
            libc::SIGCHLD,
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGTTOU,
            libc::SIGTTIN,
            libc::SIGTSTP,
            libc::SIGPIPE,
        ] {
            set.insert(u8::try_from(number).unwrap_or_default());
        }
        let signals = CaughtSignals::new(set)?;
        let now = Instant::now();
        let first = held.first.take().map(|stream| Peer::new(stream, now)).transpose()?;
        let mut holder = Holder {
            master: pty.master,
            terminal,
            listener,
            signals,
            command: Pid::from_raw(0),
            screen: Screen::new(size),
            size,
            has_output: false,
            is_stopped: false,
            nudged: None,
            input: Vec::new(),
            peers: first.into_iter().collect(),
            counted: None,
            unattended_until: held.first_client_within.map(|time| now + time),
            held,
        };
        holder.wait_for_first_size();
        holder.command = holder.spawn()?;
        Ok(holder)
    }

    /// Lets the command begin with the size of the first client's terminal.
    fn wait_for_first_size(&mut self) {
        let deadline = Instant::now() + HELLO_TIME;
        while self.peers.iter().any(|peer| !peer.is_attached) && Instant::now() < deadline {
            let timeout = PollTimeout::from(100u8);
            let ready = self.peers.first().map_or(Ok(0), |peer| {
                poll(&mut [PollFd::new(peer.as_fd(), PollFlags::POLLIN)], timeout)
            });
            if ready == Ok(1) {
                self.read_peer(0);
                self.remove_gone();
            }
        }
    }

    fn spawn(&self) -> io::Result<Pid> {
        let Held { program, argv, env, .. } = &self.held;
        let terminal = Some(self.terminal.as_fd());
        let spawn = Spawn {
            stdio: [terminal; 3],
            group: Group::Foreground(self.terminal.as_fd()),
            ..Spawn::new(program.clone(), argv.clone(), env.clone())
        };
        spawn.spawn().map_err(io::Error::other)
    }

    /// Serves clients until the command has ended and its end was sent or written.
    pub fn run(mut self) -> io::Result<Ending> {
        let ending = loop {
            self.write_clients_file();
            self.wait()?;
            if let Some(ending) = self.reap() {
                break ending;
            }
        };
        self.end(ending)?;
        Ok(ending)
    }

    /// Waits for events once, and handles them.
    fn wait(&mut self) -> io::Result<()> {
        let wants = |condition: bool, flags| if condition { flags } else { PollFlags::empty() };
        let accepts_input = self.input.len() < MAX_INPUT;
        let to_command = wants(!self.input.is_empty(), PollFlags::POLLOUT);
        let has_room = self.peers.len() < MAX_CLIENTS;
        let mut polled = vec![
            PollFd::new(self.master.as_fd(), PollFlags::POLLIN | to_command),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.as_fd(), wants(has_room, PollFlags::POLLIN)),
        ];
        polled.extend(self.peers.iter().map(|peer| {
            let reads = wants(accepts_input || !peer.is_attached, PollFlags::POLLIN);
            PollFd::new(peer.as_fd(), reads | wants(peer.has_output(), PollFlags::POLLOUT))
        }));
        match poll(&mut polled, self.timeout()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<PollFlags> =
            polled.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        let [master, signals, listener, peers @ ..] = &ready[..] else { return Ok(()) };
        if signals.contains(PollFlags::POLLIN) {
            self.receive_signals();
        }
        // Before output, so that a terminal answer is not behind more questions.
        for (index, events) in peers.iter().enumerate() {
            let hung_up = PollFlags::POLLHUP | PollFlags::POLLERR;
            if events.intersects(PollFlags::POLLIN | hung_up) {
                self.read_peer(index);
            }
        }
        if master.contains(PollFlags::POLLIN) {
            self.read_output();
        }
        self.write_input();
        for peer in &mut self.peers {
            peer.flush();
            if peer.is_behind && !peer.has_output() {
                peer.catch_up(&self.screen);
                peer.flush();
            }
        }
        if listener.contains(PollFlags::POLLIN) {
            self.accept();
        }
        self.end_unattended();
        self.remove_gone();
        if self.nudged.is_some_and(|until| Instant::now() >= until) {
            self.nudged = None;
            // The terminal is open as long as the holder.
            let _ = resize(self.master.as_fd(), self.size);
        }
        Ok(())
    }

    fn timeout(&self) -> PollTimeout {
        let hellos = self.peers.iter().filter(|peer| !peer.is_attached);
        let deadlines = hellos.map(|peer| peer.active + HELLO_TIME);
        let deadlines = deadlines.chain(self.nudged).chain(self.unattended_until);
        deadlines.min().map_or(PollTimeout::NONE, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX).saturating_add(1))
        })
    }

    fn receive_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            if let libc::SIGTERM | libc::SIGINT | libc::SIGHUP = i32::from(signal.number) {
                self.terminate();
            }
        }
    }

    fn terminate(&mut self) {
        signal_process(self.command, Signal::Term);
        self.resume();
    }

    /// Ends the command if no client has connected in time.
    fn end_unattended(&mut self) {
        if self.clients() > 0 {
            self.unattended_until = None;
        } else if self.unattended_until.is_some_and(|until| Instant::now() >= until) {
            self.unattended_until = None;
            self.terminate();
        }
    }

    /// Collects children; returns how the command has ended.
    fn reap(&mut self) -> Option<Ending> {
        let mut ending = None;
        while let Some(event) = reap() {
            match event {
                ChildEvent::Ended(reaped) if reaped.pid == self.command => {
                    ending = Some(reaped.ending);
                }
                ChildEvent::Stopped { pid, .. } if pid == self.command => {
                    self.is_stopped = true;
                    self.read_output();
                    for peer in self.peers.iter_mut().filter(|peer| peer.is_attached) {
                        peer.send(&Frame::Stopped);
                        peer.is_stopped = true;
                        peer.flush();
                    }
                    if self.clients() == 0 {
                        self.resume();
                    }
                }
                ChildEvent::Ended(_) | ChildEvent::Stopped { .. } => {}
            }
        }
        ending
    }

    fn resume(&mut self) {
        if std::mem::take(&mut self.is_stopped) {
            signal_group_number(self.command, Signal::Cont.number());
        }
    }

    /// Reads output once. Returns its length.
    fn read_output(&mut self) -> usize {
        let mut bytes = [0; 16 * 1024];
        let count = nix::unistd::read(&self.master, &mut bytes).unwrap_or(0);
        let output = bytes.get(..count).unwrap_or_default();
        if output.is_empty() {
            return 0;
        }
        self.has_output = true;
        self.screen.receive(output);
        let answers = self.screen.take_answers();
        if self.clients() == 0 && self.input.len() < MAX_INPUT {
            self.input.extend(answers);
        }
        let restore = self.screen.restore();
        let output = Frame::Output(output.to_vec());
        for peer in &mut self.peers {
            peer.send_output(&output, &restore);
        }
        count
    }

    fn write_input(&mut self) {
        while !self.input.is_empty() {
            match nix::unistd::write(&self.master, &self.input) {
                Ok(count) => drop(self.input.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

fn bind_socket(held: &Held) -> io::Result<OwnedFd> {
    let path = held.directory.join(SOCKET);
    let listener = bind_unix(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    listen(&listener, Backlog::new(16)?)?;
    Ok(listener)
}

/// The modes of a terminal at login: line editing, echo, signal keys, UTF-8.
fn usual_modes() -> TerminalModes {
    TerminalModes {
        input: libc::ICRNL | libc::IXON | libc::IUTF8,
        output: libc::OPOST | libc::ONLCR,
        control: libc::CS8 | libc::CREAD | libc::B38400,
        local: libc::ICANON
            | libc::ISIG
            | libc::IEXTEN
            | libc::ECHO
            | libc::ECHOE
            | libc::ECHOK
            | libc::ECHOCTL
            | libc::ECHOKE,
        characters: Vec::new(),
    }
}
