//! The session around an ACP agent.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_acp::ClientCapabilities;
use aifo_acp_io::{
    Files, TerminalCommand, TerminalConfig, Terminals, WireLog, WireLogLimits, Workspace,
    WorkspaceHost, Writing,
};
use aifo_agents::{AGENT_VARIABLE_PREFIX, AcpProfile, ModelKeys, agent_variables};
use aifo_config::{Config, SessionProgram};
use aifo_host::{CallStats, EndSignals};
use aifo_launch::{Agent, AgentEnvironment, Session, WorkspaceLock};
use aifo_process::become_subreaper;
use aifo_terminal::console::{self, LogLevel};
use aifo_types::{FileId, names_secret};
use anyhow::{Context, bail};
use tokio::process::Command;

use crate::acp::judge::{AgentRequest, PermissionJudge};
use crate::acp::profile::missing_file;
use crate::cli::{AcpAgent, UserPresence, default_workspace};
use crate::start::{self, Started, start};
use crate::{banner, kube, settings};

/// An agent that is ready to start, with its hosts, permission rules and log.
pub(crate) struct AgentSession {
    /// The agent's name.
    pub(crate) name: String,
    pub(crate) command: Command,
    pub(crate) profile: AcpProfile,
    pub(crate) hosts: WorkspaceHost,
    pub(crate) judge: PermissionJudge,
    pub(crate) log: Option<Arc<WireLog>>,
    /// The agent's working directory; the same path in its container.
    pub(crate) cwd: PathBuf,
    pub(crate) workspace: PathBuf,
    /// The session's temporary directory.
    pub(crate) tmp: PathBuf,
    pub(crate) place: AgentEnvironment,
}

/// Keeps the session and the workspace lock for as long as the agent runs.
pub(crate) struct SessionGuard {
    session: Session,
    /// Keeps other agents out of the workspace.
    _lock: Option<WorkspaceLock>,
}

/// The result of [`AgentSession::prepare`].
pub(crate) enum Prepared {
    Ready(Box<AgentSession>, Box<SessionGuard>),
    /// `--dry-run` printed the plan.
    DryRun,
    /// This signal arrived during the start.
    Cancelled(u8),
}

impl AgentSession {
    /// Starts the session, but not the agent.
    pub(crate) async fn prepare(
        mut flags: AcpAgent,
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
        // An error must still remove the session's containers.
        match build(&guard.session, target, &agent, profile, &flags, config, cwd).await {
            Ok(agent_session) => Ok(Prepared::Ready(Box::new(agent_session), Box::new(guard))),
            Err(error) => {
                guard.close().await;
                Err(error)
            }
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

/// Builds the agent's command, hosts and rules, and warns of tools that bypass the shims.
async fn build(
    session: &Session,
    target: SessionProgram,
    agent: &Agent,
    profile: AcpProfile,
    flags: &AcpAgent,
    config: Config,
    cwd: PathBuf,
) -> anyhow::Result<AgentSession> {
    // Another command may not call tools by name at all.
    if target.spec.is_some() {
        let findings = agent.check(session).await;
        for finding in findings.context("cannot inspect the agent's environment")? {
            console::say(format_args!("WARNING: {finding}"));
        }
    }
    let place = agent.prepare(session).context("cannot enter the agent's environment")?;
    let (program, args) = target.command.split_first().context("there is no agent to run")?;
    let mut command = place.command_with(program, &profile.set);
    command.args(args).current_dir(&cwd);
    let workspace = session.workspace().to_owned();
    let alias = place.workspace_alias().map(Path::to_owned);
    let name = target.name().unwrap_or_default().to_owned();
    let log = match &flags.wire_log {
        None => None,
        Some(directory) => {
            let (limits, secrets) = (WireLogLimits::default(), secrets(session, &target));
            let log = WireLog::open(directory, limits, &name, secrets);
            let failed = || format!("cannot write a log in '{}'", directory.display());
            Some(Arc::new(log.with_context(failed)?))
        }
    };
    let opened = Workspace::open(workspace.clone(), alias.clone()).map(Arc::new);
    let opened = opened.with_context(|| format!("cannot open '{}'", workspace.display()))?;
    let judge = PermissionJudge {
        rules: config.permissions,
        allow_option: profile.allow_option.clone(),
        workspace: alias.iter().cloned().chain([workspace.clone()]).collect(),
        place: Arc::clone(&opened),
        cwd: cwd.clone(),
        approvals: session.approvals(),
        shims: session.shims(),
    };
    let files = Files::new(Arc::clone(&opened), missing_file(&profile), Writing::Served);
    let for_files = judge.clone();
    let files = files.with_judge(Arc::new(move |access, path, real| {
        for_files.serve(AgentRequest::File(access, path, real))
    }));
    let hosts = WorkspaceHost {
        files: Arc::new(files),
        terminals: terminals(opened, &cwd, &place, &judge),
        capabilities: ClientCapabilities {
            read_text_file: profile.fs,
            write_text_file: profile.fs,
            terminal: profile.terminal,
        },
    };
    let tmp = session.tmp().to_owned();
    Ok(AgentSession { name, command, profile, hosts, judge, log, cwd, workspace, tmp, place })
}

/// Terminals in the agent's environment, for commands that no rule denies.
fn terminals(
    workspace: Arc<Workspace>,
    cwd: &Path,
    place: &AgentEnvironment,
    judge: &PermissionJudge,
) -> Terminals {
    let (place, judge) = (place.clone(), judge.clone());
    let shim = place.shim().to_string_lossy().into_owned();
    let cwd = cwd.to_string_lossy();
    let in_place = move |program: &OsStr, variables: &[(String, String)]| {
        Ok(place.command_with(program, variables))
    };
    let mut config = TerminalConfig::new(workspace, cwd, Arc::new(in_place));
    config.without_network = [shim, "--without-network".to_owned()];
    config.judge = Arc::new(move |command: &TerminalCommand, real: (&Path, FileId)| {
        judge.terminal(command, real)
    });
    Terminals::new(config)
}

/// Values that logs must not contain: the session's token and the agent's credentials.
fn secrets(session: &Session, target: &SessionProgram) -> Vec<String> {
    let text = |value: OsString| value.into_string().ok();
    let own = session.variables().into_iter().map(|(name, value)| (name.to_owned(), text(value)));
    let known = target.spec.iter().flat_map(|spec| spec.variables.iter().cloned());
    let agents = known.chain(agent_variables()).flat_map(|name| {
        let given = std::env::var(format!("{AGENT_VARIABLE_PREFIX}{name}")).ok();
        [(name.clone(), std::env::var(&name).ok()), (name, given)]
    });
    let all = own.chain(agents).filter(|(name, _)| names_secret(name.as_bytes()));
    all.filter_map(|(_, value)| value).collect()
}

/// Returns the agent's command and its ACP profile.
pub(super) fn resolve_target(
    flags: &AcpAgent,
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
pub(crate) fn choose_places(flags: &mut AcpAgent) -> anyhow::Result<PathBuf> {
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
