//! Failures to start a tool.

use std::ffi::CString;
use std::path::Path;

use aifo_process::SpawnError;
use aifo_wire::{StartError, StartErrorCause};
use nix::errno::Errno;

pub(crate) fn start_error(cause: StartErrorCause, message: String) -> StartError {
    StartError { cause, message }
}

/// Translates an exec failure into the message of a shell and the cause that determines the exit
/// code.
pub(crate) fn spawn_start_error(program: &Path, error: &SpawnError) -> StartError {
    let program = program.display();
    let (cause, reason) = match error {
        // The file itself exists, so its interpreter is missing.
        SpawnError::Exec(Errno::ENOENT) => {
            (StartErrorCause::NotFound, "its interpreter was not found".to_owned())
        }
        SpawnError::Exec(Errno::E2BIG) => {
            (StartErrorCause::NotExecutable, "argument list too long".to_owned())
        }
        SpawnError::Credentials(_) => (StartErrorCause::User, error.to_string()),
        SpawnError::Exec(errno) => (StartErrorCause::NotExecutable, errno.desc().to_lowercase()),
        other => (StartErrorCause::Failed, spawn_error_text(other)),
    };
    start_error(cause, format!("cannot execute '{program}': {reason}"))
}

/// Describes why no process was created.
pub(crate) fn spawn_error_text(error: &SpawnError) -> String {
    match error {
        SpawnError::TooManyProcesses => {
            format!("{error}; end some processes, or raise the sidecar's limit with --pids")
        }
        error => error.to_string(),
    }
}

pub(crate) fn c_string(text: &[u8]) -> Result<CString, StartError> {
    CString::new(text)
        .map_err(|error| start_error(StartErrorCause::Failed, SpawnError::from(error).to_string()))
}
