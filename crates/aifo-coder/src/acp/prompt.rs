//! `aifo-coder prompt`: runs one prompt non-interactively (`spec/acp-commands.md#prompt`).

use std::future::ready;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aifo_acp::{
    CancelCause, CancelOutcome, Config, Event, Failure, Id, Limits, PermissionRequest,
    RequestEvent, SendError, StopReason, TurnEnd,
};
use aifo_acp_io::{
    AgentConnection, AgentExit, HistoryDrain, WorkspaceHost, agent_failure, log_answer, log_turn,
};
use aifo_host::EndSignals;
use aifo_launch::acp::{PermissionJudge, process_limits, streaming};
use aifo_terminal::console;
use aifo_types::{Ending, exit};
use anyhow::{Context, bail};
use serde_json::json;

use crate::acp::agent_session::{Prepared, prepare};
use crate::acp::output::Output;
use crate::acp::pod;
use crate::acp::resume::SavedSessions;
use crate::cli::Prompt;
use crate::start::signal_exit_code;

pub(crate) async fn prompt(flags: Prompt) -> anyhow::Result<ExitCode> {
    if let Some(config) = pod::selected(&flags.agent)? {
        return pod::prompt(flags, config).await;
    }
    let (agent, text) = flags.split()?;
    let text = match text {
        Some(text) if text != "-" => text.to_owned(),
        _ => read_stdin()?,
    };
    let agent = agent.map(str::to_owned);
    let mut signals = EndSignals::listen()?;
    let (format, timeout, resume) = (flags.format, flags.timeout, flags.resume);
    let idle = flags.idle_timeout;
    let is_quiet = flags.agent.session.quiet;
    let (agent_session, guard) = match prepare(flags.agent, agent.as_deref(), &mut signals).await? {
        Prepared::Ready(agent_session, guard) => (*agent_session, guard),
        Prepared::DryRun => return Ok(ExitCode::SUCCESS),
        Prepared::Cancelled(signal) => return Ok(signal_exit_code(signal)),
    };
    let sessions = SavedSessions::read();
    let resumed = match resume {
        None => None,
        Some(Some(session)) => Some(session),
        Some(None) => {
            let last = sessions.last(&agent_session.name, &agent_session.cwd).map(str::to_owned);
            if last.is_none() {
                tracing::warn!(
                    "no earlier session with {} here; starting a new one",
                    agent_session.name
                );
            }
            last
        }
    };
    let prompt_run = PromptRun {
        agent,
        text,
        drain: None,
        cwd: agent_session.cwd.clone(),
        resumed,
        judge: agent_session.judge,
        output: Output::new(format, is_quiet, agent_session.log.clone()),
        session: None,
        end_signal: None,
        end: None,
        failure: None,
        denied: None,
    };
    let limits = Limits {
        initialize: agent_session.profile.initialize,
        prompt_total: timeout.map(Duration::from_secs),
        // No limit.
        prompt_idle: Some(idle).filter(|secs| *secs > 0).map_or(Duration::MAX, Duration::from_secs),
        ..Limits::default()
    };
    let config =
        Config { limits, streaming: streaming(agent_session.profile.stream), ..Config::default() };
    let ending = process_limits(&agent_session.profile);
    let program = agent_session.command.as_std().get_program().to_string_lossy().into_owned();
    let started = AgentConnection::start(
        agent_session.command,
        config,
        ending,
        agent_session.log,
        agent_session.hosts,
    );
    let connection = match started {
        Ok(connection) => connection,
        Err(error) => {
            guard.close().await;
            return Err(error).with_context(|| format!("cannot start '{program}'"));
        }
    };
    let (prompt_run, end) = prompt_run.run(connection, &mut signals).await;
    if let Some(session) = &prompt_run.session
        && let Err(error) = sessions.note(&agent_session.name, &agent_session.cwd, session)
    {
        tracing::warn!(%error, "could not save the session for --resume");
    }
    guard.close().await;
    Ok(ExitCode::from(prompt_run.finish(&agent_session.name, &end)))
}

fn read_stdin() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        console::say("type the prompt, then Ctrl-D");
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("cannot read the prompt from stdin")?;
    if text.trim().is_empty() {
        bail!("no prompt on stdin\nhint: pass it as the last argument");
    }
    Ok(text)
}

/// One prompt and its result.
struct PromptRun {
    /// `None` for the command of `--agent-command`.
    agent: Option<String>,
    text: String,
    cwd: PathBuf,
    /// The session to resume.
    resumed: Option<String>,
    /// Set after loading, while history may still arrive.
    drain: Option<HistoryDrain>,
    judge: PermissionJudge,
    output: Output,
    /// The session that the prompt was sent in.
    session: Option<String>,
    /// The signal that ended the run.
    end_signal: Option<u8>,
    end: Option<Box<TurnEnd>>,
    failure: Option<String>,
    /// The last denied call, with rule and remedy.
    denied: Option<String>,
}

type Agent = AgentConnection<WorkspaceHost>;

