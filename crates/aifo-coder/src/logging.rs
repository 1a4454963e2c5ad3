//! Logging on stderr.

use aifo_network::REFUSALS;
use aifo_terminal::console::{self, LogLevel};

/// Starts logging. A command that has the terminal shows refusals itself.
pub(crate) fn start(level: LogLevel) {
    console::start(level, REFUSALS);
}
