//! The table of agents: whose own runtime must stay where the agent is.

use aifo_types::env;

/// Which runtimes' calls are decided smartly: local for the agent's own programs, proxied for the
/// workspace's (`spec/decide.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Smart {
    pub(crate) node: bool,
    pub(crate) python: bool,
}

impl Smart {
    /// As a shim is told. Said even where both are off, over what our own environment may say.
    pub(crate) fn variables(self) -> [(&'static str, &'static str); 3] {
        let switch = |on| if on { "1" } else { "0" };
        [
            (env::SMART, switch(self.node || self.python)),
            (env::SMART_NODE, switch(self.node)),
            (env::SMART_PYTHON, switch(self.python)),
        ]
    }
}

/// What an agent of this name needs in order to start; nothing for one that is not known.
pub(crate) fn smart_for(agent: &str) -> Smart {
    Smart { node: NODE_AGENTS.contains(&agent), python: PYTHON_AGENTS.contains(&agent) }
}

/// Started as `env node`: without node beside them they do not come up.
const NODE_AGENTS: [&str; 7] = ["letta", "codex", "crush", "opencode", "gemini", "qwen", "copilot"];
const PYTHON_AGENTS: [&str; 2] = ["aider", "openhands"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_agents_get_nothing() {
        assert_eq!(smart_for("codex"), Smart { node: true, python: false });
        assert_eq!(smart_for("aider"), Smart { node: false, python: true });
        assert_eq!(smart_for("bash"), Smart::default());
    }
}
