//! `cargo xtask test agents`: tests real agents in locally built images.
//!
//! The images are large and come from package indexes, so only a usual set is built by default.

use anyhow::{Result, bail};

use crate::images::{self, Engine};
use crate::{container_gate, test_program};

/// Prefix of the agent suites' names.
pub(crate) const PREFIX: &str = "agent_";

/// The agents tested by default: two of each way of being started, and one that uses a terminal.
const USUAL: [&str; 5] = ["codex", "opencode", "gemini", "aider", "openhands"];

/// The toolchain whose own image a test uses; others use an image for tests.
const SIDECAR: &str = "c-cpp";

/// `[docker|podman] [AGENT..]`: builds the images of these agents and runs the agent suites. The
/// default engine is the first available one. The suites report agents without an image as skipped.
pub(crate) fn run(words: &[String], args: &[String]) -> Result<()> {
    let (engine, agents) = asked(words);
    let engine = engine.map_or_else(Engine::first_available, Ok)?;
    let mut images: Vec<String> = agents.iter().map(|agent| format!("agent-{agent}")).collect();
    images.push(SIDECAR.to_owned());
    images::build_for_suites(&[engine])?;
    images::build_for_agents(engine, images)?;
    let suites: Vec<String> =
        test_program::suites()?.into_iter().filter(|name| name.starts_with(PREFIX)).collect();
    if suites.is_empty() {
        bail!("no suite is named '{PREFIX}..'");
    }
    container_gate::ask(engine, &suites, args)
}

/// Returns the named engine and the agents.
fn asked(words: &[String]) -> (Option<Engine>, Vec<&str>) {
    let engine = words.first().and_then(|word| Engine::parse(word).ok());
    let agents = words.iter().skip(usize::from(engine.is_some())).map(String::as_str);
    let agents: Vec<&str> = agents.collect();
    (engine, if agents.is_empty() { USUAL.to_vec() } else { agents })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_may_stand_before_the_agents() {
        let asked = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let (engine, agents) = asked(&words);
            (engine, agents.join(" "))
        };
        assert_eq!(asked(&[]), (None, USUAL.join(" ")));
        assert_eq!(asked(&["vibe", "kimi"]), (None, "vibe kimi".to_owned()));
        assert_eq!(asked(&["podman", "codex"]), (Some(Engine::Podman), "codex".to_owned()));
        assert_eq!(asked(&["podman"]), (Some(Engine::Podman), USUAL.join(" ")));
    }
}
