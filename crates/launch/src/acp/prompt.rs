//! One prompt to an agent, decided by rules alone (`spec/acp-commands.md#prompt`).

use std::fmt::Display;
use std::future::ready;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use aifo_acp::{
    CancelCause, CancelOutcome, Client, Event, Failure, Id, Limits, PermissionRequest,
    RequestEvent, SendError, TurnEnd,
};
use aifo_acp_io::{AgentConnection, AgentExit, HistoryDrain, WorkspaceHost, log_answer, log_turn};
use aifo_host::{EndSignals, SessionHistory};
use serde_json::json;

use super::judge::{JudgedPermission, PermissionJudge};

/// What a prompt's run shows. Errors are those of its output.
pub trait PromptView {
    /// Shows an event.
    fn event(&mut self, event: &Event, client: &Client) -> io::Result<()>;
    /// Shows a decision. Returns the denied call, with rule and remedy.
    fn decided(
        &mut self,
        id: &Id,
        request: &PermissionRequest,
        decided: &JudgedPermission,
    ) -> io::Result<Option<String>>;
    /// Shows the end of the turn.
    fn turn_ended(&mut self, end: &mut TurnEnd) -> io::Result<()>;
    /// Returns whether [`flush`](PromptView::flush) has something to do.
    fn has_unflushed(&self) -> bool;
    /// Writes what is buffered.
    fn flush(&mut self) -> io::Result<()>;
}

/// A prompt.
#[derive(Clone, Debug)]
pub struct PromptRequest {
    /// Its text.
    pub text: String,
    /// The agent's working directory.
    pub cwd: PathBuf,
    /// The session to resume.
    pub resumed: Option<String>,
    /// The remedy for a missing login.
    pub login_hint: String,
    /// The session's checkpoints, if there are any.
    pub history: Option<SessionHistory>,
}

/// The end of a prompt's run.
#[derive(Debug)]
pub struct PromptEnd {
    /// The session that the prompt was sent in.
    pub session: Option<String>,
    /// The end of its turn.
    pub turn: Option<Box<TurnEnd>>,
    /// The reason for which there was no turn.
    pub failure: Option<String>,
    /// The last denied call, with rule and remedy.
    pub denied: Option<String>,
    /// The signal that ended the run.
    pub signal: Option<u8>,
    /// The agent's exit.
    pub exit: AgentExit,
    /// The end of its output that is no ACP.
    pub non_json: String,
}

/// One prompt, while it runs.
pub struct PromptRun<V> {
    text: String,
    cwd: PathBuf,
    resumed: Option<String>,
    login_hint: String,
    history: Option<SessionHistory>,
    /// Set after loading, while history may still arrive.
    drain: Option<HistoryDrain>,
    judge: PermissionJudge,
    view: V,
    session: Option<String>,
    end_signal: Option<u8>,
    end: Option<Box<TurnEnd>>,
    failure: Option<String>,
    denied: Option<String>,
}

type Agent = AgentConnection<WorkspaceHost>;

impl<V: PromptView> PromptRun<V> {
    /// Takes a prompt, and the session to resume.
    pub fn new(prompt: PromptRequest, judge: PermissionJudge, view: V) -> Self {
        let PromptRequest { text, cwd, resumed, login_hint, history } = prompt;
        PromptRun {
            text,
            cwd,
            resumed,
            login_hint,
            history,
            drain: None,
            judge,
            view,
            session: None,
            end_signal: None,
            end: None,
            failure: None,
            denied: None,
        }
    }

