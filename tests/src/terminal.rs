//! A pseudo-terminal that a suite types into and looks at.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};

use crate::eventually;
use crate::running::Collector;

/// A terminal. What is shown on it is collected; a line ends in CR LF, as terminals have it.
#[derive(Debug)]
pub struct Terminal {
    keyboard: File,
    line: OwnedFd,
    screen: Collector,
}

impl Terminal {
    /// A terminal with nobody on it.
    #[expect(clippy::new_without_default, reason = "it opens a device; that should be written out")]
    pub fn new() -> Self {
        Terminal::sized(0, 0)
    }

    /// A terminal that has a size, as those of people have.
    pub fn sized(columns: u16, rows: u16) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("the machine has pseudo-terminals");
        let screen = pty.master.try_clone().expect("an fd can be cloned");
        let (keyboard, screen) = (File::from(pty.master), Collector::of(File::from(screen)));
        Terminal { keyboard, line: pty.slave, screen }
    }

    /// The terminal as one of a command's standard fds.
    pub fn stdio(&self) -> Stdio {
        self.line.try_clone().expect("an fd can be cloned").into()
    }

    /// Its modes, as they are now: who echoes, who edits the line, who makes signals of keys.
    #[track_caller]
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.line).expect("the terminal is not hung up")
    }

    /// Starts a command as the leader of a session whose terminal this is.
    #[track_caller]
    pub fn start(&self, command: &Command) -> TerminalProcess {
        // `setsid` executes the command in its own place, so the pid is the command's.
        let mut process = Command::new("/usr/bin/setsid");
        process.arg("--ctty").arg(command.get_program()).args(command.get_args());
        process.env_clear().envs(command.get_envs().filter_map(|(name, v)| Some((name, v?))));
        if let Some(dir) = command.get_current_dir() {
            process.current_dir(dir);
        }
        process.stdin(self.stdio()).stdout(self.stdio()).stderr(self.stdio());
        TerminalProcess(process.spawn().expect("a command can be started on a terminal"))
    }

    /// Types.
    #[track_caller]
    pub fn press(&self, keys: &str) {
        (&self.keyboard).write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// All that was shown so far.
    pub fn shown(&self) -> String {
        self.screen.so_far()
    }

    /// Waits until `text` has been shown.
    #[track_caller]
    pub fn expect(&self, text: &str) -> &Self {
        eventually(&format!("the terminal shows {text:?}"), || self.shown().contains(text));
        self
    }
}

/// A command on a terminal. Ended by its pid on drop.
#[derive(Debug)]
pub struct TerminalProcess(Child);

impl TerminalProcess {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Waits for its end: its exit code, or the signal that ended it.
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
        // After `finish` both are no-ops: std remembers that the child was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
