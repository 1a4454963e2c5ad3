//! Programs of this machine that no known agent can have written (`spec/trust.md#programs`).

use std::path::{Path, PathBuf};

use aifo_host::{TrustedPrograms, home};

use crate::agents::{AgentSpec, known_agents};

/// Returns the trusted programs for a session with this workspace.
pub fn trusted_programs(workspace: &Path) -> TrustedPrograms {
    TrustedPrograms::for_workspace(workspace, &state_directories(known_agents()))
}

/// Returns the trusted programs for a command without a workspace: the current directory counts as one.
pub fn trusted_programs_here() -> TrustedPrograms {
    trusted_programs(Path::new("."))
}

/// Returns the directories of the user in which these agents keep their state.
pub fn state_directories<'a>(agents: impl IntoIterator<Item = &'a AgentSpec>) -> Vec<PathBuf> {
    let Some(home) = home() else { return Vec::new() };
    let states = agents.into_iter().flat_map(|agent| &agent.state);
    states.map(|state| home.join(state)).collect()
}
