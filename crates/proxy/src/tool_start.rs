//! Starts a tool on a leased sidecar, and maps a failed start to its refusal.

use std::os::fd::OwnedFd;

use aifo_sidecar::{Exec, ExecEvent, Lease};
use aifo_types::{Refusal, exit};
use aifo_wire::{Start, StartError, StartErrorCause};

use crate::refusals::runner_lost;

/// Starts a tool on `fds`. `None` if the sidecar has no such tool.
pub(crate) async fn start_on(
    lease: Lease,
    start: Start,
    fds: Vec<OwnedFd>,
) -> Result<Option<Exec>, Refusal> {
    let mut exec = lease.start(start, fds);
    match exec.next().await {
        Some(ExecEvent::Started) => Ok(Some(exec)),
        Some(ExecEvent::NotStarted(error)) if error.cause == StartErrorCause::Absent => Ok(None),
        Some(ExecEvent::NotStarted(error)) => Err(start_refusal(error)),
        // The tool may have started.
        Some(ExecEvent::ClientLeft | ExecEvent::Ended(_)) | None => {
            Err(Refusal::EndingUnknown(runner_lost(exec.runner().kind())))
        }
    }
}

/// Maps a failed start to its refusal.
pub(crate) fn start_refusal(StartError { cause, message }: StartError) -> Refusal {
    match cause {
        StartErrorCause::Cwd => Refusal::BadRequest(message),
        StartErrorCause::Absent | StartErrorCause::Failed | StartErrorCause::User => {
            Refusal::Internal(message)
        }
        StartErrorCause::NotFound => {
            Refusal::StartFailed { cause: message, exit_code: exit::NOT_FOUND }
        }
        StartErrorCause::NotExecutable => {
            Refusal::StartFailed { cause: message, exit_code: exit::NOT_EXECUTABLE }
        }
    }
}
