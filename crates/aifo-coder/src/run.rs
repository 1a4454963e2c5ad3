//! `aifo-coder run`: a session around an agent or any command.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal};
use std::process::ExitCode;

use aifo_agents::ModelKeys;
use aifo_config::{Config, OnHangup, SessionProgram};
use aifo_host::{EndSignals, user_command};
use aifo_kube::in_pod;
use aifo_launch::{
    Agent, AgentEnd, BackendChoice, Session, SidecarBackend, Verbosity, WorkspaceLock,
    report_waiting_calls,
};
use aifo_process::become_subreaper;
use aifo_terminal::Title;
use aifo_terminal::console::{self, HeldLines, Hold, LogLevel};
use aifo_types::{env, exit};
use anyhow::Context;

use crate::cli::{self, Run, RunTarget, reject_option};
use crate::held::{self, Keep};
use crate::start::{self, Started, signal_exit_code, start};
use crate::{banner, history, kube, settings};

pub(crate) async fn run(flags: Run) -> anyhow::Result<ExitCode> {
    let config = settings::load(&flags.session, &flags.flags(), LogLevel::Warnings)?;
    if config.backend.value == BackendChoice::Kubernetes {
        return kube::run_in_pod(&flags, &config).await;
    }
    kube::reject_pod_flags(&flags.pod)?;
    let target = resolve_target(&flags, &config)?;
    if let Some(keep) = keep(&flags, &config) {
        return held::start(keep, target.command.first().map_or("run".as_ref(), |word| word));
    }
    let share = if flags.start.force_share { Share::Yes } else { Share::No };
    // No other process of a rendered pod pushes the result and waits for a fetch.
    let is_first = config.backend.value == BackendChoice::Pod && in_pod::record_start()?;
    let ended =
        run_target(target, &flags.session, &config, share, flags.held.clone(), Vec::new()).await;
    if is_first {
        in_pod::wait_in_rendered_pod().await?;
    }
    ended
}

/// Returns how the session outlives its terminal, if it does.
fn keep(flags: &Run, config: &Config) -> Option<Keep> {
    if flags.held.is_some() || flags.session.containers.dry_run {
        return None;
    }
    let is_kept = config.on_hangup.value == OnHangup::Detach && console::is_on_terminal();
    match (flags.detach, flags.keep || is_kept) {
        (true, _) => Some(Keep::Detached),
        (false, true) => Some(Keep::Attached),
        (false, false) => None,
    }
}

/// Selects whether an agent may start in a workspace that another agent uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Yes,
    No,
}

/// Runs a command in a session of its own. `id` is its id, if it is held, and `given` are variables for the agent process.
pub(crate) async fn run_target(
    target: SessionProgram,
    flags: &cli::Session,
    config: &Config,
    share: Share,
    id: Option<String>,
    given: Vec<(String, String)>,
) -> anyhow::Result<ExitCode> {
    let mut agent = Agent::new(target.command.clone()).context("there is no command to run")?;
    agent.add_variables(given);
    for (name, value) in config.smart_for(target.name()).variables() {
        agent.set(name, value);
    }
    if target.spec.is_some() {
        agent.set(env::PROGRESS, "0");
    }
    let mut session = settings::session_config(flags, config, target.fallback()).await?;
    session.id = id;
    target.configure(&mut session).await?;
    config.expect_user(&mut session);
    if flags.containers.dry_run {
        return start::show_plan(&session).await;
    }
    let _lock = match target.spec.is_some() && share == Share::No {
        true => Some(WorkspaceLock::acquire(&session.workspace)?),
        false => None,
    };
    if target.image.is_none() && session.judge.is_some() {
        // A process of the agent stays below this one, also after a double fork, so it cannot answer
        // questions about its calls.
        become_subreaper().context("cannot become a subreaper for the agent's processes")?;
    }
    let (backend, checkpoints) = (session.backend.clone(), session.history.clone());
    let summary = session.summary();
    let mut signals = EndSignals::listen()?;
    let session = match start(session, &mut signals).await? {
        Started::Running(session) => *session,
        Started::Cancelled(signal) => return Ok(signal_exit_code(signal)),
    };
    tracing::info!("{summary}");
    if target.image.is_none() && !flags.quiet {
        warn_of_environments();
    }
    let Some(spec) = &target.spec else { return in_session(session, &agent).await };
    let findings = tokio::select! {
        findings = agent.check(&session) => findings,
        signal = signals.recv() => {
            session.close().await;
            return Ok(signal_exit_code(signal));
        }
    };
    let is_quiet = flags.quiet;
    if let (false, Some(image), SidecarBackend::Containers(containers)) =
        (is_quiet, &target.image, &backend)
    {
        console::say_lines(&banner::before(&session, spec, &image.name, containers, config));
        if let Some(warning) = banner::root_warning(containers) {
            console::say(format_args!("WARNING: {warning}"));
        }
        if let Some(warning) = banner::certificates_warning(containers) {
            console::say(format_args!("WARNING: {warning}"));
        }
    }
    for finding in findings.context("cannot inspect the agent's environment")? {
        console::say(format_args!("WARNING: {finding}"));
    }
    let id = session.id().to_owned();
    let mut hold = leave_terminal(&session);
    // The agent, not the user, sees the line of the shim.
    let command = format!("aifo-coder approve {}", session.name());
    let mut title = None;
    let title_text = format!("waiting for approval: {command}");
    let show = |waits| title = if waits { Title::show(&title_text) } else { None };
    let end = tokio::select! {
        end = agent.run(&session) => end,
        never = report_waiting_calls(session.approvals(), command, show) => match never {},
    };
    drop(title);
    let held = hold.release();
    let usage = session.model_keys().map(ModelKeys::usage);
    let stats = session.close().await;
    if !is_quiet {
        banner::after(&stats, &id).iter().for_each(console::say);
        let changed = checkpoints.and_then(|it| history::summary(&it, &id));
        changed.iter().for_each(console::say);
        usage.as_ref().and_then(banner::model_usage).iter().for_each(console::say);
    }
    report_held(&held, &id);
    Ok(ended(end?, &agent))
}

