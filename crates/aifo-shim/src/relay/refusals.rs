//! Names that the network refused to a tool (`spec/network.md#callers`).

use aifo_wire::CallNote;

use crate::failure::report_note;
use crate::log;

/// The lines that have arrived.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    unprinted: Vec<String>,
    count: usize,
}

/// More than a runner sends.
const MAX_LINES: usize = 8;

impl Refusals {
    pub(super) fn add(&mut self, text: &str) {
        if self.count < MAX_LINES {
            self.count += 1;
            self.unprinted.push(text.to_owned());
        }
    }

    /// Prints the lines of a tool that goes on, unless a program draws on the terminal.
    pub(super) fn report_early(&mut self) {
        if !self.unprinted.is_empty() && !log::is_drawn_on() {
            self.unprinted.drain(..).for_each(log::notice);
        }
    }

    /// Prints the lines and the call note, behind the tool output.
    pub(super) fn report(&self, note: Option<CallNote>) {
        self.unprinted.iter().for_each(log::notice);
        if let Some(note) = note {
            report_note(note);
        }
    }
}
