//! Ends a launcher's processes on this machine if the launcher is killed.
//!
//! The launcher's own command runs in no sidecar, so no guard ends it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use aifo_process::{ExecTag, forbid_tracing, terminate_tagged};

/// Reads a line with a variable `NAME=value` from the pipe `launcher` and waits. If another byte
/// follows, the launcher has ended normally, and this function returns. If the pipe ends without
/// it, the launcher was killed: every process with that variable gets TERM, and KILL two seconds
/// later.
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

/// How long a process has to end before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// More than a name and a token need.
const MAX_LINE_BYTES: u64 = 4096;
