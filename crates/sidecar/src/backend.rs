//! The interface of the ways to run sidecars.

use std::future::Future;
use std::pin::Pin;

use aifo_types::Kind;

use crate::error::SidecarError;
use crate::progress::Progress;
use crate::runner::Runner;

/// A way to start sidecars.
///
/// A backend starts a runner and returns a connection to it. All else is the same for every backend.
pub trait Backend: Send + Sync {
    /// Starts the sidecar of a kind and returns when its runner has answered. A failed start leaves
    /// nothing behind. The sidecar ends when the connection to its runner ends. Slow steps, such as
    /// pulling an image, are reported to `progress`.
    fn start(&self, kind: Kind, progress: Progress) -> Starting;
}

/// The future of a start.
pub type Starting = Pin<Box<dyn Future<Output = Result<Runner, SidecarError>> + Send>>;
