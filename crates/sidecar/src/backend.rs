//! What differs between one way of running sidecars and another.

use std::future::Future;
use std::io;
use std::pin::Pin;

use aifo_types::Kind;
use aifo_wire::FrameError;

use crate::progress::Progress;
use crate::runner::Runner;

/// A way to bring up sidecars.
///
/// A backend ensures that a runner of a kind runs somewhere and obtains a connection to it. All
/// that happens afterwards is the same for every backend.
pub trait Backend: Send + Sync {
    /// Starts the sidecar of this kind and returns when its runner has answered. On failure
    /// nothing of it is left behind. The sidecar ends when the runner's connection does. What takes
    /// its time is told by `progress`.
    fn start(&self, kind: Kind, progress: Progress) -> Starting;
}

/// A sidecar on its way up.
pub type Starting = Pin<Box<dyn Future<Output = Result<Runner, SidecarError>> + Send>>;

/// Why a sidecar could not be started, or is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// The runner's program could not be started.
    #[error("cannot start {}: {source}", display_name(kind))]
    Start {
        /// Which sidecar.
        kind: Kind,
        /// What the system said.
        source: io::Error,
    },
    /// Its container did not come up.
    #[error("cannot start {} from image '{image}': {reason}{hint}", display_name(kind))]
    Container {
        /// Which sidecar.
        kind: Kind,
        /// What it was to be made from.
        image: String,
        /// What the engine, or the runner, said.
        reason: String,
        /// What helps, on a line of its own, if that is known.
        hint: String,
    },
    /// A container of the user's own did not take its runner.
    #[error("the {kind} sidecar cannot be attached to container '{container}': {reason}{hint}")]
    Attach {
        /// Which sidecar.
        kind: Kind,
        /// The container's name.
        container: String,
        /// What the engine said, or what we found.
        reason: String,
        /// What helps, on a line of its own, if that is known.
        hint: String,
    },
    /// The runner did not answer in time.
    #[error("{it} did not answer within {secs} s", it = display_name(.0), secs = crate::runner::HELLO_TIMEOUT.as_secs())]
    NoAnswer(Kind),
    /// The runner speaks another version of the frames.
    #[error(
        "the {kind} sidecar's runner speaks version {runner_version} of the frames, we speak {own_version}: \
         aifo-shim and aifo-coder are not of the same build"
    )]
    Version {
        /// Which sidecar.
        kind: Kind,
        /// The runner's version.
        runner_version: u8,
        /// Our version.
        own_version: u8,
    },
    /// The runner sent what is no frame, or none that belongs there.
    #[error("the {kind} sidecar's runner broke the protocol")]
    Protocol {
        /// Which sidecar.
        kind: Kind,
        /// What was wrong, if it was the encoding.
        source: Option<FrameError>,
    },
    /// The runner is gone, and its tools with it.
    #[error("{} is gone", display_name(.0))]
    Lost(Kind),
    /// No sidecar of this kind belongs to the session.
    #[error("no {0} sidecar runs in this session")]
    NotRunning(Kind),
}

/// The container of a kind, in words.
fn display_name(kind: &Kind) -> String {
    match *kind == Kind::agent() {
        true => "the agent's container".to_owned(),
        false => format!("the {kind} sidecar"),
    }
}
