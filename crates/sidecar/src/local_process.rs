//! Local processes of a session that are no tools: guards, holders of stacks, trials.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use aifo_types::Kind;
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

/// Logs what a guard and its runner print. The terminal on the launcher's stderr may belong to an
/// agent, so they do not get it.
pub(crate) async fn log_lines(kind: Kind, stderr: OwnedFd) {
    let Ok(stderr) = tokio::net::unix::pipe::Receiver::from_owned_fd(stderr) else { return };
    let mut lines = BufReader::new(stderr.take(MAX_STDERR)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let line = line.strip_prefix("aifo-shim: ").unwrap_or(&line);
        tracing::warn!(%kind, "{line}");
    }
}

/// Bytes that are logged of a guard and its runner.
const MAX_STDERR: u64 = 64 * 1024;

/// Time for the messages of a guard that failed.
pub(crate) const MESSAGES_TIME: std::time::Duration = std::time::Duration::from_secs(1);

/// Reaps a guard or a holder, which ends right after its end of the connection is closed.
pub(crate) async fn reap(process: Pid) {
    for attempt in 0..REAP_ATTEMPTS {
        match waitpid(process, Some(WaitPidFlag::WNOHANG)) {
            Ok(nix::sys::wait::WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
            _ => return,
        }
        tokio::time::sleep(std::time::Duration::from_millis(1 << attempt)).await;
    }
    tracing::warn!(pid = %process, "a sidecar's process did not end");
}

/// 1, 2, 4 .. 8192 ms: 16 s in all.
const REAP_ATTEMPTS: u32 = 14;

/// Returns the error of a trial that the runner prints on stdout.
pub(crate) fn obstacle(command: &mut std::process::Command) -> Option<String> {
    match command.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) if !output.stdout.is_empty() => {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Some(format!("the runner ended with {}", output.status)),
        Err(error) => Some(format!("the runner cannot be executed: {error}")),
    }
}

pub(crate) fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::from)
}
