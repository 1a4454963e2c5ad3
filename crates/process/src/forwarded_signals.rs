//! A command that gets the signals of its parent.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use aifo_types::{Ending, Signal};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use crate::{CaughtSignals, SignalSet, ending_of, signal_group_number, signal_process, sys};

/// Runs a command in a process group of its own, and passes the TERM and HUP that this process gets on to it, and INT
/// to its group, as a terminal does. Returns how the command has ended. Must be called before the process starts a thread.
pub fn run_with_signals(command: &mut Command) -> io::Result<Ending> {
    let numbers = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
    let set: SignalSet =
        numbers.into_iter().filter_map(|number| u8::try_from(number).ok()).collect();
    // First, so that none is lost that comes while the command starts.
    let signals = CaughtSignals::new(set)?;
    let mut child = sys::unblocked(command.process_group(0)).spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(ending_of(status));
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
