//! A command that a client runs in a pod, and the report of its success (`spec/kubernetes.md#kubectl`).
//!
//! When a node or a container runtime loses the connection, kubectl exits with 0, as after a success. So a success is
//! reported in the form in which kubectl reports a failure, as the last line of stderr.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, ExitCode};

use aifo_process::run_with_signals;
use aifo_terminal::console::EscapedStderr;
use aifo_types::Ending;
use anyhow::{Context, bail};

/// The first argument; the command line of `aifo-coder` follows.
pub(crate) const COMMAND: &str = "_command";
/// The start of the line; the exit code follows.
pub(crate) const ENDED: &str = "command terminated with exit code";

/// Runs the command with this process's descriptors, and returns its exit code.
pub(crate) fn process(line: &[OsString]) -> anyhow::Result<ExitCode> {
    if line.is_empty() {
        bail!("incomplete command line");
    }
    let program = std::env::current_exe().context("cannot find this program")?;
    // This process gets the signals of `_signal`, as the command may be one that nobody may read or trace.
    let ending =
        run_with_signals(Command::new(program).args(line)).context("cannot run the command")?;
    if ending == Ending::Exited(0) {
        // Without a stderr no client reads it.
        let _ = writeln!(EscapedStderr, "{ENDED} 0");
    }
    Ok(ExitCode::from(ending.exit_code()))
}
