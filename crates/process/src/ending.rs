//! The end of a process that the standard library started.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use aifo_types::Ending;

/// Returns how a process has ended.
pub fn ending_of(status: ExitStatus) -> Ending {
    let byte = |number: i32| u8::try_from(number & 0xff).unwrap_or_default();
    match status.signal() {
        Some(signal) => Ending::Signaled(byte(signal)),
        None => Ending::Exited(byte(status.code().unwrap_or_default())),
    }
}
