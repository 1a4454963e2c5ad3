//! `aifo-coder prompt`: an agent does one thing, without anybody at it (`spec/acp-commands.md#prompt`).

use std::future::ready;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aifo_acp::{
    CancelCause, CancelOutcome, Config, Event, Failure, Id, Limits, PermissionRequest, SendError,
    StopReason, TurnEnd,
};
use aifo_acp_io::{AgentConnection, AgentExit};
use aifo_types::{Ending, exit};
use anyhow::{Context, anyhow, bail};
use serde_json::json;

use crate::acp::hosts::Hosts;
use crate::acp::judge::Judge;
use crate::acp::output::Output;
use crate::acp::profile::{process_limits, streaming};
use crate::acp::resume::Sessions;
use crate::acp::settling::Settling;
use crate::acp::stage::{Setting, Stage};
use crate::acp::summary;
use crate::acp::told::failed;
use crate::cli::Prompt;
use crate::console;
use crate::run::called_off;
use crate::start::EndSignals;

pub(crate) async fn prompt(flags: Prompt) -> anyhow::Result<ExitCode> {
    let (agent, text) = flags.split().map_err(|error| anyhow!(error))?;
    let text = match text {
        Some(text) if text != "-" => text.to_owned(),
        _ => read_stdin()?,
    };
    let agent = agent.map(str::to_owned);
    let mut signals = EndSignals::listen()?;
    let (format, timeout, resume) = (flags.format, flags.timeout, flags.resume);
    let idle = flags.idle_timeout;
    let is_quiet = flags.agent.session.quiet;
    let (stage, behind) = match Stage::set(flags.agent, agent.as_deref(), &mut signals).await? {
        Setting::Up(stage, behind) => (*stage, behind),
        Setting::Shown => return Ok(ExitCode::SUCCESS),
        Setting::CalledOff(signal) => return Ok(called_off(signal)),
    };
    let sessions = Sessions::read();
    let resumed = match resume {
        None => None,
        Some(Some(session)) => Some(session),
        Some(None) => {
            let last = sessions.last(&stage.name, &stage.cwd).map(str::to_owned);
            if last.is_none() {
                tracing::warn!("there is no session with {} here, so it is a new one", stage.name);
            }
            last
        }
    };
    let errand = Errand {
        text,
        settling: None,
        cwd: stage.cwd.clone(),
        resumed,
        judge: stage.judge,
        output: Output::new(format, is_quiet, stage.log.clone()),
        session: None,
        told_to_end: None,
        end: None,
        failure: None,
    };
    let limits = Limits {
        initialize: stage.profile.initialize,
        prompt_total: timeout.map(Duration::from_secs),
        // A time that no clock reaches.
        prompt_idle: Some(idle).filter(|secs| *secs > 0).map_or(Duration::MAX, Duration::from_secs),
        ..Limits::default()
    };
    let config = Config { limits, streaming: streaming(stage.profile.stream), ..Config::default() };
    let ending = process_limits(&stage.profile);
    let program = stage.command.as_std().get_program().to_string_lossy().into_owned();
    let started = AgentConnection::start(stage.command, config, ending, stage.log, stage.hosts);
    let connection = match started {
        Ok(connection) => connection,
        Err(error) => {
            behind.close().await;
            return Err(error).with_context(|| format!("cannot start '{program}'"));
        }
    };
    let (errand, end) = errand.run(connection, &mut signals).await;
    if let Some(session) = &errand.session
        && let Err(error) = sessions.note(&stage.name, &stage.cwd, session)
    {
        tracing::warn!(%error, "the session is not noted for --resume");
    }
    behind.close().await;
    Ok(ExitCode::from(errand.over(&stage.name, &end)))
}

fn read_stdin() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        console::say("type the prompt, then Ctrl-D");
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("cannot read the prompt from stdin")?;
    if text.trim().is_empty() {
        bail!("stdin has no prompt\nhint: say it as the last argument");
    }
    Ok(text)
}

