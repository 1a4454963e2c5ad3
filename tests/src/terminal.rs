//! A pseudo-terminal that suites type into and read.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{Termios, tcgetattr};

use crate::running::Collector;
use crate::{eventually, wait::eventually_shows};

/// A terminal with collected output; lines end in CR LF.
#[derive(Debug)]
pub struct Terminal {
    keyboard: File,
    line: OwnedFd,
    screen: Collector,
}

impl Terminal {
    /// A terminal without processes.
    #[expect(clippy::new_without_default, reason = "opening a device should be explicit")]
    pub fn new() -> Self {
        Terminal::sized(0, 0)
    }

    /// A terminal with a size.
    pub fn sized(columns: u16, rows: u16) -> Self {
        let (keyboard, line) = pty();
        if (columns, rows) != (0, 0) {
            let mut stty = Command::new("/bin/stty");
            stty.args(["cols", &columns.to_string(), "rows", &rows.to_string()]);
            let line = line.try_clone().expect("an fd can be cloned");
            let status = stty.stdin(line).status().expect("the machine has stty");
            assert!(status.success(), "stty ended with {status}");
        }
        let screen = keyboard.try_clone().expect("an fd can be cloned");
        Terminal { keyboard: keyboard.into(), line, screen: Collector::of(File::from(screen)) }
    }

    /// The terminal as a standard descriptor of a command.
    pub fn stdio(&self) -> Stdio {
        self.line.try_clone().expect("an fd can be cloned").into()
    }

    /// Its current modes: echo, line editing, signal keys.
    #[track_caller]
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.line).expect("the terminal is not hung up")
    }

    /// Starts a command as the leader of a session with this controlling terminal.
    #[track_caller]
    pub fn start(&self, command: &Command) -> TerminalProcess {
        // `setsid` executes the command, so the pid is the command's.
        let mut process = Command::new("/usr/bin/setsid");
        process.arg("--ctty").arg(command.get_program()).args(command.get_args());
        process.env_clear().envs(command.get_envs().filter_map(|(name, v)| Some((name, v?))));
        if let Some(dir) = command.get_current_dir() {
            process.current_dir(dir);
        }
        process.stdin(self.stdio()).stdout(self.stdio()).stderr(self.stdio());
        TerminalProcess(process.spawn().expect("a command can be started on a terminal"))
    }

    /// Types keys.
    #[track_caller]
    pub fn press(&self, keys: &str) {
        (&self.keyboard).write_all(keys.as_bytes()).expect("the terminal accepts keys");
    }

    /// All output so far.
    pub fn shown(&self) -> String {
        self.screen.so_far()
    }

    /// Waits until the output contains `text`.
    #[track_caller]
    pub fn expect(&self, text: &str) -> &Self {
        eventually_shows("the terminal", text, || self.shown());
        self
    }
}

/// Opens a pseudo-terminal: its user's side and its program's side.
///
/// Both are closed on exec, unlike those of `openpty`: a process that another test starts at the same
/// time does not inherit them.
pub fn pty() -> (OwnedFd, OwnedFd) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)
        .expect("the machine has pseudo-terminals");
    grantpt(&master).expect("a new terminal can be granted");
    unlockpt(&master).expect("a new terminal can be unlocked");
    let name = ptsname_r(&master).expect("a terminal has a name");
    let mut options = File::options();
    options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
    let line = options.open(name).expect("a new terminal can be opened");
    let master = master.as_fd().try_clone_to_owned().expect("an fd can be cloned");
    (master, line.into())
}

/// A command on a terminal. Drop kills it.
#[derive(Debug)]
pub struct TerminalProcess(Child);

impl TerminalProcess {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Waits for its end; returns its exit code, or the signal that ended it.
    #[track_caller]
    pub fn finish(mut self) -> Result<i32, i32> {
        let mut status = None;
        eventually("the command on the terminal has ended", || {
            status = self.0.try_wait().expect("try_wait works on a child");
            status.is_some()
        });
        let status = status.expect("the loop ends with a status");
        status.code().ok_or_else(|| status.signal().unwrap_or_default())
    }
}

impl Drop for TerminalProcess {
    fn drop(&mut self) {
        // No-ops after `finish`: std remembers that the child is reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
