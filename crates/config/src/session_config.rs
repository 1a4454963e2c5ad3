//! Builds a session configuration.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use aifo_agents::{known_agents, state_directories};
use aifo_host::{
    CheckedWorkspace, HistorySettings, ShimBinary, TrustedPrograms, UserProgram, history_store,
};
use aifo_launch::{
    Fallback, ImageDialogue, MissingImage, SessionConfig, SidecarBackend, Verbosity,
};
use aifo_policy::Judge;
use aifo_sidecar::Startup;
use aifo_types::ToolName;

use crate::paths::links_below;
use crate::session_error::SessionError;
use crate::source::Source;
use crate::table::Config;

/// The time for an answer in a session whose agent has a user.
const ASK_TIMEOUT: Duration = Duration::from_secs(300);

impl Config {
    /// Returns the judge of a session below a workspace, whose links it follows.
    pub fn judge(&self, workspace: &Path) -> Judge {
        let judge = self.argument_rules.judge(self.default_rules.value);
        judge.with_links(links_below(workspace))
    }

    /// Returns the tools that are judged before they run where the agent is.
    ///
    /// A list that is set is the whole one. Else it also has the tools of the files' rules, so that a rule on any
    /// tool holds.
    pub fn tools_in_place(&self, judge: &Judge) -> impl Iterator<Item = ToolName> + use<> {
        let is_default = self.in_place.source == Source::BuiltIn;
        let named = is_default.then(|| self.argument_rules.tools()).into_iter().flatten();
        let tools: BTreeSet<ToolName> = self.in_place.value.iter().cloned().chain(named).collect();
        let tools: Vec<_> =
            tools.into_iter().filter(|tool| judge.concerns(tool.as_str())).collect();
        tools.into_iter()
    }

    /// Returns the configuration of a session in a workspace; `fallback` is that of the backend `auto`. The caller
    /// sets what no key has: its reporter and the transport to runners.
    pub async fn session_config(
        &self,
        workspace: &Path,
        fallback: Fallback,
        dialogue: &mut impl ImageDialogue,
    ) -> Result<SessionConfig, SessionError> {
        // Checked before any program starts, the shim included.
        let workspace = CheckedWorkspace::new(workspace)?;
        let workspace = workspace.path();
        let programs = self.trusted_programs(workspace);
        if self.toolchains.value.list.is_empty() {
            tracing::warn!(
                "no toolchain matches the files of '{}', so every tool will be refused; \
                 name one with --toolchain",
                workspace.display()
            );
        }
        let mut session = SessionConfig::new(workspace, ShimBinary::find(|| programs.clone())?);
        session.toolchains.clone_from(&self.toolchains.value.list);
        let (chosen, attached) =
            self.choose_backend(workspace, fallback, &programs, dialogue).await?;
        (session.backend, session.attached) = (chosen.backend, attached);
        session.local_names = self.local_names(workspace);
        session.startup = self.startup(chosen.without_image);
        session.caches = self.caches.value;
        session.listen.clone_from(&self.listen.value);
        let judge = self.judge(workspace);
        session.in_place = self.tools_in_place(&judge).collect();
        session.judge = (!judge.is_empty()).then(|| judge.into());
        session.policy = self.kinds.policy.clone();
        let has_names = match &session.backend {
            SidecarBackend::Containers(containers) => containers.net.is_by_name(),
            SidecarBackend::Local => session.local_names.is_some(),
            SidecarBackend::Pod(_) => false,
        };
        session.forwarding = self.forwarding(has_names);
        session.notify = self.notify_rules();
        if let SidecarBackend::Pod(_) = session.backend {
            // No user is there to notify.
            session.notify.allowlist.clear();
        }
        session.local_python.clone_from(&self.local_python.value);
        session.confinement = self.confine.value;
        session.restrictions.retain(|one| !self.unrestricted.value.contains(one));
        session.max_runtime = self.max_secs.value.map(Duration::from_secs);
        session.ask_timeout = Duration::from_secs(self.ask_timeout_secs.value.unwrap_or_default());
        session.ask_command =
            self.user_program(workspace, "ask.command", &self.ask_command.value)?;
        session.history = match session.backend {
            SidecarBackend::Pod(_) => None,
            _ => self.history(workspace, &programs),
        };
        session.limits.max_executions = self.max_executions.value;
        if self.verbose.value {
            session.verbosity = Verbosity::Verbose;
        }
        Ok(session)
    }

    /// Returns when sidecars start: those without an image wait for a call.
    fn startup(&self, without_image: Vec<MissingImage>) -> Startup {
        let waiting = without_image.into_iter().map(|(kind, _)| kind);
        let on_demand = self.toolchains.value.on_demand.iter().cloned().chain(waiting).collect();
        Startup { on_demand, idle_stop: self.idle_stop_secs.value.map(Duration::from_secs) }
    }

    fn history(&self, workspace: &Path, programs: &TrustedPrograms) -> Option<HistorySettings> {
        if !self.history_enabled.value {
            return None;
        }
        match history_store(workspace, programs) {
            Ok(store) => {
                let with_secrets = self.history_secrets.value;
                store.map(|store| HistorySettings { store, with_secrets })
            }
            Err(error) => {
                tracing::info!("changes of calls cannot be undone: git: {error}");
                None
            }
        }
    }

    /// Gives a user time to answer, unless the configuration has another time.
    pub fn expect_user(&self, session: &mut SessionConfig) {
        if self.ask_timeout_secs.value.is_none() {
            session.ask_timeout = ASK_TIMEOUT;
        }
    }

    /// Returns the user's program of this key. Errors: an agent could replace it.
    pub fn user_program(
        &self,
        workspace: &Path,
        key: &str,
        words: &Option<Vec<String>>,
    ) -> Result<Option<UserProgram>, SessionError> {
        let Some(words) = words else { return Ok(None) };
        let program = UserProgram::new(words.clone(), &self.trusted_programs(workspace));
        if let Err(why) = program.file() {
            return Err(SessionError::Program {
                program: program.name().to_owned(),
                key: key.to_owned(),
                why: why.to_string(),
            });
        }
        Ok(Some(program))
    }

    /// Returns the programs that may be started for a workspace.
    pub fn trusted_programs(&self, workspace: &Path) -> TrustedPrograms {
        let agents = known_agents().iter().chain(self.agents.all());
        TrustedPrograms::for_workspace(workspace, &state_directories(agents))
    }
}
