//! Configuration of a session.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use aifo_agents::{
    AgentContainerConfig, AgentForges, ShimTools, agent_variables, path_without_shims,
};
use aifo_engine::Value;
use aifo_host::{
    CacheScope, CallLogRetention, HistorySettings, ShimBinary, Toolchain, UserProgram,
};
use aifo_network::LocalNames;
use aifo_policy::{Forwarding, NotifyRules, Policy};
use aifo_process::{Lookup, Restriction, find_in_path};
use aifo_proxy::CallJudge;
use aifo_sidecar::{Admitted, Reporter, Startup};
use aifo_types::{Endpoint, Kind, ToolName};
use aifo_wire::Limits;

use crate::attachments::Attachments;
use crate::backend::{RunnerOptions, RunnerTransport, SidecarBackend};
use crate::confine::{ConfinementMode, NetworkAccess};

/// Configuration of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The id of its [holder](aifo_host::HeldDirectory); `None` for a new one.
    pub id: Option<String>,
    /// The first part of its name: its agent or program.
    pub name: String,
    /// The project root.
    pub workspace: PathBuf,
    /// The shim, which is also the sidecars' runner.
    pub shim: ShimBinary,
    /// The sidecars; without any, every tool is refused.
    pub toolchains: Vec<Toolchain>,
    /// Where they run.
    pub backend: SidecarBackend,
    /// The network by name of local sidecars; `None` for this machine's network.
    pub local_names: Option<LocalNames>,
    /// Kinds that run in the user's own containers instead.
    pub attached: Option<Attachments>,
    /// How their runners are connected.
    pub runner_transport: RunnerTransport,
    /// The sessions that share their caches.
    pub caches: CacheScope,
    /// When they start and stop.
    pub startup: Startup,
    /// Receives the events of sidecars.
    pub reporter: Reporter,
    /// Where the proxy listens; `None` for a unix socket in the session directory.
    pub listen: Option<Endpoint>,
    /// Which tools may run, and in which kinds.
    pub policy: Policy,
    /// The verdicts on calls; `None` allows every call of an allowlist.
    pub judge: Option<CallJudge>,
    /// The tools that run where the agent is, once they are judged; those of an allowlist run in
    /// sidecars in any case.
    pub in_place: BTreeSet<ToolName>,
    /// The time for a user's answer to a call that must be approved; 0 if no user can answer.
    pub ask_timeout: Duration,
    /// A program that answers for the user.
    pub ask_command: Option<UserProgram>,
    /// Which of a caller's variables pass to a tool.
    pub forwarding: Forwarding,
    /// Which notifications may run on the host.
    pub notify: NotifyRules,
    /// True if local tools are confined.
    pub confinement: ConfinementMode,
    /// The restrictions of system calls of tools in containers, and of confined local tools.
    pub restrictions: Vec<Restriction>,
    /// The agent's own python, for local decisions of shims; `None` for the usual paths.
    pub local_python: Option<PathBuf>,
    /// Time limit of a tool; `None` for no limit.
    pub max_runtime: Option<Duration>,
    /// Limits of requests, and of running tools.
    pub limits: Limits,
    /// True if shims and proxy log their decisions.
    pub verbosity: Verbosity,
    /// How long the log of calls is kept.
    pub call_logs: CallLogRetention,
    /// The checkpoints around its calls; `None` for none.
    pub history: Option<HistorySettings>,
    /// The agent container; `None` for an agent on this machine.
    pub agent: Option<AgentContainerConfig>,
    /// Which of the launcher variables pass to the agent in its container.
    pub agent_forwarding: Forwarding,
}

/// Selects whether shims and proxy log their decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Only failures.
    #[default]
    Quiet,
    /// Every decision. Shims log to stderr, so newlines surround a buffered answer.
    Verbose,
}