impl PromptRun {
    /// Runs the prompt. The agent has exited when this returns.
    async fn run(mut self, mut agent: Agent, signals: &mut EndSignals) -> (Self, ExitedAgent) {
        let version = env!("CARGO_PKG_VERSION");
        let begun = agent.with_client(|client, now| client.initialize("aifo-coder", version, now));
        if let Err(refused) = begun {
            self.failure = Some(refused.to_string());
        }
        while self.end.is_none() && self.failure.is_none() {
            tokio::select! {
                biased;
                signal = signals.recv() => {
                    if self.end_signal.replace(signal).is_some() || !self.cancel(&mut agent) {
                        self.failure = Some("interrupted by a signal".to_owned());
                    }
                }
                event = agent.next() => match event {
                    Some(event) => {
                        if let Err(error) = self.take(event, &mut agent) {
                            self.failure = Some(format!("{error:#}"));
                        }
                    }
                    None => self.failure = Some("the agent exited".to_owned()),
                },
                session = drained(self.drain.as_ref()) => {
                    self.drain = None;
                    if let Err(error) = self.prompt(session, &mut agent) {
                        self.failure = Some(format!("{error:#}"));
                    }
                }
                // Idle: flush what has been printed.
                () = ready(()), if self.output.has_unflushed() => {
                    if let Err(error) = self.output.flush() {
                        self.failure = Some(format!("{NO_STDOUT}: {error}"));
                    }
                }
            }
        }
        let non_json = agent.client().non_json().to_owned();
        (self, ExitedAgent { end: agent.end().await, non_json })
    }

    /// Cancels the turn. Returns `false` if none is running.
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
            log_turn(&end.session, &outcome, &end.counts, agent.client().traffic());
            log_answer(&end.session, &end.answer);
            self.output.turn_ended(&mut end).context(NO_STDOUT)?;
            self.end = Some(end);
            return Ok(());
        }
        self.output.event(&event, agent.client()).context(NO_STDOUT)?;
        match event {
            Event::Ready(_) => self.open(agent),
            Event::Opened { session, .. } if self.resumed.is_some() => {
                self.drain = Some(HistoryDrain::begin(session, &Limits::default(), Instant::now()));
                Ok(())
            }
            Event::Opened { session, .. } => self.prompt(session, agent),
            Event::Update { .. } => {
                self.drain.iter_mut().for_each(|drain| drain.note_update(Instant::now()));
                Ok(())
            }
            Event::Failed { method, failure, .. } if method == "session/load" => {
                tracing::warn!(%failure, "could not resume the session; starting a new one");
                self.resumed = None;
                self.open_new(agent)
            }
            Event::Failed { failure, .. } => bail!("{}", self.describe(&failure)),
            Event::Request(RequestEvent::Permission { id, request }) => {
                self.decide(&id, &request, agent)
            }
            Event::Closed => bail!("the agent exited"),
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

    /// Decides by the rules alone.
    fn decide(
        &mut self,
        id: &Id,
        request: &PermissionRequest,
        agent: &mut Agent,
    ) -> anyhow::Result<()> {
        let decided = self.judge.decide(request);
        let remedy = decided.remedy.as_deref();
        let printed = self.output.decided(id, request, &decided.decision, &decided.rule, remedy);
        self.denied = printed.context(NO_STDOUT)?.or(self.denied.take());
        agent.with_client(|client, now| client.decide(id, &decided.decision, now));
        Ok(())
    }

    /// The failure's text, with a hint.
    fn describe(&self, failure: &Failure) -> String {
        let Failure::AuthRequired { methods, .. } = failure else { return failure.to_string() };
        let names: Vec<_> = methods.iter().filter_map(|it| it.get("name")?.as_str()).collect();
        let methods =
            if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        format!("{failure}{methods}\nhint: {}", login_hint(self.agent.as_deref()))
    }

    /// Prints the final report and returns the exit code.
    fn finish(mut self, name: &str, exited: &ExitedAgent) -> u8 {
        if let Some(end) = self.end.take() {
            if let Err(failure) = &end.outcome
                && end.cancelled.is_none()
            {
                let why = self.describe(failure);
                console::fail(&exited.error(name, &why));
            }
            // The agent stopped by itself.
            if let (Ok(StopReason::Cancelled), None, Some(denied)) =
                (&end.outcome, end.cancelled, &self.denied)
            {
                console::say(format_args!("the agent stopped after a denied {denied}"));
                return DENIED;
            }
            return exit_code(&end, self.end_signal);
        }
        let why = self.failure.take().unwrap_or_default();
        // A failed write to stdout is already the failure, or its reader is gone.
        let _ = self.output.failed(&why);
        match self.end_signal {
            Some(signal) => Ending::Signaled(signal).exit_code(),
            None => {
                console::fail(&exited.error(name, &why));
                FAILED
            }
        }
    }
}

/// Waits for the end of a resumed session's history and returns the session. Cancel-safe.
async fn drained(drain: Option<&HistoryDrain>) -> String {
    match drain {
        None => std::future::pending().await,
        Some(drain) => drain.drained().await,
    }
}

/// An exited agent: its status, and output that is no ACP.
struct ExitedAgent {
    end: AgentExit,
    non_json: String,
}

impl ExitedAgent {
    fn error(&self, name: &str, why: &str) -> anyhow::Error {
        anyhow::Error::msg(agent_failure(name, why, &self.end, &self.non_json))
    }
}

/// The remedy for a missing login; `agent` is `None` for a command of the user's.
fn login_hint(agent: Option<&str>) -> String {
    match agent {
        Some(agent) => format!("log in once with `aifo-coder run {agent}`, or set its API key"),
        None => "log in to it in a terminal, or set its API key".to_owned(),
    }
}

/// The exit code for the turn's stop reason.
fn exit_code(end: &TurnEnd, signal: Option<u8>) -> u8 {
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

/// Exit code: the agent failed.
const FAILED: u8 = 1;
/// Exit code: the agent cancelled the turn after a denied call.
const DENIED: u8 = 8;
const NO_STDOUT: &str = "cannot write to stdout";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_for_a_login_is_a_command_to_copy() {
        let hint = login_hint(Some("codex"));
        assert_eq!(hint, "log in once with `aifo-coder run codex`, or set its API key");
        assert!(!login_hint(None).contains("aifo-coder run"));
    }
}
