//! The engines of this machine, all that result.

use std::time::Duration;

use aifo_launch::{Choice, Engine, EngineError, Flavor, TrustedPrograms};

use crate::console;

/// An engine that is installed, and what it said.
pub(crate) struct EngineStatus {
    pub(crate) flavor: Flavor,
    /// Errors: why it cannot be used, in a sentence.
    pub(crate) result: Result<Engine, String>,
}

/// Asks every engine that is installed what it is, at the same time.
pub(crate) async fn query_all(programs: &TrustedPrograms) -> Vec<EngineStatus> {
    let query = |flavor| query(flavor, programs);
    let (docker, podman) = tokio::join!(query(Flavor::Docker), query(Flavor::Podman));
    [docker, podman].into_iter().flatten().collect()
}

/// Those that result. The others are named on stderr: what they hold is not known.
pub(crate) async fn answering() -> Vec<Engine> {
    let mut engines = Vec::new();
    for EngineStatus { flavor, result } in query_all(&TrustedPrograms::here()).await {
        match result {
            Ok(engine) => engines.push(engine),
            Err(reason) => console::say(format_args!("what {flavor} holds is not known: {reason}")),
        }
    }
    engines
}

/// `None` if it is not installed.
async fn query(flavor: Flavor, programs: &TrustedPrograms) -> Option<EngineStatus> {
    let result = match within(Engine::find(Choice::Only(flavor), programs)).await {
        Some(Err(EngineError::NotFound(_))) => return None,
        Some(found) => found.map_err(|error| error.to_string()),
        None => Err(format!("{flavor} did not result within {} s", TIMEOUT.as_secs())),
    };
    Some(EngineStatus { flavor, result })
}

/// What comes of a question to an engine, if it comes in time.
pub(crate) async fn within<T>(question: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(TIMEOUT, question).await.ok()
}

/// A daemon that hangs must not hang those who only look.
const TIMEOUT: Duration = Duration::from_secs(10);