    /// Runs the prompt. The agent has exited when this returns; the first signal cancels the turn.
    pub async fn run(mut self, mut agent: Agent, signals: &mut EndSignals) -> (V, PromptEnd) {
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
                            self.failure = Some(error);
                        }
                    }
                    None => self.failure = Some("the agent exited".to_owned()),
                },
                session = drained(self.drain.as_ref()) => {
                    self.drain = None;
                    if let Err(error) = self.prompt(session, &mut agent) {
                        self.failure = Some(error);
                    }
                }
                // Idle: flush what has been printed.
                () = ready(()), if self.view.has_unflushed() => {
                    if let Err(error) = self.view.flush() {
                        self.failure = Some(no_stdout(error));
                    }
                }
            }
        }
        let non_json = agent.client().non_json().to_owned();
        let Self { view, session, end_signal, end: turn, failure, denied, .. } = self;
        let exit = agent.end().await;
        (view, PromptEnd { session, turn, failure, denied, signal: end_signal, exit, non_json })
    }

    /// Cancels the turn. Returns `false` if none is running.
    fn cancel(&self, agent: &mut Agent) -> bool {
        let Some(session) = &self.session else { return false };
        let cancel =
            agent.with_client(|client, now| client.cancel(session, CancelCause::Requested, now));
        cancel == CancelOutcome::Sent
    }

    fn take(&mut self, event: Event, agent: &mut Agent) -> Result<(), String> {
        if let Event::TurnEnded(mut end) = event {
            let outcome = match &end.outcome {
                Ok(reason) => reason.word().to_owned(),
                Err(failure) => failure.to_string(),
            };
            log_turn(&end.session, &outcome, &end.counts, agent.client().traffic());
            log_answer(&end.session, &end.answer);
            if let Some(history) = &self.history {
                history.turn_ended();
            }
            self.view.turn_ended(&mut end).map_err(no_stdout)?;
            self.end = Some(end);
            return Ok(());
        }
        self.view.event(&event, agent.client()).map_err(no_stdout)?;
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
            Event::Failed { failure, .. } => Err(describe(&failure, &self.login_hint)),
            Event::Request(RequestEvent::Permission { id, request }) => {
                self.decide(&id, &request, agent)
            }
            Event::Closed => Err("the agent exited".to_owned()),
            _ => Ok(()),
        }
    }

    fn open(&mut self, agent: &mut Agent) -> Result<(), String> {
        let Some(session) = self.resumed.clone() else { return self.open_new(agent) };
        let params = self.parameters();
        match agent.with_client(|client, now| client.load_session(&session, params, now)) {
            Ok(_) => Ok(()),
            Err(refused @ SendError::NotOffered(_)) => {
                tracing::warn!("{refused}; starting a new session");
                self.resumed = None;
                self.open_new(agent)
            }
            Err(refused) => Err(refused.to_string()),
        }
    }

    fn open_new(&self, agent: &mut Agent) -> Result<(), String> {
        let params = self.parameters();
        agent.with_client(|client, now| client.new_session(params, now)).map_err(text)?;
        Ok(())
    }

    fn prompt(&mut self, session: String, agent: &mut Agent) -> Result<(), String> {
        let prompt = json!([{"type": "text", "text": self.text}]);
        agent.with_client(|client, now| client.prompt(&session, prompt, now)).map_err(text)?;
        self.session = Some(session);
        if let Some(history) = &self.history {
            // The agent works after its model has answered.
            history.turn_started();
        }
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
    ) -> Result<(), String> {
        let decided = self.judge.decide(request);
        let printed = self.view.decided(id, request, &decided);
        self.denied = printed.map_err(no_stdout)?.or(self.denied.take());
        agent.with_client(|client, now| client.decide(id, &decided.decision, now));
        Ok(())
    }
}

/// Waits for the end of a resumed session's history and returns the session. Cancel-safe.
async fn drained(drain: Option<&HistoryDrain>) -> String {
    match drain {
        None => std::future::pending().await,
        Some(drain) => drain.drained().await,
    }
}

/// Returns a failure's text, with a hint.
pub fn describe(failure: &Failure, login_hint: &str) -> String {
    let Failure::AuthRequired { methods, .. } = failure else { return failure.to_string() };
    let names: Vec<_> = methods.iter().filter_map(|it| it.get("name")?.as_str()).collect();
    let methods = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    format!("{failure}{methods}\nhint: {login_hint}")
}

fn no_stdout(error: io::Error) -> String {
    format!("cannot write to stdout: {error}")
}

fn text(error: impl Display) -> String {
    error.to_string()
}
