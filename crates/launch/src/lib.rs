//! Sessions, from creating their directories to removing them; the crate that other launchers embed.
//!
//! In scope: the choice of a backend ([`BackendRequest`]), session directories, token, sidecars, the
//! proxy, the directory of shims, running an agent, and the remains of killed sessions. If the start
//! fails, everything started so far is removed.
//!
//! Out of scope: flags, configuration files and output (`aifo-coder`), and single tool calls
//! (`aifo-proxy`).
//!
//! ```no_run
//! use aifo_launch::{Session, SessionConfig, ShimBinary, trusted_programs};
//! use aifo_types::{Kind, ToolName};
//!
//! # async fn embed() -> Result<(), Box<dyn std::error::Error>> {
//! let workspace = "/home/me/project";
//! let shim = ShimBinary::find(&trusted_programs(workspace.as_ref()))?;
//! let mut config = SessionConfig::new(workspace, shim);
//! config.toolchains = vec![Kind::parse("rust").expect("a kind").into()];
//! let session = Session::start(config).await?;
//! let status = session.exec(&ToolName::parse(b"cargo")?).arg("test").status().await?;
//! println!("cargo ended with {status}");
//! session.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Two small launchers, which the suites run: `examples/embed.rs`, one tool call on this machine, and
//! `examples/agent.rs`, an agent in a container ([`AgentContainerConfig`], [`Agent`]) with its tools in
//! another. An agent that another program starts needs [`Session::variables`] and [`Session::shims`].
//! `cargo xtask dist` builds a static shim, which runs in any image.
//!
//! Architecture invariant: a [`Session`] owns everything it creates. Dropping it removes its directories
//! and ends its sidecars.

mod added_rules;
mod agent;
mod agent_container;
mod agent_endpoint;
mod agent_error;
mod agent_programs;
mod agent_urls;
mod agent_variables;
mod agents;
mod ask_command;
mod attachments;
mod backend;
mod beneath;
mod cache;
mod call_log;
mod call_stats;
mod caller_finder;
mod certificates;
mod check;
mod choose;
mod claim;
mod cleanup;
mod config;
mod confine;
mod connection_file;
mod connection_log;
mod control_client;
mod control_socket;
mod detect;
mod devcontainer;
mod end_signals;
mod environments;
mod error;
mod front_socket;
mod gateway_thread;
mod git;
mod held;
mod host_watch;
mod identity;
mod keys;
mod killed;
mod kubectl;
mod linked;
mod local_names;
mod log_file;
mod mirror_table;
mod mirrors;
mod named_containers;
mod named_network;
mod network_rules;
mod network_verdict;
mod own_directories;
mod pins;
mod plan;
mod pod;
mod port_log;
mod port_relay;
mod project;
mod project_files;
mod proxy_questions;
mod publications;
mod published_port;
mod questions;
mod registries;
mod relayed_stack;
mod remove_tree;
mod repository;
mod running;
mod session;
mod session_dir;
mod session_dirs;
mod shim_binary;
mod shims;
mod sockets;
mod start;
mod state;
mod tool_stacks;
mod toolchain;
mod toolchain_images;
mod trusted;
mod url_host;
mod usage_file;
mod user_command;
mod user_limits;
mod user_program;
mod user_settings;
mod versions;
mod workspace_access;
mod workspace_check;
mod workspace_lock;

pub use added_rules::allow_names;
pub use agent::{Agent, AgentEnd, AgentEnvironment, ContainerEnvironment, HostEnvironment};
pub use agent_container::AgentContainerConfig;
pub use agent_error::AgentError;
pub use agent_programs::{state_directories, trusted_programs, trusted_programs_here};
pub use agent_urls::UnreachableUrl;
pub use agent_variables::{AGENT_VARIABLE_PREFIX, agent_variables};
pub use agents::{
    AcpProfile, AgentSpec, BaseUrl, ChunkMode, FileFormat, KeyRow, LoginKey, MissingFileReply,
    SettingsFile, SmartRuntimes, StateFile, StateImport, StateMode, known_agents,
};
pub use ask_command::run_ask_command;
pub use attachments::Attachments;
pub use backend::{Containers, RunnerTransport, SidecarBackend};
pub use cache::{Cache, CacheError, CacheLocation, caches};
pub use call_log::{
    CallLogReader, CallLogRetention, LoggedLine, LoggedMessage, LoggedRecord, MessageLevel,
    MessageLog, log_directory,
};
pub use call_stats::CallStats;
pub use certificates::{extended_system_bundle, own_certificates};
pub use check::Finding;
pub use choose::{BackendChoice, BackendRequest, ChoiceError, ChosenBackend, Fallback};
pub use cleanup::{CleanupReport, Leftover, Leftovers, RemoveError, find_leftovers};
pub use config::{SessionConfig, Verbosity};
pub use confine::{ConfinementMode, NetworkAccess};
pub use connection_file::{
    ConnectionReader, ConnectionState, ConnectionVerdict, LoggedConnection, PortUse,
    connections_written,
};
pub use connection_log::REFUSALS;
pub use control_client::{
    AnswerSender, ControlClient, ControlError, ControlLine, EndedQuestion, ListedQuestion,
};
pub use detect::detect_kinds;
pub use devcontainer::Devcontainer;
pub use end_signals::EndSignals;
pub use environments::link_target;
pub use error::LaunchError;
pub use held::{HeldDirectory, HeldRecord, HeldSession, HeldState, held_sessions};
pub use identity::git_identity;
pub use keys::{
    KEY_PORT, KeyEntry, KeySettings, KeysError, ModelKeys, SecretSource, key_variables,
    providers_of_keys,
};
pub use killed::{KilledSession, RemovedSessions, killed_sessions, remove_killed_sessions};
pub use kubectl::{
    ApiFailure, FailureCause, KubeContext, KubeTarget, Kubectl, KubectlAnswer, KubectlError,
    MIN_KUBECTL_MINOR, RETRY_TIME,
};
pub use local_names::LocalNames;
pub use network_rules::{DEFAULT_RULE, NetworkRule, NetworkRules, RuleScope};
pub use network_verdict::NetworkVerdict;
pub use own_directories::state_directory;
pub use pins::{ImageDecision, ImageReason};
pub use plan::plan;
pub use pod::{PodError, PodSession};
pub use project::{CacheScope, Project, recorded_root};
pub use proxy_questions::ProxyQuestions;
pub use publications::publish;
pub use published_port::{InvalidPort, PublishedPort, check_published};
pub use registries::{Admission, AdmissionError, AdmissionSources};
pub use repository::{default_workspace, exclude};
pub use running::{SessionInfo, asking_sessions, running_sessions};
pub use session::Session;
pub use session_dir::{new_id, runtime_directory};
pub use shim_binary::{ShimBinary, ShimBinaryError};
pub use shims::path_without_shims;
pub use state::{StateError, StoredState, stored_states};
pub use tool_stacks::{ToolStack, ToolStacks};
pub use toolchain::{Toolchain, Version, VersionSource};
pub use toolchain_images::{ImageDialogue, NoDialogue, ToolchainImages};
pub use trusted::TrustedPrograms;
pub use usage_file::model_usage;
pub use user_command::user_command;
pub use user_limits::used_up_limits;
pub use user_program::UserProgram;
pub use user_settings::UserSettings;
pub use versions::ProjectVersion;
pub use workspace_access::WorkspaceAccess;
pub use workspace_check::{CheckedWorkspace, WorkspaceError};
pub use workspace_lock::WorkspaceLock;
