//! What a session is to be.

use std::path::PathBuf;
use std::time::Duration;

use aifo_policy::{Forwarding, NotifyRules, Policy};
use aifo_proxy::Limits;
use aifo_sidecar::{Reporter, Startup};
use aifo_types::Endpoint;

use crate::agent_container::AgentContainerConfig;
use crate::attachments::Attachments;
use crate::backend::{RunnerTransport, SidecarBackend};
use crate::call_log::CallLogRetention;
use crate::confine::ConfinementMode;
use crate::project::CacheScope;
use crate::shim_binary::ShimBinary;
use crate::toolchain::Toolchain;

/// What a session is to be.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The project's root.
    pub workspace: PathBuf,
    /// The shim, which is the sidecars' runner too.
    pub shim: ShimBinary,
    /// Which sidecars to offer; with none, every tool is refused.
    pub toolchains: Vec<Toolchain>,
    /// How they run.
    pub backend: SidecarBackend,
    /// Which of them run in containers that the user runs already, whatever the others do.
    pub attached: Option<Attachments>,
    /// What their runners are reached by.
    pub runner_transport: RunnerTransport,
    /// Which sessions their caches are shared with.
    pub caches: CacheScope,
    /// When they are started, and stopped.
    pub startup: Startup,
    /// Who is told how they come and go.
    pub reporter: Reporter,
    /// Where the proxy listens, or `None` for a unix socket in the session's own folder.
    pub listen: Option<Endpoint>,
    /// Which tools run, and where.
    pub policy: Policy,
    /// Which of a caller's variables a tool gets.
    pub forwarding: Forwarding,
    /// Which notifications may be run on the host.
    pub notify: NotifyRules,
    /// Whether tools are held to their place.
    pub confinement: ConfinementMode,
    /// The agent's own python, for what a smart shim runs locally; else the usual places.
    pub local_python: Option<PathBuf>,
    /// How long a tool may run, or `None` for as long as it likes.
    pub max_runtime: Option<Duration>,
    /// What clients may send, and how many tools may run at once.
    pub limits: Limits,
    /// Whether shims and proxy tell their decisions.
    pub verbosity: Verbosity,
    /// How long the log of calls is kept.
    pub call_logs: CallLogRetention,
    /// The container that the agent runs in. Without one it is a process of this machine.
    pub agent: Option<AgentContainerConfig>,
    /// Which of our variables the agent gets in its container.
    pub agent_forwarding: Forwarding,
}

/// Whether the parties of a session tell what they decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Only what goes wrong.
    #[default]
    Quiet,
    /// Every decision. Shims write theirs to stderr, so a buffered answer is set off by newlines.
    Verbose,
}

impl SessionConfig {
    /// A session over a workspace, with nothing but the defaults: no sidecars, no time limit.
    pub fn new(workspace: impl Into<PathBuf>, shim: ShimBinary) -> Self {
        SessionConfig {
            workspace: workspace.into(),
            shim,
            toolchains: Vec::new(),
            backend: SidecarBackend::Local,
            attached: None,
            runner_transport: RunnerTransport::Auto,
            caches: CacheScope::default(),
            startup: Startup::AtOnce,
            reporter: Reporter::default(),
            listen: None,
            policy: Policy::builtin(),
            forwarding: Forwarding::builtin(),
            notify: NotifyRules::default(),
            confinement: ConfinementMode::Auto,
            local_python: None,
            max_runtime: None,
            limits: Limits::default(),
            verbosity: Verbosity::Quiet,
            call_logs: CallLogRetention::Recent,
            agent: None,
            agent_forwarding: Forwarding::builtin(),
        }
    }
}
