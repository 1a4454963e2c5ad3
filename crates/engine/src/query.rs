//! Queries of the engines of this machine, within a time.

use std::time::Duration;

use crate::engine::{Choice, Engine, EngineError};
use crate::flavor::Flavor;
use crate::program::Programs;

/// An installed engine and its response.
#[derive(Debug)]
pub struct EngineStatus {
    /// Which one.
    pub flavor: Flavor,
    /// Errors: why it cannot be used.
    pub result: Result<Engine, String>,
}

/// Queries all installed engines concurrently.
pub async fn query_engines(programs: &impl Programs) -> Vec<EngineStatus> {
    let query = |flavor| query_engine(flavor, programs);
    let (docker, podman) = tokio::join!(query(Flavor::Docker), query(Flavor::Podman));
    [docker, podman].into_iter().flatten().collect()
}

/// Queries one engine; `None` if it is not installed.
pub async fn query_engine(flavor: Flavor, programs: &impl Programs) -> Option<EngineStatus> {
    let result = match within_timeout(Engine::find(Choice::Only(flavor), programs)).await {
        Some(Err(EngineError::NotFound(_))) => return None,
        Some(found) => found.map_err(|error| error.to_string()),
        None => Err(format!("{flavor} did not answer within {} s", TIMEOUT.as_secs())),
    };
    Some(EngineStatus { flavor, result })
}

/// Awaits an engine's response; `None` after 10 s.
pub async fn within_timeout<T>(response: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(TIMEOUT, response).await.ok()
}

/// A hanging daemon must not block commands that only list.
const TIMEOUT: Duration = Duration::from_secs(10);
