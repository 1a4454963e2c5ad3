//! Queries the container engines of this machine and names those that do not answer.

use aifo_agents::trusted_programs_here;
use aifo_engine::{Engine, EngineStatus, query_engines};
use aifo_terminal::console;

/// Returns the engines that answer, and names the others on stderr.
pub(crate) async fn answering() -> Vec<Engine> {
    answering_and_silent().await.0
}

/// The same, with the number of the others.
pub(crate) async fn answering_and_silent() -> (Vec<Engine>, usize) {
    let (mut engines, mut silent) = (Vec::new(), 0);
    for EngineStatus { flavor, result } in query_engines(&trusted_programs_here()).await {
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
