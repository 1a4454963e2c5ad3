//! Signals of a version 3 call: forwarding, and stopping and continuing with the tool
//! (`spec/shim.md#signals`).

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aifo_process::{signal_group_number, terminal};
use aifo_wire::Frame;
use nix::libc;
use nix::unistd::getpgrp;

use super::{CallError, Relay};
use crate::standard_fd::StandardFd;
use crate::terminal_input::TerminalInput;

impl Relay<'_> {
    /// Forwards every signal that has come.
    pub(super) fn forward_signals(&mut self) -> Result<(), CallError> {
        while let Some(number) = self.signals.next() {
            self.forward(number)?;
        }
        Ok(())
    }

    fn forward(&mut self, number: u8) -> Result<(), CallError> {
        match i32::from(number) {
            libc::SIGWINCH if self.terminal.is_some() => {
                self.send_window_size();
                return Ok(());
            }
            libc::SIGINT
                if self.signals.interrupt_count() >= GIVE_UP_COUNT && !self.is_responsive() =>
            {
                return Err(CallError::GivenUp);
            }
            libc::SIGCONT => self.terminal_input.iter_mut().for_each(TerminalInput::retry_now),
            _ => {}
        }
        self.connection.push(&Frame::Signal { number });
        Ok(())
    }

    fn send_window_size(&mut self) {
        let terminal = self.terminal.as_ref();
        if let Some(Ok(size)) = terminal.map(|fd| terminal::window_size(fd.as_fd())) {
            self.connection.push(&Frame::Resize(size));
        }
    }

    /// Whether somebody takes what is forwarded, or has not had the time to.
    fn is_responsive(&mut self) -> bool {
        if !self.is_started {
            return false;
        }
        if !self.connection.has_unread_data() {
            self.unread_since = None;
            return true;
        }
        self.unread_since.get_or_insert_with(Instant::now).elapsed() < UNREAD_TIMEOUT
    }

    /// Does what the terminal, or whoever stopped the tool, would have done to it here.
    pub(super) fn stop(&mut self, signal: u8, resumed: u32) -> Result<(), CallError> {
        if resumed < self.signals.continue_count() {
            // It goes on again by now.
            return Ok(());
        }
        let was_typed = i32::from(signal) == libc::SIGTSTP && self.was_typed(signal);
        if let Some(terminal_input) = &mut self.terminal_input {
            terminal_input.release();
        }
        if was_typed {
            signal_group_number(getpgrp(), signal);
        }
        self.signals.stop(signal);
        // We go on, and so does the tool, before anything that has come since. There may be no CONT to
        // read: a stop that followed it took it away (signal(7)), or nobody sent one, as the kernel does
        // not stop a group that nobody could continue.
        let resume = libc::SIGCONT as u8;
        let since: Vec<u8> = std::iter::from_fn(|| self.signals.next()).collect();
        if !since.contains(&resume) {
            self.signals.add_continue();
        }
        self.forward(resume)?;
        since.into_iter().filter(|number| *number != resume).try_for_each(|it| self.forward(it))
    }

    /// Whether a signal that reached the tool was made by its pseudo terminal from a key that was
    /// pressed on ours: then ours has not signalled our group, as it does when it is not raw.
    pub(super) fn was_typed(&self, number: u8) -> bool {
        let is_ours = |terminal: &StandardFd| terminal::is_foreground(terminal.as_fd());
        self.terminal.as_ref().is_some_and(is_ours) && !self.signals.has_received(number)
    }
}

/// INT for so many times, without anybody who hears it, ends the waiting.
const GIVE_UP_COUNT: u32 = 4;
/// How long a busy machine may take to hear it.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(1);
