//! Refusals that several modules return.

use std::io;
use std::sync::Arc;

use aifo_sidecar::SidecarError;
use aifo_types::{Kind, Refusal};

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
