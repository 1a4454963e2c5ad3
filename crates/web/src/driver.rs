//! Runs the agent: commands of browsers in, events of the agent out.

mod permissions;
mod running_agent;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aifo_acp::{
    CancelCause, Event, Failure, PermissionOutcome, PermissionRequest, RequestEvent, Streaming,
};
use aifo_acp_io::{AgentConnection, Host};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::hub::{Command, Hub, Source};
use running_agent::{Drain, RunningAgent};

/// Starts the agent when the first prompt arrives, and again after it has exited.
pub trait AgentLauncher {
    /// Serves the agent files and terminals.
    type Host: Host;

    /// Starts the agent and all that it needs. The error is shown to the user.
    fn start(&mut self) -> impl Future<Output = Result<LaunchedAgent<Self::Host>, String>>;

    /// Ends what the agent needed. The agent itself has ended.
    fn stop(&mut self) -> impl Future<Output = ()>;
}

/// A started agent.
pub struct LaunchedAgent<H> {
    /// Its connection; `initialize` has not been sent.
    pub connection: AgentConnection<H>,
    /// How it streams text.
    pub streaming: Streaming,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Decides permission requests by the rules.
    pub judge: RuleJudge,
    /// Notes permission requests that a user has allowed.
    pub allowed: AllowedHook,
    /// Notes turns.
    pub turns: TurnHook,
}

/// Returns the decision of the rules and its reason, or no decision if the user must be asked.
pub type RuleJudge = Box<dyn Fn(&PermissionRequest) -> (Option<PermissionOutcome>, String)>;

/// Is called with each permission request that a user has allowed.
pub type AllowedHook = Box<dyn Fn(&PermissionRequest)>;

/// Is called when a turn begins, and when it has ended.
pub type TurnHook = Box<dyn Fn(TurnEdge)>;

/// An end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEdge {
    /// The prompt was sent.
    Begins,
    /// It was answered.
    HasEnded,
}

/// Drives one agent.
pub(crate) struct Driver<L: AgentLauncher> {
    hub: Arc<Hub>,
    launcher: L,
    commands: mpsc::UnboundedReceiver<Command>,
    agent: Option<RunningAgent<L::Host>>,
    /// Prompts that wait for the agent or their session.
    waiting: BTreeMap<String, Value>,
    questions: u64,
}

impl<L: AgentLauncher> Driver<L> {
    pub(crate) fn new(
        hub: Arc<Hub>,
        launcher: L,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        Driver { hub, launcher, commands, agent: None, waiting: BTreeMap::new(), questions: 0 }
    }

    /// Runs until `end`, then ends the agent.
    pub(crate) async fn run(mut self, end: impl Future<Output = ()>) {
        tokio::pin!(end);
        loop {
            let due = earliest(self.hub.due(), self.drained_at());
            tokio::select! {
                biased;
                () = &mut end => break,
                Some(command) = self.commands.recv() => self.take_command(command).await,
                () = at(due) => {
                    self.end_drains();
                    self.flush();
                }
                event = next(&mut self.agent) => match event {
                    Some(event) => {
                        if let Some(why) = self.take_event(event) {
                            self.agent_gone(&why).await;
                        }
                    }
                    None => self.agent_gone("the agent exited").await,
                },
            }
        }
        self.agent_gone("aifo-coder web was stopped").await;
        self.flush();
    }

    async fn take_command(&mut self, command: Command) {
        match command {
            Command::Prompt { session, blocks } => {
                self.waiting.insert(session, blocks);
                if self.agent.is_none() {
                    self.start().await;
                } else {
                    self.send_waiting();
                }
            }
            Command::Cancel { session } => self.cancel(&session),
            Command::CancelAll => {
                for session in self.sessions() {
                    self.cancel(&session);
                }
            }
            Command::Close { session } => {
                self.cancel(&session);
                if let Some(agent) = &mut self.agent
                    && let Some(id) = agent.session_id(&session)
                    && agent.connection.with_client(|client, _| client.forget(&id))
                {
                    agent.sessions.remove(&id);
                }
            }
            Command::Answer { question, option } => self.answer(&question, option),
        }
    }

