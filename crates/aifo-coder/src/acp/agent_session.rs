//! The session around an ACP agent.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_agents::{AcpProfile, ModelKeys};
use aifo_config::{Config, SessionProgram};
use aifo_host::{CallStats, EndSignals};
use aifo_launch::acp::{AcpAgent, AcpRequest};
use aifo_launch::{Agent, Session, WorkspaceLock};
use aifo_process::become_subreaper;
use aifo_terminal::console::{self, LogLevel};
use anyhow::{Context, bail};

use crate::cli::{self, UserPresence, default_workspace};
use crate::start::{self, Started, start};
use crate::{banner, kube, settings};

/// Keeps the session and the workspace lock for as long as the agent runs.
pub(crate) struct SessionGuard {
    session: Session,
    /// Keeps other agents out of the workspace.
    _lock: Option<WorkspaceLock>,
}

/// The result of [`prepare`].
pub(crate) enum Prepared {
    Ready(Box<AcpAgent>, Box<SessionGuard>),
    /// `--dry-run` printed the plan.
    DryRun,
    /// This signal arrived during the start.
    Cancelled(u8),
}

/// Starts the session, but not the agent.
pub(crate) async fn prepare(
    mut flags: cli::AcpAgent,
    agent: Option<&str>,
    signals: &mut EndSignals,
) -> anyhow::Result<Prepared> {
    let cwd = choose_places(&mut flags)?;
    let config = settings::load(&flags.session, &flags.flags(), LogLevel::Warnings)?;
    kube::reject_pod_flags(&flags.pod)?;
    let (target, mut profile) = resolve_target(&flags, agent, &config)?;
    if let Some(stream) = flags.stream {
        profile.stream = stream;
    }
    let mut agent = Agent::new(target.command.clone()).context("there is no agent to run")?;
    for (name, value) in config.smart_for(target.name()).variables() {
        agent.set(name, value);
    }
    if target.spec.is_some() {
        agent.set(aifo_types::env::PROGRESS, "0");
    }
    let fallback = target.fallback();
    let mut session = settings::session_config(&flags.session, &config, fallback).await?;
    target.configure(&mut session).await?;
    if flags.user == UserPresence::Present {
        config.expect_user(&mut session);
    }
    if flags.session.containers.dry_run {
        start::show_plan(&session).await?;
        return Ok(Prepared::DryRun);
    }
    if target.image.is_none() {
        // Every process that the agent starts stays below this one, also after a double fork.
        become_subreaper().context("cannot become a subreaper for the agent's processes")?;
    }
    let is_alone = target.spec.is_some() && !flags.start.force_share;
    let lock = is_alone.then(|| WorkspaceLock::acquire(&session.workspace)).transpose()?;
    let session = match start(session, signals).await? {
        Started::Running(session) => *session,
        Started::Cancelled(signal) => return Ok(Prepared::Cancelled(signal)),
    };
    let guard = SessionGuard { session, _lock: lock };
    // An error must still remove the session containers.
    match build(&guard.session, target, &agent, profile, &flags, config, cwd).await {
        Ok(agent) => Ok(Prepared::Ready(Box::new(agent), Box::new(guard))),
        Err(error) => {
            guard.close().await;
            Err(error)
        }
    }
}

impl SessionGuard {
    /// Ends the session and returns the statistics of its tool calls.
    pub(crate) async fn close(self) -> CallStats {
        let usage = self.session.model_keys().map(ModelKeys::usage);
        let stats = self.session.close().await;
        if let Some(line) = usage.as_ref().and_then(banner::model_usage) {
            tracing::info!("{line}");
        }
        stats
    }
}

/// Prepares the agent, and warns of tools that bypass the shims.
async fn build(
    session: &Session,
    target: SessionProgram,
    agent: &Agent,
    profile: AcpProfile,
    flags: &cli::AcpAgent,
    config: Config,
    cwd: PathBuf,
) -> anyhow::Result<AcpAgent> {
    // Another command may not call tools by name at all.
    if target.spec.is_some() {
        let findings = agent.check(session).await;
        for finding in findings.context("cannot inspect the agent's environment")? {
            console::say(format_args!("WARNING: {finding}"));
        }
    }
    let name = target.name().unwrap_or_default().to_owned();
    let SessionProgram { command, spec, .. } = target;
    let request = AcpRequest {
        name,
        command,
        spec: spec.as_ref(),
        profile,
        rules: Arc::new(config.argument_rules.judge(false)),
        wire_log: flags.wire_log.as_deref(),
        cwd,
    };
    Ok(AcpAgent::prepare(session, agent, request)?)
}

/// Returns the agent's command and its ACP profile.
pub(super) fn resolve_target(
    flags: &cli::AcpAgent,
    agent: Option<&str>,
    config: &Config,
) -> anyhow::Result<(SessionProgram, AcpProfile)> {
    let image = flags.start.image.as_deref();
    if let Some(line) = &flags.agent_command {
        let words = shlex::split(line).filter(|words| !words.is_empty());
        let words = words.with_context(|| format!("'{line}' is not a valid command line"))?;
        let command = words.iter().map(OsString::from).collect();
        let target = SessionProgram::command(command, image, config);
        let known = target.spec.as_ref().and_then(|spec| spec.acp.clone());
        let profile = known.unwrap_or_else(|| AcpProfile::plain(words));
        return Ok((target, profile));
    }
    let name = agent.context("no agent is named")?;
    let spec = config.agent_named(name)?.clone();
    let Some(profile) = spec.acp.clone() else {
        bail!(
            "agent '{name}' has no ACP profile\n\
             hint: add [agents.{name}.acp] to your configuration, or use --agent-command"
        );
    };
    let command = profile.command.iter().map(OsString::from).collect();
    Ok((SessionProgram::agent(spec, command, image, config)?, profile))
}

/// Returns the agent's working directory. `--cwd` outside the default workspace makes it the workspace.
pub(crate) fn choose_places(flags: &mut cli::AcpAgent) -> anyhow::Result<PathBuf> {
    let real = |path: &Path| {
        path.canonicalize().with_context(|| format!("no directory '{}'", path.display()))
    };
    let cwd = real(flags.cwd.as_deref().unwrap_or(Path::new(".")))?;
    let workspace = &mut flags.session.project.workspace.path;
    let root = real(workspace)?;
    if cwd.starts_with(&root) {
        return Ok(cwd);
    }
    if flags.cwd.is_none() {
        // --workspace from outside of it: the agent works in its root.
        return Ok(root);
    }
    if *workspace != default_workspace() {
        bail!("--cwd '{}' is not in the workspace '{}'", cwd.display(), root.display());
    }
    *workspace = aifo_host::default_workspace(&cwd);
    Ok(cwd)
}
