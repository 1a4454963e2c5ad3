//! The engines of this machine, all that answer.

use std::time::Duration;

use aifo_launch::{Choice, Engine, EngineError, Flavor, TrustedPrograms};

use crate::console;

/// An engine that is installed, and what it said.
pub(crate) struct Asked {
    pub(crate) flavor: Flavor,
    /// Errors: why it cannot be used, in a sentence.
    pub(crate) answer: Result<Engine, String>,
}

/// Asks every engine that is installed what it is, at the same time.
pub(crate) async fn ask_all(programs: &TrustedPrograms) -> Vec<Asked> {
    let ask = |flavor| ask(flavor, programs);
    let (docker, podman) = tokio::join!(ask(Flavor::Docker), ask(Flavor::Podman));
    [docker, podman].into_iter().flatten().collect()
}

/// Those that answer. The others are named on stderr: what they hold is not known.
pub(crate) async fn answering() -> Vec<Engine> {
    let mut engines = Vec::new();
    for Asked { flavor, answer } in ask_all(&TrustedPrograms::here()).await {
        match answer {
            Ok(engine) => engines.push(engine),
            Err(reason) => console::say(format_args!("what {flavor} holds is not known: {reason}")),
        }
    }
    engines
}

/// `None` if it is not installed.
async fn ask(flavor: Flavor, programs: &TrustedPrograms) -> Option<Asked> {
    let answer = match within(Engine::find(Choice::Only(flavor), programs)).await {
        Some(Err(EngineError::NotFound(_))) => return None,
        Some(found) => found.map_err(|error| error.to_string()),
        None => Err(format!("{flavor} did not answer within {} s", PATIENCE.as_secs())),
    };
    Some(Asked { flavor, answer })
}

/// What comes of a question to an engine, if it comes in time.
pub(crate) async fn within<T>(question: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, question).await.ok()
}

/// A daemon that hangs must not hang those who only look.
const PATIENCE: Duration = Duration::from_secs(10);
