//! The table of agents (`spec/agents.md#table`).

mod acp;
mod keys;
mod state_file;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;

use aifo_network::AgentHosts;
use aifo_types::env;
use serde::{Deserialize, Deserializer};

pub use self::acp::{AcpProfile, ChunkMode, MissingFileReply};
pub use self::keys::{BaseUrl, KeyRow, LoginKey, SettingsFile};
pub(crate) use self::state_file::MAX_SETTINGS_BYTES;
pub use self::state_file::{FileFormat, StateFile, StateImport, StateMode};
pub use self::table::known_agents;

/// A row of the table: what an agent needs to run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default = "without_name", deny_unknown_fields)]
pub struct AgentSpec {
    /// Its name, which selects the row: that of its file.
    #[serde(skip)]
    pub name: String,
    /// The program in its image, and arguments before the user's; by default its name.
    pub command: Vec<String>,
    /// Its image, if not the one of its name.
    pub image: Option<String>,
    /// Debian packages that its image has as well.
    pub packages: Vec<String>,
    /// The runtimes with smart decisions.
    pub smart: SmartRuntimes,
    /// True if its programs meet on a port of localhost, which all containers of a pod share.
    pub listens: bool,
    /// The agent's own python, in its image: that of a virtual environment.
    pub local_python: Option<PathBuf>,
    /// State that it keeps between sessions: directories relative to HOME.
    pub state: Vec<PathBuf>,
    /// Directories below those that are empty and private to each session: its programs meet there,
    /// and must not meet programs of this machine.
    pub private: Vec<PathBuf>,
    /// Its login, which its own state shares with the user's.
    pub credentials: Option<StateFile>,
    /// The user's settings without commands, which a new state gets.
    pub import: Vec<StateFile>,
    /// The user's conversations, relative to HOME, which a state gets if the user wants it.
    pub conversations: Vec<PathBuf>,
    /// Settings files relative to HOME, mounted read-only if they exist.
    pub settings: Vec<PathBuf>,
    /// Files in a project.
    pub project: AgentProject,
    /// The user's variables that it gets, by exact name.
    pub variables: Vec<String>,
    /// The providers whose keys it does not need to have.
    pub keys: Vec<KeyRow>,
    /// Variables that are always set, with their values.
    #[serde(deserialize_with = "pairs")]
    pub set: Vec<(String, String)>,
    /// The hosts that it connects to.
    ///
    /// Those of a known agent are what the agent of the image, or its maker's list for firewalls, names. Hosts
    /// at which any account can store files for others are left out. Every one is reached with TLS only.
    pub hosts: AgentHosts,
    /// The user's shell, in its image.
    pub shell: PathBuf,
    /// Its ACP profile, if it speaks ACP.
    pub acp: Option<AcpProfile>,
}

/// Names of an agent's files in a project, as of [`aifo_policy::ProjectNames`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentProject {
    /// Files that it executes or obeys. Names that start with '.' need no entry.
    pub files: Vec<String>,
    /// Data that it writes there.
    pub data: Vec<String>,
}

/// Runtimes with smart decisions: the agent's own programs run locally, the workspace's are proxied
/// (`spec/decide.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SmartRuntimes {
    /// `node`.
    pub node: bool,
    /// `python`.
    pub python: bool,
}

impl SmartRuntimes {
    /// Returns the variables for shims. They are also set when both runtimes are off, to override
    /// the launcher's own.
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
    /// Returns the private directories below its state.
    pub fn private_in_state(&self) -> impl Iterator<Item = &PathBuf> {
        self.private.iter().filter(|path| path.is_relative())
    }

    /// Returns the names in `/tmp` where its programs meet, for processes of this user: each container has
    /// its own directory there.
    pub fn private_in_tmp(&self, uid: u32) -> Vec<PathBuf> {
        let names = self.private.iter().filter(|path| path.is_absolute());
        let named = |path: &PathBuf| path.to_string_lossy().replace(UID, &uid.to_string()).into();
        names.map(named).collect()
    }

    /// Returns a row with only a name, which is also the command.
    pub fn unknown(name: &str) -> Self {
        AgentSpec {
            name: name.to_owned(),
            command: vec![name.to_owned()],
            image: None,
            packages: Vec::new(),
            smart: SmartRuntimes::default(),
            listens: false,
            local_python: None,
            state: Vec::new(),
            private: Vec::new(),
            credentials: None,
            import: Vec::new(),
            conversations: Vec::new(),
            settings: Vec::new(),
            project: AgentProject::default(),
            variables: Vec::new(),
            keys: Vec::new(),
            set: Vec::new(),
            hosts: AgentHosts::default(),
            shell: PathBuf::from("/bin/bash"),
            acp: None,
        }
    }
}

fn without_name() -> AgentSpec {
    AgentSpec { command: Vec::new(), ..AgentSpec::unknown("") }
}

