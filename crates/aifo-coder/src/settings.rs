//! Builds a session's configuration from flags, environment and files.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use aifo_agents::{known_agents, state_directories};
use aifo_config::{Config, Flags, Source, StartMode};
use aifo_host::{CheckedWorkspace, ShimBinary, TrustedPrograms, UserProgram};
use aifo_launch::{Fallback, SessionConfig, SidecarBackend, Verbosity};
use aifo_policy::Judge;
use aifo_sidecar::Startup;
use aifo_terminal::console::LogLevel;
use aifo_types::ToolName;
use anyhow::bail;

use crate::cli::Session;
use crate::image_dialogue::Dialogue;
use crate::{backend, logging, progress};

/// Merges all configuration layers and starts logging, at `log_level` unless `verbose` or `--quiet` is
/// set.
pub(crate) fn load(
    session: &Session,
    flags: &Flags,
    log_level: LogLevel,
) -> anyhow::Result<Config> {
    let loaded = aifo_config::load(&session.project.workspace.path, flags);
    let verbose = loaded.as_ref().is_ok_and(|config| config.verbose.value);
    logging::start(match session.quiet {
        true => LogLevel::Quiet,
        false if verbose => LogLevel::Decisions,
        false => log_level,
    });
    Ok(loaded?)
}

/// Returns the tools that are judged before they run where the agent is.
///
/// A list that is set is the whole one. Else it also has the tools of the files' rules, so that a rule on any
/// tool holds.
pub(crate) fn tools_in_place<'a>(
    config: &'a Config,
    judge: &Judge,
) -> impl Iterator<Item = ToolName> + use<'a> {
    let is_default = config.in_place.source == Source::BuiltIn;
    let named = is_default.then(|| config.argument_rules.tools()).into_iter().flatten();
    let tools: BTreeSet<ToolName> = config.in_place.value.iter().cloned().chain(named).collect();
    let tools: Vec<_> = tools.into_iter().filter(|tool| judge.concerns(tool.as_str())).collect();
    tools.into_iter()
}

/// Returns the session's configuration; `fallback` is that of the backend `auto`.
pub(crate) async fn session_config(
    flags: &Session,
    config: &Config,
    fallback: Fallback,
) -> anyhow::Result<SessionConfig> {
    // Checked before any program starts, the shim included.
    let workspace = CheckedWorkspace::new(&flags.project.workspace.path)?;
    let workspace = workspace.path();
    let programs = programs(workspace, config);
    if config.toolchains.value.list.is_empty() {
        tracing::warn!(
            "no toolchain matches the files of '{}', so every tool will be refused; \
             name one with --toolchain",
            workspace.display()
        );
    }
    let mut session = SessionConfig::new(workspace, ShimBinary::find(|| programs.clone())?);
    session.toolchains.clone_from(&config.toolchains.value.list);
    let dialogue = match flags.containers.dry_run {
        true => Dialogue::Silent,
        false => Dialogue::of_session(),
    };
    (session.backend, session.attached) =
        backend::choose(config, workspace, fallback, &programs, dialogue).await?;
    session.local_names = backend::local_names(config, workspace);
    session.startup = match config.toolchains.value.start_mode {
        StartMode::Eager => Startup::AtOnce,
        StartMode::OnDemand => {
            Startup::OnDemand { idle_stop: config.idle_stop_secs.value.map(Duration::from_secs) }
        }
    };
    session.caches = config.caches.value;
    session.reporter = progress::reporter(session.starts());
    session.runner_transport = flags.runner_transport;
    session.listen.clone_from(&config.listen.value);
    let judge = config.argument_rules.judge(config.default_rules.value);
    session.in_place = tools_in_place(config, &judge).collect();
    session.judge =
        (!judge.is_empty()).then(|| judge.with_links(aifo_config::links_below(workspace)).into());
    session.policy = config.kinds.policy.clone();
    let has_names = match &session.backend {
        SidecarBackend::Containers(containers) => containers.net.is_by_name(),
        SidecarBackend::Local => session.local_names.is_some(),
        SidecarBackend::Pod(_) => false,
    };
    session.forwarding = config.forwarding(has_names);
    session.notify = config.notify_rules();
    if let SidecarBackend::Pod(_) = session.backend {
        // No user is there to notify.
        session.notify.allowlist.clear();
    }
    session.local_python.clone_from(&config.local_python.value);
    session.confinement = config.confine.value;
    session.restrictions.retain(|one| !config.unrestricted.value.contains(one));
    session.max_runtime = config.max_secs.value.map(Duration::from_secs);
    session.ask_timeout = Duration::from_secs(config.ask_timeout_secs.value.unwrap_or_default());
    session.ask_command =
        user_program(workspace, config, "ask.command", &config.ask_command.value)?;
    session.limits.max_executions = config.max_executions.value;
    if config.verbose.value {
        session.verbosity = Verbosity::Verbose;
    }
    Ok(session)
}

/// The time for an answer in a session whose agent has a user.
const ASK_TIMEOUT: Duration = Duration::from_secs(300);

/// Gives a user time to answer, unless the configuration has another time.
pub(crate) fn expect_user(session: &mut SessionConfig, config: &Config) {
    if config.ask_timeout_secs.value.is_none() {
        session.ask_timeout = ASK_TIMEOUT;
    }
}

/// Returns the user's program of this key. Errors: an agent could replace it.
pub(crate) fn user_program(
    workspace: &Path,
    config: &Config,
    key: &str,
    words: &Option<Vec<String>>,
) -> anyhow::Result<Option<UserProgram>> {
    let Some(words) = words else { return Ok(None) };
    let program = UserProgram::new(words.clone(), &programs(workspace, config));
    if let Err(why) = program.file() {
        let name = program.name();
        bail!("cannot use '{name}' of {key}: {why}\nhint: choose another program");
    }
    Ok(Some(program))
}

/// The programs that may be started for a workspace.
pub(crate) fn programs(workspace: &Path, config: &Config) -> TrustedPrograms {
    let agents = known_agents().iter().chain(config.agents.all());
    TrustedPrograms::for_workspace(workspace, &state_directories(agents))
}
