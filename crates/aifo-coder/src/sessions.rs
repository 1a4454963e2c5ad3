//! `aifo-coder ps`, and lookup of a running session.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aifo_agents::trusted_programs_here;
use aifo_engine::{Choice, Container, Engine, Flavor, within_timeout};
use aifo_host::{
    Candidate, ControlClient, HeldSession, HeldState, SessionInfo, asking_sessions, held_sessions,
    running_sessions, sessions_meant,
};
use aifo_kube::client::{self, Cluster};
use aifo_proxy::RunningTool;
use aifo_terminal::{console, paint};
use aifo_types::escape_line;
use serde::Serialize;

use crate::banner::model_usage;
use crate::choice::{self, uptime};
use crate::cli::Ps;

pub(crate) async fn list(flags: &Ps) -> anyhow::Result<ExitCode> {
    if let Some(cluster) = Cluster::selected(&flags.cluster.flags(), None).await? {
        return client::list(&cluster, flags.json).await;
    }
    let sessions = running_sessions();
    let containers = containers_of(&sessions).await;
    let mut rows: Vec<_> = sessions.iter().map(|session| Row::of(session, &containers)).collect();
    for (row, session) in rows.iter_mut().zip(&sessions) {
        row.questions = questions(session).await;
    }
    if flags.json {
        paint::print_json(&rows)?;
    } else {
        let ended: String = ended().iter().map(|line| escape_line(line) + "\n").collect();
        match (rows.is_empty(), ended.is_empty()) {
            (true, true) => console::say("no running sessions"),
            (true, false) => paint::print(&ended)?,
            (false, _) => paint::print(&(table(&rows, flags.verbose) + &ended))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the number of a session's open questions; `None` if it asks none, or does not answer.
async fn questions(session: &SessionInfo) -> Option<usize> {
    let mut client = ControlClient::connect(session).ok()?;
    let open = tokio::time::timeout(ANSWER_TIMEOUT, client.list()).await.ok()?.ok()?;
    Some(open.len())
}

const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the containers of these sessions. Names engines that do not answer on stderr.
async fn containers_of(sessions: &[SessionInfo]) -> Vec<Container> {
    let mut found = Vec::new();
    for flavor in [Flavor::Docker, Flavor::Podman] {
        if sessions.iter().all(|session| session.backend != flavor.program()) {
            continue;
        }
        let listed = within_timeout(async {
            Engine::find(Choice::Only(flavor), &trusted_programs_here())
                .await?
                .containers(None)
                .await
        });
        match listed.await {
            Some(Ok(containers)) => found.extend(containers),
            Some(Err(error)) => {
                console::say(format_args!("cannot list containers: {error}"));
            }
            None => console::say(format_args!("cannot list containers: {flavor} did not answer")),
        }
    }
    found
}

/// A line per session, with an indented line per running tool; if `is_verbose`, also for what else is known.
fn table(rows: &[Row<'_>], is_verbose: bool) -> String {
    let head = ["NAME", "UPTIME", "STATE", "TOOLCHAINS", "WORKSPACE"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let uptime = uptime(Duration::from_secs(row.uptime_secs));
        let state = match (row.questions, row.clients) {
            (Some(1..), _) => "asks",
            (_, None) => "runs",
            (_, Some(0)) => "detached",
            (_, Some(_)) => "attached",
        };
        let name = row.name.to_owned();
        [name, uptime, state.to_owned(), row.toolchains(), row.workspace.clone()]
    });
    let cells: Vec<_> = std::iter::once(head).chain(cells).collect();
    let lines = paint::columns(&cells);
    let mut lines = lines.lines();
    let mut text = String::new();
    let mut push = |line: &str| {
        text += line;
        text.push('\n');
    };
    lines.next().into_iter().for_each(&mut push);
    for (line, row) in lines.zip(rows) {
        push(line);
        if is_verbose {
            row.details().iter().for_each(|line| push(&escape_line(&format!("  {line}"))));
        }
        for RunningRow { tool, kind, secs, .. } in &row.running {
            let time = uptime(Duration::from_secs(*secs));
            push(&escape_line(&format!("  running {tool} in {kind} for {time}")));
        }
    }
    text
}

/// Returns a line for each held session that has ended.
fn ended() -> Vec<String> {
    let line = |held: HeldSession| {
        let row = choice::Row::of_held(&held, &[]);
        let (id, command) = (row.label(), &held.record.command);
        match held.state {
            HeldState::Running(_) => None,
            HeldState::Ended(time) => {
                let ago = uptime(SystemTime::now().duration_since(time).unwrap_or_default());
                Some(format!("{id} {command} ended {ago} ago; see: aifo-coder attach {id}"))
            }
            HeldState::Lost => Some(format!(
                "{id} {command} was hung up: its holder was killed; see: aifo-coder attach {id}"
            )),
        }
    };
    held_sessions().into_iter().filter_map(line).collect()
}

/// Returns the running session that is meant.
pub(crate) fn running(given: Option<&str>) -> anyhow::Result<SessionInfo> {
    of(running_sessions(), given)
}

/// Returns the session with questions that is meant; if several are, the only one of them with an open question.
pub(crate) async fn asking(given: Option<&str>) -> anyhow::Result<SessionInfo> {
    let mut sessions = asking_sessions();
    let candidates: Vec<_> = sessions.iter().map(Candidate::from).collect();
    let meant = sessions_meant(given, &choice::here(), &candidates);
    if meant.len() > 1 {
        let mut open = Vec::new();
        for at in meant {
            let Some(session) = sessions.get(at) else { continue };
            if questions(session).await.is_some_and(|count| count > 0) {
                open.push(at);
            }
        }
        if let [only] = open[..] {
            return Ok(sessions.swap_remove(only));
        }
    }
    of(sessions, given)
}

/// Returns the running session that is meant, or the mailbox.
pub(crate) fn any(given: Option<&str>) -> anyhow::Result<SessionInfo> {
    of(asking_sessions(), given)
}

fn of(mut sessions: Vec<SessionInfo>, given: Option<&str>) -> anyhow::Result<SessionInfo> {
    let rows: Vec<_> = sessions.iter().map(choice::Row::from).collect();
    Ok(sessions.swap_remove(choice::choose(given, "running session", &rows)?))
}

/// A session in JSON.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    name: &'a str,
    workspace: String,
    toolchains: Vec<&'a str>,
    up: Vec<&'a str>,
    backend: &'a str,
    /// The agent, if it runs in a container.
    agent: Option<&'a str>,
    /// The number of its clients, if it is held.
    clients: Option<usize>,
    /// The open questions about calls, if it can ask.
    questions: Option<usize>,
    /// Requests to models with keys that the agent does not have, if there were some.
    models: Option<ModelRow>,
    #[serde(skip)]
    models_line: Option<String>,
    containers: Vec<ContainerRow<'a>>,
    running: Vec<RunningRow>,
    started_unix_ms: u128,
    uptime_secs: u64,
    pid: u32,
    url: &'a str,
    log: String,
}

#[derive(Serialize)]
struct ModelRow {
    requests: u64,
    sent_bytes: u64,
    received_bytes: u64,
    input_tokens: u64,
    output_tokens: u64,
    estimated_tokens: u64,
}

#[derive(Serialize)]
struct ContainerRow<'a> {
    name: &'a str,
    image: &'a str,
    status: &'a str,
}

#[derive(Serialize)]
struct RunningRow {
    tool: String,
    kind: String,
    exec_id: String,
    secs: u64,
}

impl<'a> Row<'a> {
    fn of(session: &'a SessionInfo, containers: &'a [Container]) -> Self {
        let started = session.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ours = containers.iter().filter(|container| container.session == session.id);
        let container = |Container { name, image, status, .. }: &'a Container| ContainerRow {
            name,
            image,
            status,
        };
        let running = session.running_tools().into_iter();
        let tool = |RunningTool { since, kind, exec_id, tool }: RunningTool| RunningRow {
            tool,
            kind,
            exec_id,
            secs: secs_since(since),
        };
        let usage = aifo_agents::model_usage(session);
        Row {
            id: &session.id,
            name: &session.name,
            workspace: session.workspace.display().to_string(),
            toolchains: session.kinds.iter().map(|kind| kind.as_str()).collect(),
            up: session.up.iter().map(|kind| kind.as_str()).collect(),
            backend: &session.backend,
            agent: session.agent.as_deref(),
            clients: HeldSession::find(&session.id).and_then(|held| match held.state {
                HeldState::Running(clients) => Some(clients),
                HeldState::Ended(_) | HeldState::Lost => None,
            }),
            questions: None,
            models_line: usage.as_ref().and_then(model_usage),
            models: usage.map(|usage| ModelRow {
                requests: usage.requests,
                sent_bytes: usage.sent,
                received_bytes: usage.received,
                input_tokens: usage.tokens.input,
                output_tokens: usage.tokens.output,
                estimated_tokens: usage.estimated,
            }),
            containers: ours.map(container).collect(),
            running: running.map(tool).collect(),
            started_unix_ms: started.as_millis(),
            uptime_secs: secs_since(session.started),
            pid: session.pid,
            url: &session.url,
            log: session.log.display().to_string(),
        }
    }
}

fn secs_since(time: SystemTime) -> u64 {
    SystemTime::now().duration_since(time).unwrap_or_default().as_secs()
}

impl Row<'_> {
    /// Lines about identity, clients, requests to models and containers.
    fn details(&self) -> Vec<String> {
        let Row { id, pid, backend, .. } = self;
        let clients = match self.clients {
            Some(1) => Some("1 client".to_owned()),
            count => count.map(|count| format!("{count} clients")),
        };
        let containers = self.containers.iter().map(|ContainerRow { name, status, image }| {
            format!("container {name}: {status}, of {image}")
        });
        let parts = [Some(format!("session {id}, process {pid}, {backend}"))].into_iter();
        let parts = parts.chain([self.agent.map(|agent| format!("agent {agent}"))]);
        parts.chain([clients, self.models_line.clone()]).flatten().chain(containers).collect()
    }

    /// The running ones.
    fn toolchains(&self) -> String {
        if self.up.is_empty() { "none yet".to_owned() } else { self.up.join(",") }
    }
}
