//! Signals and job control of a version 3 call (`spec/shim.md#signals`).

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aifo_process::{signal_group_number, terminal};
use aifo_wire::Frame;
use nix::libc;
use nix::unistd::getpgrp;

use super::{CallError, Relay};
use crate::standard_fd::StandardFd;

impl Relay<'_> {
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
            libc::SIGCONT => {
                // The tool must be in the foreground before it continues a read.
                if let Some(terminal_input) = &mut self.terminal_input {
                    terminal_input.retry_now();
                    terminal_input.try_acquire(Instant::now(), &mut self.connection);
                }
            }
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

    /// Returns whether the peer reads forwarded signals, or has had less than [`UNREAD_TIMEOUT`] to
    /// do so.
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

    /// Stops the shim as the tool was stopped, and continues the tool when the shim continues.
    pub(super) fn stop(&mut self, signal: u8, resumed: u32) -> Result<(), CallError> {
        if resumed < self.signals.continue_count() {
            // The tool has continued since.
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
        // CONT goes to the tool before any signal that arrived later. It may be missing here: a
        // following stop discards a pending CONT (signal(7)), and the kernel does not stop an
        // orphaned process group at all.
        let resume = libc::SIGCONT as u8;
        let since: Vec<u8> = std::iter::from_fn(|| self.signals.next()).collect();
        if !since.contains(&resume) {
            self.signals.add_continue();
        }
        self.forward(resume)?;
        since.into_iter().filter(|number| *number != resume).try_for_each(|it| self.forward(it))
    }

    /// Returns whether the tool's pseudo terminal made this signal from a typed key. The caller's
    /// terminal is raw then and has not signalled the shim's process group.
    pub(super) fn was_typed(&self, number: u8) -> bool {
        let is_ours = |terminal: &StandardFd| terminal::is_foreground(terminal.as_fd());
        self.terminal.as_ref().is_some_and(is_ours) && !self.signals.has_received(number)
    }
}

/// Number of INTs after which the shim stops waiting for an unresponsive peer.
const GIVE_UP_COUNT: u32 = 4;
/// How long forwarded signals may stay unread.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(1);