/// One prompt, and what comes of it.
struct Errand {
    text: String,
    cwd: PathBuf,
    /// The session to go on with.
    resumed: Option<String>,
    /// It has been loaded, and its history may still come.
    settling: Option<Settling>,
    judge: Judge,
    output: Output,
    /// The one it came to.
    session: Option<String>,
    /// By this signal.
    told_to_end: Option<u8>,
    end: Option<Box<TurnEnd>>,
    failure: Option<String>,
}

type Agent = AgentConnection<Hosts>;

impl Errand {
    /// Goes through with it. The agent has ended when this returns.
    async fn run(mut self, mut agent: Agent, signals: &mut EndSignals) -> (Self, Told) {
        let version = env!("CARGO_PKG_VERSION");
        let begun = agent.with_client(|client, now| client.initialize("aifo-coder", version, now));
        if let Err(refused) = begun {
            self.failure = Some(refused.to_string());
        }
        while self.end.is_none() && self.failure.is_none() {
            tokio::select! {
                biased;
                signal = signals.told() => {
                    if self.told_to_end.replace(signal).is_some() || !self.cancel(&mut agent) {
                        self.failure = Some("it was told to end".to_owned());
                    }
                }
                event = agent.next() => match event {
                    Some(event) => {
                        if let Err(error) = self.take(event, &mut agent) {
                            self.failure = Some(format!("{error:#}"));
                        }
                    }
                    None => self.failure = Some("it has ended".to_owned()),
                },
                session = settled(self.settling.as_ref()) => {
                    self.settling = None;
                    if let Err(error) = self.prompt(session, &mut agent) {
                        self.failure = Some(format!("{error:#}"));
                    }
                }
                // Nothing has happened: whoever reads along is to have what there is.
                () = ready(()), if self.output.is_behind() => {
                    if let Err(error) = self.output.catch_up() {
                        self.failure = Some(format!("{NO_STDOUT}: {error}"));
                    }
                }
            }
        }
        let non_json = agent.client().non_json().to_owned();
        (self, Told { end: agent.end().await, non_json })
    }

    /// Whether there was something to cancel.
    fn cancel(&self, agent: &mut Agent) -> bool {
        let Some(session) = &self.session else { return false };
        let cancel =
            agent.with_client(|client, now| client.cancel(session, CancelCause::Requested, now));
        cancel == CancelOutcome::Sent
    }

    fn take(&mut self, event: Event, agent: &mut Agent) -> anyhow::Result<()> {
        if let Event::TurnEnded(mut end) = event {
            let outcome = match &end.outcome {
                Ok(reason) => reason.word().to_owned(),
                Err(failure) => failure.to_string(),
            };
            summary::tell(&end.session, &outcome, &end.counts, agent.client().traffic());
            summary::tell_answer(&end.session, &end.answer);
            self.output.ended(&mut end).context(NO_STDOUT)?;
            self.end = Some(end);
            return Ok(());
        }
        self.output.event(&event, agent.client()).context(NO_STDOUT)?;
        match event {
            Event::Ready(_) => self.open(agent),
            Event::Opened { session, .. } if self.resumed.is_some() => {
                self.settling = Some(Settling::begin(session, &Limits::default(), Instant::now()));
                Ok(())
            }
            Event::Opened { session, .. } => self.prompt(session, agent),
            Event::Update { .. } => {
                self.settling.iter_mut().for_each(|settling| settling.heard(Instant::now()));
                Ok(())
            }
            Event::Failed { method, failure, .. } if method == "session/load" => {
                tracing::warn!(%failure, "could not resume the session; starting a new one");
                self.resumed = None;
                self.open_new(agent)
            }
            Event::Failed { failure, .. } => bail!("{}", in_words(&failure)),
            Event::Permission { id, request } => self.decide(&id, &request, agent),
            Event::Closed => bail!("it has ended"),
            _ => Ok(()),
        }
    }

