//! Agents: what each needs, and its container.
//!
//! In scope: the table of known agents ([`known_agents`]); the state of its own that an agent keeps
//! between sessions, with the user's login; model keys that it works with but does not have; its
//! container and the proxy in front of it; the user's settings that its tools need.
//!
//! Out of scope: sessions (`aifo-launch`), and the recipes of images (`aifo-engine`).
//!
//! ```
//! use aifo_agents::known_agents;
//!
//! let claude = known_agents().into_iter().find(|agent| agent.name == "claude").expect("it is known");
//! assert!(claude.hosts.model.contains(&"api.anthropic.com:443".to_owned()));
//! ```
//!
//! Architecture invariant: only what a row lists is copied from the user's files into the state of an
//! agent, and nothing but its login is copied back.

pub mod agent_container;
mod agent_endpoint;
mod agent_error;
mod agent_programs;
mod agent_settings;
mod agent_urls;
mod agent_variables;
mod agents;
mod environments;
mod forge_credentials;
mod forges;
mod keys;
mod shims;
mod state;
mod usage_file;
mod user_settings;

pub use agent_container::AgentContainerConfig;
pub use agent_endpoint::{AgentEndpoint, AgentEndpointConfig};
pub use agent_error::AgentError;
pub use agent_programs::{state_directories, trusted_programs, trusted_programs_here};
pub use agent_settings::AgentSettings;
pub use agent_urls::UnreachableUrl;
pub use agent_variables::{AGENT_VARIABLE_PREFIX, agent_variable_name, agent_variables};
pub use agents::{
    AcpProfile, AgentProject, AgentSpec, BaseUrl, ChunkMode, FileFormat, KeyRow, LoginKey,
    MissingFileReply, SettingsFile, SmartRuntimes, StateFile, StateImport, StateMode, known_agents,
};
pub use environments::{link_target, warn_of_foreign_environments};
pub use forges::{AgentForges, ForgeEntry, ForgeSettings};
pub use keys::{
    KEY_PORT, KeyEntry, KeySettings, KeysError, ModelKeys, SecretSource, key_variables,
    providers_of_keys,
};
pub use shims::{
    INTERPRETERS_LABEL, ShimTools, covered_interpreters, link_tools, path_with_first,
    path_without_shims,
};
pub use state::{OpenState, StateError, StatePlace, StoredState, stored_states};
pub use usage_file::model_usage;
pub use user_settings::{ToolSettings, UserSettings};
