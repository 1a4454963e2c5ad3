//! Refusals of calls whose tool did not start, or whose ending is unknown.

use std::io;
use std::sync::Arc;

use aifo_sidecar::{Exec, SidecarError};
use aifo_types::{Kind, Refusal, exit};
use aifo_wire::{StartError, StartErrorCause};

pub(crate) fn pipe_failed(error: io::Error) -> Refusal {
    Refusal::Internal(format!("cannot create a pipe: {error}"))
}

pub(crate) fn internal_error(error: Arc<SidecarError>) -> Refusal {
    Refusal::Internal(error.to_string())
}

/// Returns the cause of an unknown ending.
pub(crate) fn runner_lost(kind: &Kind) -> String {
    format!("the runner of the {kind} sidecar went away while the tool ran; its ending is unknown")
}

pub(crate) fn lost(exec: &Exec) -> Refusal {
    Refusal::EndingUnknown(runner_lost(exec.runner().kind()))
}

pub(crate) fn start_refusal(StartError { cause, message }: StartError) -> Refusal {
    match cause {
        StartErrorCause::Cwd => Refusal::BadRequest(message),
        StartErrorCause::Absent | StartErrorCause::Failed => Refusal::Internal(message),
        StartErrorCause::NotFound => {
            Refusal::StartFailed { cause: message, exit_code: exit::NOT_FOUND }
        }
        StartErrorCause::NotExecutable => {
            Refusal::StartFailed { cause: message, exit_code: exit::NOT_EXECUTABLE }
        }
    }
}
