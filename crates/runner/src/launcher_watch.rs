//! Ends the processes that a launcher has started on this machine, once the launcher is gone.
//!
//! A launcher that is killed cannot end its command any more, and nothing else would: the command is
//! no sidecar's, so no guard is above it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use aifo_process::{ExecTag, forbid_tracing, terminate_tagged};

/// Reads from `launcher`, a pipe, a line with the variable `NAME=value` that marks the processes, and
/// waits. A further byte is the launcher's word that it has ended in good order: then nothing is done.
/// The end of the pipe without it means that the launcher was killed: every process with that variable
/// gets TERM, and KILL two seconds later.
pub fn watch_launcher(launcher: OwnedFd) -> io::Result<()> {
    // The variable is a secret.
    forbid_tracing()?;
    let mut launcher = BufReader::new(File::from(launcher)).take(MAX_LINE_BYTES);
    let mut variable = String::new();
    launcher.read_line(&mut variable)?;
    let Some(variable) = variable.strip_suffix('\n').filter(|it| it.contains('=')) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if launcher.read(&mut [0])? == 0 {
        terminate_tagged(&ExecTag::from_variable(variable.to_owned()), TERM_GRACE);
    }
    Ok(())
}

/// How long a process may take to end before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// More than a name and a token need.
const MAX_LINE_BYTES: u64 = 4096;