/// Variables of programs that put directories in front of PATH, in a shell also behind its start.
const ENVIRONMENTS: [&str; 6] =
    ["VIRTUAL_ENV", "CONDA_PREFIX", "NVM_DIR", "PYENV_ROOT", "ASDF_DIR", "DIRENV_DIR"];

/// Says that a command of this machine may find programs before the shims.
fn warn_of_environments() {
    let mut set = ENVIRONMENTS.to_vec();
    set.retain(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if !set.is_empty() {
        console::say(format_args!(
            "{}: what a shell puts before the shims in PATH runs on this machine; see: command -v python3",
            set.join(", ")
        ));
    }
}

fn resolve_target(flags: &Run, config: &Config) -> anyhow::Result<SessionProgram> {
    let line: Vec<OsString> = std::env::args_os().collect();
    let image = flags.start.image.as_deref();
    let (name, args) = match flags.target(&line) {
        RunTarget::Agent(name, args) => (name, args),
        RunTarget::Command(words) => {
            return Ok(SessionProgram::command(words.to_vec(), image, config));
        }
    };
    reject_option("run", Some(name))?;
    let name = name.to_string_lossy();
    let spec = config.agent_named(&name)?.clone();
    // Not every agent accepts an option twice, so the user's own replaces the table's.
    let own = spec.command.iter().map(OsString::from).filter(|word| !args.contains(word));
    let command: Vec<OsString> = own.chain(args.iter().cloned()).collect();
    Ok(SessionProgram::agent(spec, command, image, config)?)
}

/// Runs a command to its end, then ends the session.
pub(crate) async fn in_session(session: Session, agent: &Agent) -> anyhow::Result<ExitCode> {
    let id = session.id().to_owned();
    let mut hold = leave_terminal(&session);
    let end = agent.run(&session).await;
    let held = hold.release();
    session.close().await;
    report_held(&held, &id);
    Ok(ended(end?, agent))
}

/// Leaves the terminal to the agent: the launcher lines go to the session log.
fn leave_terminal(session: &Session) -> Hold {
    if session.verbosity() == Verbosity::Verbose && io::stderr().is_terminal() {
        let log = match std::env::var_os(env::POD_SESSION) {
            Some(_) => format!("the session's log: {}", user_command("log --follow")),
            None => format!("'{}'", session.log().display()),
        };
        console::say(format_args!("until the command ends, log lines go to {log}"));
    }
    let log = session.messages();
    console::hold(Box::new(move |level, message| log.append(level.into(), message)))
}

/// Prints the warnings that the terminal did not get.
fn report_held(held: &HeldLines, id: &str) {
    held.lines.iter().for_each(|line| console::say_lines(line));
    if held.more > 0 {
        let (more, see) = (held.more, banner::see_log(id));
        console::say(format_args!("{more} more warnings{see}"));
    }
}

fn ended(end: AgentEnd, agent: &Agent) -> ExitCode {
    match end {
        AgentEnd::Ended(ending) => ExitCode::from(ending.exit_code()),
        AgentEnd::NotStarted(error) => {
            let code = match error.kind() {
                ErrorKind::NotFound => exit::NOT_FOUND,
                _ => exit::NOT_EXECUTABLE,
            };
            let program = agent.program();
            console::fail(
                &anyhow::Error::from(error).context(format!("cannot run '{}'", program.display())),
            );
            ExitCode::from(code)
        }
    }
}