impl SessionConfig {
    /// Returns the kinds of the sidecars.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.toolchains.iter().map(|toolchain| toolchain.kind.clone()).collect()
    }

    /// Returns the kinds whose sidecar starts with the session.
    pub(crate) fn initial_kinds(&self) -> impl Iterator<Item = &Kind> {
        let kinds = self.toolchains.iter().map(|toolchain| &toolchain.kind);
        kinds.filter(|kind| !self.startup.on_demand.contains(kind))
    }

    /// Keeps only those tools in place that an agent on this machine has: for any other one a shim would
    /// hide that it is missing.
    pub(crate) fn keep_installed_in_place(&mut self) {
        let is_here = self.agent.is_none() && !matches!(self.backend, SidecarBackend::Pod(_));
        if is_here {
            let path = path_without_shims(std::env::var_os("PATH"));
            let is_found =
                |name: &str| matches!(find_in_path(name.as_ref(), &path), Lookup::Found(_));
            self.in_place.retain(|tool| is_found(tool.as_str()));
        }
    }

    /// Returns the names of the shims.
    pub(crate) fn shim_tools(&self) -> ShimTools<'_> {
        let SessionConfig { policy, notify, in_place, .. } = self;
        ShimTools { policy, notify, in_place }
    }

    /// Returns the runner of all containers.
    pub(crate) fn runner(&self) -> RunnerOptions<'_> {
        RunnerOptions {
            program: self.shim.path(),
            transport: self.runner_transport,
            restrictions: &self.restrictions,
        }
    }

    /// Describes in one line what confines tools and what does not.
    pub fn summary(&self) -> String {
        let local = match self.local_names {
            Some(_) => NetworkAccess::Names,
            None => NetworkAccess::Machine,
        };
        self.backend.summary(self.confinement, local)
    }

    /// Gives tools the forges of the agent, where they share a network: their git only fetches.
    fn share_forges(&mut self, forges: &AgentForges) {
        let kinds = self.kinds();
        let SidecarBackend::Containers(containers) = &mut self.backend else { return };
        if !containers.net.is_by_name() {
            return;
        }
        containers.agent_ports.extend(forges.ports());
        let hidden = |(name, value): (String, String)| (name.into(), Value::Hidden(value.into()));
        let variables: Vec<_> = forges.variables_of_tools().into_iter().map(hidden).collect();
        containers.admitted.extend(kinds.into_iter().map(|kind| Admitted {
            kind: Some(kind),
            mount: None,
            variables: variables.clone(),
        }));
    }

    /// Runs the agent in a container: forwards the variables of its row and [`agent_variables`] to
    /// it, uses its python for local decisions unless one is configured, and gives the groups of its
    /// hosts to the rules of a network by name.
    pub fn contain_agent(&mut self, agent: AgentContainerConfig) {
        self.agent_forwarding = self.forwarding.clone();
        let withheld = |name: &String| agent.keys.as_ref().is_some_and(|keys| keys.withholds(name));
        let of_row = agent.spec.variables.iter().filter(|name| !withheld(name)).cloned();
        for name in of_row.chain(agent_variables()) {
            // Names that must not pass are left out.
            let _ = self.agent_forwarding.allow(&name);
        }
        self.local_python = self.local_python.take().or_else(|| agent.spec.local_python.clone());
        if let SidecarBackend::Containers(containers) = &mut self.backend
            && let Err(error) = containers.rules.set_agent(&agent.spec.hosts)
        {
            tracing::warn!("the agent's hosts are not allowed: {error}");
        }
        if let Some(forges) = &agent.forges {
            self.share_forges(forges);
        }
        self.agent = Some(agent);
    }

    /// Returns how many containers or local sidecars start with the session.
    pub fn starts(&self) -> usize {
        self.initial_kinds().count() + usize::from(self.agent.is_some())
    }

    /// Returns the defaults: no sidecars, no time limit.
    pub fn new(workspace: impl Into<PathBuf>, shim: ShimBinary) -> Self {
        SessionConfig {
            id: None,
            name: "session".to_owned(),
            workspace: workspace.into(),
            shim,
            toolchains: Vec::new(),
            backend: SidecarBackend::Local,
            local_names: None,
            attached: None,
            runner_transport: RunnerTransport::Auto,
            caches: CacheScope::default(),
            startup: Startup::default(),
            reporter: Reporter::default(),
            listen: None,
            policy: Policy::builtin(),
            judge: None,
            in_place: BTreeSet::new(),
            ask_timeout: Duration::ZERO,
            ask_command: None,
            forwarding: Forwarding::builtin(),
            notify: NotifyRules::default(),
            confinement: ConfinementMode::Auto,
            restrictions: Restriction::ALL.to_vec(),
            local_python: None,
            max_runtime: None,
            limits: Limits::default(),
            verbosity: Verbosity::Quiet,
            call_logs: CallLogRetention::Recent,
            history: None,
            agent: None,
            agent_forwarding: Forwarding::builtin(),
        }
    }
}
