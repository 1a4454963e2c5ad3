//! Errors of sidecars.

use std::io;
use std::time::Duration;

use aifo_types::Kind;
use aifo_wire::FrameError;

/// Why a sidecar could not be started, or cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// The runner program could not be started.
    #[error("cannot start {}: {source}{}", display_name(kind), hint(source))]
    Start {
        /// The kind of the sidecar.
        kind: Kind,
        /// The system's error.
        source: io::Error,
    },
    /// The engine does not have the image, and is not to pull it.
    #[error("the {kind} sidecar has no image '{image}' yet; {remedy}")]
    NoImage {
        /// The kind of the sidecar.
        kind: Kind,
        /// The image.
        image: String,
        /// What the user can do.
        remedy: String,
    },
    /// The container did not start.
    #[error("cannot start {} from image '{image}': {reason}{hint}", display_name(kind))]
    Container {
        /// The kind of the sidecar.
        kind: Kind,
        /// The image.
        image: String,
        /// The error of the engine or of the runner.
        reason: String,
        /// A line `hint: ..` with its leading line break; empty without a known remedy.
        hint: String,
    },
    /// No runner could be started in a container of the user's.
    #[error("the {kind} sidecar cannot be attached to container '{container}': {reason}{hint}")]
    Attach {
        /// The kind of the sidecar.
        kind: Kind,
        /// The container name.
        container: String,
        /// The error of the engine, or why the container is not usable.
        reason: String,
        /// A line `hint: ..` with its leading line break; empty without a known remedy.
        hint: String,
    },
    /// The runner did not answer in time.
    #[error("{it} did not answer within {secs} s", it = display_name(kind), secs = timeout.as_secs())]
    NoAnswer {
        /// The kind of the sidecar.
        kind: Kind,
        /// The time it had.
        timeout: Duration,
    },
    /// The runner has another version of the frames.
    #[error(
        "the {kind} sidecar's runner has version {runner_version} of the frames, aifo-coder has \
         version {own_version}\nhint: install aifo-shim and aifo-coder from the same build"
    )]
    Version {
        /// The kind of the sidecar.
        kind: Kind,
        /// The runner version.
        runner_version: u8,
        /// The version of this program.
        own_version: u8,
    },
    /// The runner sent invalid bytes, or a frame at a wrong time.
    #[error("the {kind} sidecar's runner broke the protocol")]
    Protocol {
        /// The kind of the sidecar.
        kind: Kind,
        /// The decoding error; `None` for a frame at a wrong time.
        source: Option<FrameError>,
    },
    /// The runner could not bind the listeners of its network stack, or passed other descriptors.
    #[error(
        "{} has no network by name: {reason}\nhint: choose another network with --net",
        display_name(kind)
    )]
    Listeners {
        /// The kind of the sidecar that needs the stack.
        kind: Kind,
        /// The runner's error, or the descriptor that is wrong.
        reason: String,
    },
    /// The connection to the runner has ended, and with it every tool of the runner.
    #[error("{} is gone", display_name(.0))]
    Lost(Kind),
    /// The session has no sidecar of this kind.
    #[error("no {0} sidecar runs in this session")]
    NotRunning(Kind),
}

/// Returns the container of a kind, in words.
fn display_name(kind: &Kind) -> String {
    match *kind == Kind::agent() {
        true => "the agent's container".to_owned(),
        false => format!("the {kind} sidecar"),
    }
}

/// Returns a line `hint: ..` with its leading line break, or an empty text.
fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => {
            "\nhint: free space in the directory of sessions, or set XDG_RUNTIME_DIR to another"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_has_a_remedy() {
        let start = |kind: io::ErrorKind| SidecarError::Start {
            kind: Kind::agent(),
            source: io::Error::from(kind),
        };
        let text = start(io::ErrorKind::StorageFull).to_string();
        assert!(text.contains("\nhint: free space") && text.contains("XDG_RUNTIME_DIR"), "{text}");
        assert!(!start(io::ErrorKind::NotFound).to_string().contains("hint:"));
    }
}