    fn open(&mut self, agent: &mut Agent) -> anyhow::Result<()> {
        let Some(session) = self.resumed.clone() else { return self.open_new(agent) };
        let params = self.parameters();
        match agent.with_client(|client, now| client.load_session(&session, params, now)) {
            Ok(_) => Ok(()),
            Err(refused @ SendError::NotOffered(_)) => {
                tracing::warn!("{refused}; starting a new session");
                self.resumed = None;
                self.open_new(agent)
            }
            Err(refused) => Err(refused.into()),
        }
    }

    fn open_new(&self, agent: &mut Agent) -> anyhow::Result<()> {
        let params = self.parameters();
        agent.with_client(|client, now| client.new_session(params, now))?;
        Ok(())
    }

    fn prompt(&mut self, session: String, agent: &mut Agent) -> anyhow::Result<()> {
        let prompt = json!([{"type": "text", "text": self.text}]);
        agent.with_client(|client, now| client.prompt(&session, prompt, now))?;
        self.session = Some(session);
        Ok(())
    }

    fn parameters(&self) -> serde_json::Value {
        json!({"cwd": self.cwd, "mcpServers": []})
    }

    /// Nobody is there to be asked.
    fn decide(
        &mut self,
        id: &Id,
        request: &PermissionRequest,
        agent: &mut Agent,
    ) -> anyhow::Result<()> {
        let decided = self.judge.decide(request);
        let remedy = decided.remedy.as_deref();
        let told = self.output.decided(id, request, &decided.decision, &decided.rule, remedy);
        told.context(NO_STDOUT)?;
        agent.with_client(|client, now| client.decide(id, &decided.decision, now));
        Ok(())
    }

    /// Tells what is still to be told, and gives the exit code.
    fn over(mut self, name: &str, told: &Told) -> u8 {
        if let Some(end) = self.end.take() {
            if let Err(failure) = &end.outcome
                && end.cancelled.is_none()
            {
                console::fail(&failed(name, &in_words(failure), &told.end, &told.non_json));
            }
            return code(&end, self.told_to_end);
        }
        let why = self.failure.take().unwrap_or_default();
        // Whoever cannot be told has been told so, or is gone.
        let _ = self.output.failed(&why);
        match self.told_to_end {
            Some(signal) => Ending::Signaled(signal).exit_code(),
            None => {
                console::fail(&failed(name, &why, &told.end, &told.non_json));
                FAILED
            }
        }
    }
}

/// The session that has settled, once there is one. Cancel-safe.
async fn settled(settling: Option<&Settling>) -> String {
    match settling {
        None => std::future::pending().await,
        Some(settling) => settling.settled().await,
    }
}

/// What is left of an agent that has ended.
struct Told {
    end: AgentExit,
    non_json: String,
}

/// A failure, with what would help.
fn in_words(failure: &Failure) -> String {
    let Failure::AuthRequired { methods, .. } = failure else { return failure.to_string() };
    let names: Vec<_> = methods.iter().filter_map(|method| method.get("name")?.as_str()).collect();
    let ways = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    format!("{failure}{ways}\nhint: log in with it once by `aifo-coder run`, or give it a key")
}

/// By the reason the turn stopped for.
fn code(end: &TurnEnd, signal: Option<u8>) -> u8 {
    match end.cancelled {
        Some(CancelCause::Requested) => {
            return Ending::Signaled(signal.unwrap_or_default()).exit_code();
        }
        Some(CancelCause::Idle | CancelCause::TooLong | CancelCause::PermissionTimeout) => {
            return exit::TIMED_OUT;
        }
        None => {}
    }
    match &end.outcome {
        Ok(StopReason::EndTurn) => 0,
        Ok(StopReason::Refusal) => 3,
        Ok(StopReason::MaxTokens) => 4,
        Ok(StopReason::MaxTurnRequests) => 5,
        Ok(StopReason::Other(_) | StopReason::Missing) => 6,
        Ok(StopReason::Cancelled) => 7,
        Err(_) => FAILED,
    }
}

/// The agent failed.
const FAILED: u8 = 1;
const NO_STDOUT: &str = "cannot write to stdout";