/// Deserializes a table of variables, sorted by name.
fn pairs<'de, D: Deserializer<'de>>(table: D) -> Result<Vec<(String, String)>, D::Error> {
    Ok(BTreeMap::deserialize(table)?.into_iter().collect())
}

/// Stands for the number of the container user in a private name.
const UID: &str = "UID";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::HashSet;
    use std::path::Component;

    #[test]
    fn rows_are_valid() {
        let agents = known_agents();
        let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for agent in agents {
            let below =
                |path: &PathBuf| path.components().all(|c| matches!(c, Component::Normal(_)));
            assert!(!agent.state.is_empty() && agent.state.iter().all(below), "{}", agent.name);
            let of_state = |path: &PathBuf| agent.state.iter().any(|state| path.starts_with(state));
            assert!(
                agent.private.iter().all(|path| match path.strip_prefix("/tmp") {
                    Ok(name) => below(&name.to_owned()),
                    Err(_) => below(path) && of_state(path),
                }),
                "{}",
                agent.name
            );
            let files = agent.credentials.iter().chain(&agent.import);
            for file in files {
                assert!(below(&file.from) && of_state(&file.to), "{file:?}");
                assert!(file.keys.is_empty() == (file.format == FileFormat::Text), "{file:?}");
                // Names of commands, in any agent's settings.
                let words = ["mcp", "hook", "plugin", "command", "notify", "**"];
                assert!(!words.iter().any(|word| file.keys.join(" ").contains(word)), "{file:?}");
            }
            assert!(!agent.project.files.is_empty(), "{}", agent.name);
            assert!(agent.conversations.iter().all(of_state), "{}", agent.name);
            let is_reserved = |name: &str| name.starts_with(env::PREFIX);
            assert!(!agent.variables.iter().any(|name| is_reserved(name) || name.contains('*')));
            assert!(!agent.set.iter().any(|(name, _)| is_reserved(name)));
            let AgentHosts { model, telemetry, update } = &agent.hosts;
            assert!(!model.is_empty(), "{}", agent.name);
            for hosts in [model, telemetry, update] {
                assert!(aifo_egress::NetRules::parse(hosts).is_ok(), "{}", agent.name);
                let stores = |host: &String| host.starts_with("storage.googleapis.com");
                assert!(!hosts.iter().any(stores), "{}", agent.name);
            }
            let is_telemetry = |host: &&String| telemetry.contains(host);
            assert_eq!(model.iter().find(is_telemetry), None, "{}", agent.name);
            if let Some(acp) = &agent.acp {
                assert!(acp.command.iter().all(|word| !word.is_empty()), "{}", agent.name);
                assert!(!acp.command.is_empty() && acp.initialize.as_secs() >= 60);
            }
        }
    }

    #[test]
    fn a_login_that_fetches_settings_is_not_copied() {
        let agents = known_agents();
        let opencode = agents.iter().find(|agent| agent.name == "opencode").unwrap();
        let login = opencode.credentials.as_ref().unwrap();
        let of =
            |kind: &str| json!({"https://evil.example": {"type": kind, "key": "K", "token": "x"}});
        assert!(login.select_strictly(&of("wellknown")).is_err());
        let selected = json!({"https://evil.example": {"type": "api", "key": "K"}});
        assert_eq!(login.select_strictly(&of("api")), Ok(selected));
    }

    #[test]
    fn runtimes_as_required() {
        let smart = |name: &str| known_agents().iter().find(|it| it.name == name).unwrap().smart;
        for name in ["letta", "codex", "crush", "opencode"] {
            assert_eq!(smart(name), SmartRuntimes { node: true, python: false }, "{name}");
        }
        for name in ["aider", "openhands"] {
            assert_eq!(smart(name), SmartRuntimes { node: false, python: true }, "{name}");
        }
    }

    #[test]
    fn the_spec_lists_every_profile() {
        const PAGE: &str = include_str!("../../../spec/agents.md");
        let (mut rows, mut silent) = (Vec::new(), Vec::new());
        for agent in known_agents() {
            let Some(acp) = &agent.acp else {
                silent.push(&agent.name);
                continue;
            };
            let yes = |on: bool| if on { " yes |" } else { " |" };
            let option = acp.allow_option.as_ref().map(|id| format!(" `{id}`")).unwrap_or_default();
            rows.push(format!(
                "| {} | `{}` |{}{} {} |{option} | {} s |{}",
                agent.name,
                acp.command.join(" "),
                yes(acp.fs),
                yes(acp.terminal),
                match acp.missing_file {
                    MissingFileReply::Error => "error",
                    MissingFileReply::Empty => "empty",
                },
                acp.initialize.as_secs(),
                yes(acp.kill_on_eof),
            ));
            assert_eq!((acp.stream, acp.set.len()), (ChunkMode::Delta, 0), "{}", agent.name);
        }
        assert!(PAGE.contains(&(rows.join("\n") + "\n\n")), "{rows:#?}");
        assert_eq!(silent, ["aider", "crush", "letta"]);
    }
}
