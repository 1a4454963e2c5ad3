//! The container engines of this machine.

use std::time::Duration;

use aifo_launch::{Choice, Engine, EngineError, Flavor, TrustedPrograms};

use crate::console;

/// An installed engine and its response.
pub(crate) struct EngineStatus {
    pub(crate) flavor: Flavor,
    /// Errors: why it cannot be used.
    pub(crate) result: Result<Engine, String>,
}

/// Queries all installed engines concurrently.
pub(crate) async fn query_all(programs: &TrustedPrograms) -> Vec<EngineStatus> {
    let query = |flavor| query(flavor, programs);
    let (docker, podman) = tokio::join!(query(Flavor::Docker), query(Flavor::Podman));
    [docker, podman].into_iter().flatten().collect()
}

/// Returns the engines that answer, and names the others on stderr.
pub(crate) async fn answering() -> Vec<Engine> {
    answering_and_silent().await.0
}

/// The same, with the number of the others.
pub(crate) async fn answering_and_silent() -> (Vec<Engine>, usize) {
    let (mut engines, mut silent) = (Vec::new(), 0);
    for EngineStatus { flavor, result } in query_all(&TrustedPrograms::here()).await {
        match result {
            Ok(engine) => engines.push(engine),
            Err(reason) => {
                silent += 1;
                console::say(format_args!("cannot list the contents of {flavor}: {reason}"));
            }
        }
    }
    (engines, silent)
}

/// `None` if it is not installed.
async fn query(flavor: Flavor, programs: &TrustedPrograms) -> Option<EngineStatus> {
    let result = match within(Engine::find(Choice::Only(flavor), programs)).await {
        Some(Err(EngineError::NotFound(_))) => return None,
        Some(found) => found.map_err(|error| error.to_string()),
        None => Err(format!("{flavor} did not answer within {} s", TIMEOUT.as_secs())),
    };
    Some(EngineStatus { flavor, result })
}

/// Awaits an engine's response; `None` after [`TIMEOUT`].
pub(crate) async fn within<T>(question: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(TIMEOUT, question).await.ok()
}

/// A hanging daemon must not block commands that only list.
const TIMEOUT: Duration = Duration::from_secs(10);
