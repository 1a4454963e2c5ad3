//! A `kubectl exec` that copies files or commits of a pod.

use std::io::Read;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use aifo_process::TimedChild;
use aifo_sync::SyncError;
use anyhow::Context;

use crate::{ApiFailure, KubectlError};

/// The time of a copy, after which kubectl is killed.
const WITHIN: Duration = Duration::from_secs(1800);
/// The time for a kubectl to end by itself.
pub(crate) const END_TIME: Duration = Duration::from_secs(2);

/// A running `kubectl exec` whose stdin and stdout the caller uses.
pub(crate) struct PodCopy {
    kubectl: TimedChild,
    stderr: ChildStderr,
}

impl PodCopy {
    /// Starts a command, and returns its stdin and stdout.
    pub(crate) fn start(mut command: Command) -> anyhow::Result<(ChildStdin, ChildStdout, Self)> {
        const FAILED: &str = "cannot run kubectl";
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context(FAILED)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let kubectl = TimedChild::watch(child, WITHIN).context(FAILED)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { anyhow::bail!(FAILED) };
        Ok((stdin, stdout, PodCopy { kubectl, stderr }))
    }

    /// Ends kubectl when its streams are no longer needed. Returns `copied`, but kubectl's error if the
    /// connection failed.
    pub(crate) fn finish<T>(self, copied: anyhow::Result<T>) -> anyhow::Result<T> {
        self.finish_within(END_TIME, copied)
    }

    /// As [`finish`](PodCopy::finish), but kubectl has this time to end by itself.
    pub(crate) fn finish_within<T>(
        self,
        within: Duration,
        copied: anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let is_late = self.kubectl.finish(within).is_ok_and(|(_, is_late)| is_late);
        copied.map_err(|error| {
            if is_late {
                return anyhow::anyhow!("the copy did not end within {} s", WITHIN.as_secs());
            }
            let mut stderr = Vec::new();
            let _ = self.stderr.take(64 << 10).read_to_end(&mut stderr);
            explained(error, &String::from_utf8_lossy(&stderr))
        })
    }
}

/// Returns the error of a copy: that of kubectl, if the connection has failed.
fn explained(error: anyhow::Error, stderr: &str) -> anyhow::Error {
    let is_cut = match error.downcast_ref() {
        Some(SyncError::Truncated | SyncError::Io(_)) => true,
        Some(_) => false,
        None => true,
    };
    match is_cut && !stderr.trim().is_empty() {
        true => KubectlError::Api(ApiFailure::of(stderr)).into(),
        false => error,
    }
}