    async fn start(&mut self) {
        let launched = match self.launcher.start().await {
            Ok(launched) => launched,
            Err(why) => {
                for session in std::mem::take(&mut self.waiting).into_keys() {
                    self.hub.fail_turn(&session, &why);
                }
                return;
            }
        };
        let LaunchedAgent { mut connection, streaming, cwd, judge, allowed, turns } = launched;
        let version = env!("CARGO_PKG_VERSION");
        // A new connection accepts it.
        let _ = connection.with_client(|client, now| client.initialize(CLIENT, version, now));
        self.agent = Some(RunningAgent {
            connection,
            streaming,
            cwd,
            judge,
            allowed,
            turns,
            info: None,
            sessions: HashMap::new(),
            opening: HashMap::new(),
            drains: HashMap::new(),
            asked: Vec::new(),
        });
    }

    /// Sends the prompts whose sessions are open, and opens the others.
    fn send_waiting(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        if agent.info.is_none() {
            return;
        }
        for (session, blocks) in std::mem::take(&mut self.waiting) {
            if agent.opening.values().any(|opening| opening.session == session)
                || agent.drains.contains_key(&session)
            {
                self.waiting.insert(session, blocks);
                continue;
            }
            let failed = match agent.session_id(&session) {
                Some(id) => {
                    let sent = agent
                        .connection
                        .with_client(|client, now| client.prompt(&id, blocks.clone(), now));
                    if sent.is_ok() {
                        (agent.turns)(TurnEdge::Begins);
                        self.hub.begin_turn(&session, agent.streaming);
                    }
                    sent.map(|_| ())
                }
                None => {
                    self.waiting.insert(session.clone(), blocks);
                    agent.open(&session, &self.hub)
                }
            };
            if let Err(error) = failed {
                self.waiting.remove(&session);
                self.hub.fail_turn(&session, &error.to_string());
            }
        }
    }

    /// Returns the sessions with a turn or a prompt that waits.
    fn sessions(&self) -> Vec<String> {
        let open = self.agent.iter().flat_map(|agent| agent.sessions.values());
        open.chain(self.waiting.keys()).cloned().collect()
    }

    fn cancel(&mut self, session: &str) {
        if self.waiting.remove(session).is_some() {
            self.hub.fail_turn(session, "cancelled before it was sent to the agent");
            return;
        }
        if let Some(agent) = &mut self.agent
            && let Some(id) = agent.session_id(session)
        {
            agent
                .connection
                .with_client(|client, now| client.cancel(&id, CancelCause::Requested, now));
        }
    }

    /// Handles an event. Returns a reason to end the agent.
    fn take_event(&mut self, event: Event) -> Option<String> {
        let agent = self.agent.as_mut()?;
        agent.report(&event, &self.hub);
        match event {
            Event::Ready(info) => {
                self.hub.agent_ready(&info);
                agent.info = Some(info);
                self.send_waiting();
            }
            Event::Opened { request, session, .. } => {
                let opening = agent.opening.remove(&request)?;
                self.hub.opened(&opening.session, &session);
                agent.sessions.insert(session, opening.session.clone());
                if opening.is_load {
                    let now = Instant::now();
                    let drain = Drain { quiet: now + DRAIN_IDLE, last: now + DRAIN_TOTAL };
                    agent.drains.insert(opening.session, drain);
                } else {
                    self.send_waiting();
                }
            }
            // At the end of the stream the process has more to say.
            Event::Failed { failure: Failure::Ended, .. } => {}
            Event::Failed { method, failure, .. } if method == "initialize" => {
                return Some(failure.to_string());
            }
            Event::Failed { request, failure, .. } => self.failed(request, &failure),
            Event::Update { update, scope, change } => {
                let session = agent.sessions.get(update.session())?;
                if let Some(drain) = agent.drains.get_mut(session) {
                    drain.quiet = Instant::now() + DRAIN_IDLE;
                }
                let call = change.as_ref().map(|change| change.id.as_str());
                self.hub.update(session, &update, scope, call);
            }
            Event::Request(RequestEvent::Permission { id, request }) => {
                self.permission(id, &request);
            }
            Event::Request(RequestEvent::Withdrawn { id, why }) => {
                if let Some(at) = agent.asked.iter().position(|asked| asked.request == id) {
                    let asked = agent.asked.swap_remove(at);
                    let why = why.word().replace('_', " ");
                    self.hub.withdraw(&asked.session, &asked.question, &why);
                }
            }
            // The agent's exit has more to say than the end of its stream.
            Event::TurnEnded(end) if matches!(end.outcome, Err(Failure::Ended)) => {}
            Event::TurnEnded(end) => {
                (agent.turns)(TurnEdge::HasEnded);
                if let Some(session) = agent.sessions.get(&end.session) {
                    let source = Source::of(session, agent.connection.client(), &end.session);
                    self.hub.end_turn(source, &end);
                }
            }
            Event::Dropped { session } => {
                if let Some(session) = agent.sessions.get(&session) {
                    let text = "the turn is too long: the rest is not shown".to_owned();
                    self.hub.notice(session, text, true);
                }
            }
            _ => {}
        }
        None
    }

