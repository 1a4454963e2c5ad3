//! `aifo-coder web`: an agent on a web page (`spec/web.md`).

mod calls;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aifo_acp::{Config, Limits};
use aifo_acp_io::{AgentConnection, WorkspaceHost};
use aifo_host::{CallLogReader, EndSignals, LoggedRecord, running_sessions, state_directory};
use aifo_launch::acp::{process_limits, streaming};
use aifo_terminal::console::{self, LogLevel};
use aifo_terminal::paint;
use aifo_web::{
    AgentLauncher, AttentionProgram, CallSource, LaunchedAgent, RunningCall, RunningSession,
    Storage, TurnEdge, WebConfig,
};
use anyhow::{Context, bail};
use clap::Parser;

use crate::acp::agent_session::{Prepared, SessionGuard, choose_places, prepare};
use crate::cli::{Cli, Command, Deferred, UserPresence, Web};
use crate::settings;

pub(crate) async fn web(mut flags: Web) -> anyhow::Result<ExitCode> {
    let mut signals = EndSignals::listen()?;
    let cwd = choose_places(&mut flags.agent)?;
    let agent = match (&flags.name, &flags.agent.agent_command) {
        (Some(name), _) => name.clone(),
        (None, Some(command)) => {
            let program = command.split(' ').next().unwrap_or_default();
            program.rsplit('/').next().unwrap_or_default().to_owned()
        }
        (None, None) => String::new(),
    };
    let state = state_directory().context("there is no state directory\nhint: set HOME")?;
    let directory = aifo_web::storage_directory(&state, &cwd);
    let given = flags.agent.yes_to.add_to(flags.agent.session.flags());
    let settings = settings::load(&flags.agent.session, &given, LogLevel::Warnings)?;
    let storage = Storage {
        directory,
        keep_sessions: settings.web_keep_sessions.value,
        session_bytes: settings.web_session_bytes.value,
        media_bytes: whole(settings.web_media_bytes.value),
        reports: settings.web_reports.value,
        report_bytes: settings.web_report_bytes.value,
        removals: settings.web_removals.value,
    };
    let on_attention = &settings.web_on_attention.value;
    let on_attention = settings.user_program(&cwd, "web.on_attention", on_attention)?;
    let on_attention = on_attention.map(|program| {
        AttentionProgram::new(move |input| {
            let program = program.clone();
            async move { program.run(&input, 0).await.map(|(status, _)| status) }
        })
    });
    let cwd = cwd.display().to_string();
    let stalled = Duration::from_secs(whole(settings.web_stalled_secs.value));
    let unseen = Duration::from_secs(settings.web_unseen_secs.value.unwrap_or_default());
    let config = |listen| WebConfig {
        listen,
        origin: flags.origin.clone(),
        storage: storage.clone(),
        agent: agent.clone(),
        cwd: cwd.clone(),
        stalled,
        unseen,
        on_attention: on_attention.clone(),
        running: running_now,
        open_log,
    };
    let mut web = bind(&flags, config).await?;
    show_links(&web.links()?, flags.origin.is_some())?;
    let launcher = Launcher { guard: None };
    let (waiting, answers) = web.waiting_calls();
    let calls = answers.map(|answers| tokio::spawn(calls::run(waiting, answers)));
    web.run(launcher, async { _ = signals.recv().await }).await;
    if let Some(calls) = calls {
        calls.abort();
    }
    Ok(ExitCode::SUCCESS)
}

/// Listens on the chosen address; by default on the usual port, or else on any.
async fn bind(
    flags: &Web,
    config: impl Fn(SocketAddr) -> WebConfig,
) -> anyhow::Result<aifo_web::Web> {
    let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let listen = flags.listen.unwrap_or_else(|| loopback(PORT));
    if !listen.ip().is_loopback() && flags.origin.is_none() {
        bail!(
            "'{listen}' can be reached from other machines, without encryption\n\
             hint: listen on 127.0.0.1, or put a proxy with TLS before it and pass --origin https://HOST"
        );
    }
    match aifo_web::Web::bind(config(listen)).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && flags.listen.is_none() => {
            aifo_web::Web::bind(config(loopback(0))).await.context("cannot serve the page")
        }
        bound => bound.with_context(|| format!("cannot serve the page on '{listen}'")),
    }
}

