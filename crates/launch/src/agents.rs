//! The table of agents (`spec/agents.md#table`): all that a launcher knows about each.

mod acp;
mod table;

use std::path::PathBuf;

use aifo_types::env;

pub use self::acp::{AcpProfile, MissingFileReply, Stream};
pub use self::table::known_agents;

/// What an agent is, and what it needs in order to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSpec {
    /// What it is called, and asked for by.
    pub name: String,
    /// The program in its image, and arguments that come before the user's.
    pub command: Vec<String>,
    /// Its image, where that is not the one of its name.
    pub image: Option<String>,
    /// For which of its runtimes decisions are smart.
    pub smart: SmartRuntimes,
    /// Its own python, in its image.
    pub local_python: Option<PathBuf>,
    /// What it keeps between sessions: folders, relative to HOME.
    pub state: Vec<PathBuf>,
    /// Folders below those that are each session's own, and empty: where programs of the agent's meet,
    /// which must not be those of this machine.
    pub private: Vec<PathBuf>,
    /// Files of its settings, relative to HOME, which it gets to read if they are there.
    pub settings: Vec<PathBuf>,
    /// The variables of the user's that it gets, by exact name.
    pub variables: Vec<String>,
    /// The variables that it gets in any case, with their values.
    pub set: Vec<(String, String)>,
    /// The shell that it is told is the user's, in its image.
    pub shell: PathBuf,
    /// How it is spoken to over ACP, if it can be.
    pub acp: Option<AcpProfile>,
}

/// For which runtimes calls are decided smartly: local for the agent's own programs, proxied for the
/// workspace's (`spec/decide.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmartRuntimes {
    /// `node`.
    pub node: bool,
    /// `python`.
    pub python: bool,
}

impl SmartRuntimes {
    const NODE: SmartRuntimes = SmartRuntimes { node: true, python: false };
    const PYTHON: SmartRuntimes = SmartRuntimes { node: false, python: true };
    const NONE: SmartRuntimes = SmartRuntimes { node: false, python: false };

    /// As a shim is told. Said even where both are off, over what our own environment may say.
    pub fn variables(self) -> [(&'static str, &'static str); 3] {
        let switch = |on| if on { "1" } else { "0" };
        [
            (env::SMART, switch(self.node || self.python)),
            (env::SMART_NODE, switch(self.node)),
            (env::SMART_PYTHON, switch(self.python)),
        ]
    }
}

impl AgentSpec {
    /// An agent of which nothing is known but its name, which is its command.
    pub fn unknown(name: &str) -> Self {
        AgentSpec {
            name: name.to_owned(),
            command: vec![name.to_owned()],
            image: None,
            smart: SmartRuntimes::NONE,
            local_python: None,
            state: Vec::new(),
            private: Vec::new(),
            settings: Vec::new(),
            variables: Vec::new(),
            set: Vec::new(),
            shell: PathBuf::from("/bin/bash"),
            acp: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::Component;

    #[test]
    fn the_table_is_sound() {
        let agents = known_agents();
        let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for agent in &agents {
            let below =
                |path: &PathBuf| path.components().all(|c| matches!(c, Component::Normal(_)));
            assert!(!agent.state.is_empty() && agent.state.iter().all(below), "{}", agent.name);
            let of_state = |path: &PathBuf| agent.state.iter().any(|state| path.starts_with(state));
            assert!(
                agent.private.iter().all(|path| below(path) && of_state(path)),
                "{}",
                agent.name
            );
            let ours = |name: &str| name.starts_with(env::PREFIX);
            assert!(!agent.variables.iter().any(|name| ours(name) || name.contains('*')));
            assert!(!agent.set.iter().any(|(name, _)| ours(name)));
            if let Some(acp) = &agent.acp {
                assert!(acp.command.iter().all(|word| !word.is_empty()), "{}", agent.name);
                assert!(!acp.command.is_empty() && acp.initialize.as_secs() >= 60);
            }
        }
    }

    #[test]
    fn runtimes_as_required() {
        let smart =
            |name: &str| known_agents().into_iter().find(|it| it.name == name).unwrap().smart;
        for name in ["letta", "codex", "crush", "opencode"] {
            assert_eq!(smart(name), SmartRuntimes::NODE, "{name}");
        }
        for name in ["aider", "openhands"] {
            assert_eq!(smart(name), SmartRuntimes::PYTHON, "{name}");
        }
    }

    #[test]
    fn the_page_has_every_profile() {
        const PAGE: &str = include_str!("../../../spec/agents.md");
        let (mut rows, mut silent) = (Vec::new(), Vec::new());
        for agent in known_agents() {
            let Some(acp) = agent.acp else {
                silent.push(agent.name);
                continue;
            };
            let yes = |on: bool| if on { " yes |" } else { " |" };
            let option = acp.allow_option.map(|id| format!(" `{id}`")).unwrap_or_default();
            rows.push(format!(
                "| {} | `{}` |{}{} {} |{option} | {} s |{}",
                agent.name,
                acp.command.join(" "),
                yes(acp.fs),
                yes(acp.terminal),
                acp.missing_file.as_str(),
                acp.initialize.as_secs(),
                yes(acp.kill_on_eof),
            ));
            assert_eq!((acp.stream, acp.set), (Stream::Delta, vec![]), "{}", agent.name);
        }
        assert!(PAGE.contains(&(rows.join("\n") + "\n\n")), "{rows:#?}");
        assert_eq!(silent, ["aider", "crush", "letta"]);
    }
}