    /// Handles a session that could not be opened.
    fn failed(&mut self, request: u64, failure: &Failure) {
        let Some(agent) = &mut self.agent else { return };
        let opening = agent.opening.remove(&request);
        let mut why = failure.to_string();
        if let Failure::AuthRequired { .. } = failure {
            why.push_str("; log in once with 'aifo-coder run', or set its API key");
        }
        match opening {
            Some(opening) if opening.is_load => {
                let text = format!("could not resume the agent's session ({why}); it starts anew");
                self.hub.notice(&opening.session, text, true);
                if let Err(error) = agent.open_new(&opening.session) {
                    self.waiting.remove(&opening.session);
                    self.hub.fail_turn(&opening.session, &error.to_string());
                }
            }
            Some(opening) => {
                self.waiting.remove(&opening.session);
                self.hub.fail_turn(&opening.session, &why);
            }
            None => {}
        }
    }

    /// Ends the agent and everything that waits for it.
    async fn agent_gone(&mut self, why: &str) {
        let Some(mut agent) = self.agent.take() else { return };
        self.hub.flush_all(agent.sources());
        let non_json = agent.connection.client().non_json().to_owned();
        let asked = std::mem::take(&mut agent.asked);
        let sessions: Vec<String> =
            agent.sessions.values().cloned().chain(self.waiting.keys().cloned()).collect();
        self.waiting.clear();
        let end = agent.connection.end().await;
        let mut why = why.to_owned();
        if let Ok(status) = &end.status {
            why.push_str(&format!(" ({status})"));
        }
        let output = [end.stderr.as_str(), non_json.as_str()];
        let last =
            output.iter().filter_map(|text| text.lines().rfind(|line| !line.trim().is_empty()));
        for line in last {
            why.push_str(": ");
            why.extend(line.chars().take(300));
        }
        for asked in asked {
            self.hub.withdraw(&asked.session, &asked.question, "the agent exited");
        }
        for session in sessions {
            self.hub.fail_turn(&session, &why);
        }
        self.launcher.stop().await;
    }

    fn flush(&mut self) {
        match &self.agent {
            Some(agent) => self.hub.flush_all(agent.sources()),
            None => self.hub.flush_all([]),
        }
    }

    fn drained_at(&self) -> Option<Instant> {
        let drains = self.agent.as_ref().map(|agent| agent.drains.values());
        drains.into_iter().flatten().map(|drain| drain.quiet.min(drain.last)).min()
    }

    /// Sends prompts whose history has arrived.
    fn end_drains(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        let now = Instant::now();
        let before = agent.drains.len();
        agent.drains.retain(|_, drain| drain.quiet.min(drain.last) > now);
        if agent.drains.len() < before {
            self.send_waiting();
        }
    }
}

/// Waits for the agent's next event; for ever without an agent. Cancel-safe.
async fn next<H: Host>(agent: &mut Option<RunningAgent<H>>) -> Option<Event> {
    match agent {
        Some(agent) => agent.connection.next().await,
        None => std::future::pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

/// The client name in `initialize`.
const CLIENT: &str = "aifo-coder";
/// As for `prompt --resume` (`spec/acp-commands.md#resuming`).
const DRAIN_IDLE: Duration = Duration::from_millis(250);
const DRAIN_TOTAL: Duration = Duration::from_secs(2);