/// Prints the link on stdout.
fn show_links(links: &[String], has_origin: bool) -> anyhow::Result<()> {
    let Some((first, others)) = links.split_first() else { return Ok(()) };
    paint::print(&format!("{first}\n"))?;
    console::say("the link signs one browser in, once");
    for other in others.iter().filter(|_| !has_origin) {
        console::say(format_args!("if the browser does not find that host: {other}"));
        console::say("WARNING: cookies of 127.0.0.1 also reach other servers on that address");
    }
    Ok(())
}

/// Returns the running sessions of this user.
fn running_now() -> Vec<RunningSession> {
    let unix_ms = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    };
    let sessions = running_sessions().into_iter().map(|session| {
        let tools = session.running_tools().into_iter().map(|call| RunningCall {
            tool: call.tool,
            kind: call.kind,
            started: unix_ms(call.since),
        });
        RunningSession {
            tools: tools.collect(),
            pid: session.pid,
            agent: session.agent.clone().unwrap_or_default(),
            workspace: session.workspace.display().to_string(),
            backend: session.backend.clone(),
            started: unix_ms(session.started),
            log: session.log.clone(),
            id: session.id,
        }
    });
    sessions.collect()
}

/// Opens a session log of calls as soon as it exists.
fn open_log(path: PathBuf) -> CallSource {
    let mut reader = None;
    CallSource::new(move || {
        if reader.is_none() {
            reader = CallLogReader::open(&path).ok();
        }
        let lines = reader.as_mut().and_then(|reader| reader.read(LOG_BYTES).ok());
        let calls = lines.unwrap_or_default().into_iter().filter_map(|line| match line.record {
            LoggedRecord::Call(call) => Some(call),
            LoggedRecord::Message(_) => None,
        });
        calls.collect()
    })
}

/// Starts the agent in its container, with its session.
struct Launcher {
    guard: Option<Box<SessionGuard>>,
}

impl AgentLauncher for Launcher {
    type Host = WorkspaceHost;

    async fn start(&mut self) -> Result<LaunchedAgent<WorkspaceHost>, String> {
        self.launch().await.map_err(|error| console::error_chain(&error))
    }

    async fn stop(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.close().await;
        }
    }
}

impl Launcher {
    async fn launch(&mut self) -> anyhow::Result<LaunchedAgent<WorkspaceHost>> {
        // The flags of an earlier start are used up.
        let Command::Web(Deferred(mut flags)) = Cli::parse().command else {
            bail!("no command 'web'")
        };
        flags.agent.user = UserPresence::Present;
        let mut signals = EndSignals::listen()?;
        let name = flags.name.clone();
        let prepared = prepare(flags.agent, name.as_deref(), &mut signals).await?;
        let (session, guard) = match prepared {
            Prepared::Ready(session, guard) => (*session, guard),
            Prepared::DryRun => bail!("--dry-run starts no agent"),
            Prepared::Cancelled(_) => bail!("the start was cancelled by a signal"),
        };
        let limits = Limits {
            initialize: session.profile.initialize,
            // A user is there to cancel, and may answer tomorrow.
            prompt_idle: Duration::MAX,
            permission: Duration::MAX,
            ..Limits::default()
        };
        let streaming = streaming(session.profile.stream);
        let config = Config { limits, streaming, ..Config::default() };
        let program = session.command.as_std().get_program().to_string_lossy().into_owned();
        let ending = process_limits(&session.profile);
        let started =
            AgentConnection::start(session.command, config, ending, session.log, session.hosts);
        let connection = match started {
            Ok(connection) => connection,
            Err(error) => {
                guard.close().await;
                return Err(error).with_context(|| format!("cannot start '{program}'"));
            }
        };
        self.guard = Some(guard);
        let (judge, for_allowed) = (session.judge.clone(), session.judge);
        let judge = Box::new(move |request: &_| {
            let (decision, ruling) = judge.consult(request);
            (decision, ruling.to_string())
        });
        let allowed = Box::new(move |request: &_| for_allowed.cover(request));
        let history = session.history;
        let turns = Box::new(move |phase| match (&history, phase) {
            (Some(history), TurnEdge::Begins) => history.turn_started(),
            (Some(history), TurnEdge::HasEnded) => history.turn_ended(),
            (None, _) => {}
        });
        Ok(LaunchedAgent { connection, streaming, cwd: session.cwd, judge, allowed, turns })
    }
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The usual port.
const PORT: u16 = 8440;
/// Bytes of a log that are read at once.
const LOG_BYTES: u64 = 4 * 1024 * 1024;
