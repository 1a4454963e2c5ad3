//! A command that gets the signals of its parent.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

use aifo_types::Signal;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use crate::{CaughtSignals, SignalSet, signal_group_number, signal_process};

/// Runs a command in a process group of its own, and passes the TERM and HUP that this process gets on to it, and INT
/// to its group, as a terminal does. Must be called before the process starts a thread.
pub fn run_with_signals(command: &mut Command) -> io::Result<ExitStatus> {
    let mut set = SignalSet::default();
    for number in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        set.insert(u8::try_from(number).unwrap_or_default());
    }
    // Before the signals are blocked, which a program inherits.
    let mut child = command.process_group(0).spawn()?;
    let signals = CaughtSignals::new(set)?;
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(signal) = signals.next() {
            match Signal::from_number(signal.number) {
                Some(Signal::Int) => {
                    signal_group_number(pid, signal.number);
                }
                Some(signal) => signal_process(pid, signal),
                // The end of the command.
                None => {}
            }
        }
    }
}
