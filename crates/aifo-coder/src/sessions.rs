//! `aifo-coder sessions`, and lookup of a running session.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aifo_agents::trusted_programs_here;
use aifo_engine::{Choice, Container, Engine, Flavor, within_timeout};
use aifo_host::{
    ControlClient, HeldSession, HeldState, SessionInfo, asking_sessions, held_sessions,
    running_sessions, short, the_one,
};
use aifo_kube::client::{self, Cluster};
use aifo_proxy::RunningTool;
use aifo_terminal::{console, paint};
use aifo_types::escape_line;
use anyhow::bail;
use serde::Serialize;

use crate::banner::model_usage;
use crate::cli::Sessions;

pub(crate) async fn list(flags: &Sessions) -> anyhow::Result<ExitCode> {
    if let Some(cluster) = Cluster::selected(&flags.cluster.flags(), None).await? {
        return client::list(&cluster, flags.json).await;
    }
    let sessions = running_sessions();
    let containers = containers_of(&sessions).await;
    let rows: Vec<_> = sessions.iter().map(|session| Row::of(session, &containers)).collect();
    if flags.json {
        paint::print_json(&rows)?;
    } else {
        let ended: String = ended().iter().map(|line| escape_line(line) + "\n").collect();
        match (rows.is_empty(), ended.is_empty()) {
            (true, true) => console::say("no running sessions"),
            (true, false) => paint::print(&ended)?,
            (false, _) => paint::print(&(table(&rows) + &ended))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

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

/// A line per session, with an indented line per container and running tool.
fn table(rows: &[Row<'_>]) -> String {
    let head = ["ID", "UPTIME", "PID", "BACKEND", "TOOLCHAINS", "WORKSPACE"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let uptime = uptime(Duration::from_secs(row.uptime_secs));
        let (id, backend) = (row.id.to_owned(), row.backend.to_owned());
        [id, uptime, row.pid.to_string(), backend, row.toolchains(), row.workspace.clone()]
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
        if let Some(agent) = row.agent {
            push(&escape_line(&format!("  agent {agent}")));
        }
        if let Some(count) = row.clients {
            let clients = match count {
                0 => "detached".to_owned(),
                1 => "attached, 1 client".to_owned(),
                count => format!("attached, {count} clients"),
            };
            push(&format!("  {clients}"));
        }
        if let Some(line) = &row.models_line {
            push(&format!("  {line}"));
        }
        for ContainerRow { name, status, image } in &row.containers {
            push(&escape_line(&format!("  container {name}: {status}, of {image}")));
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
        let (id, command) = (short(&held.record.id), &held.record.command);
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

/// Returns the running session whose id starts with `prefix`.
pub(crate) fn running(prefix: &str) -> anyhow::Result<SessionInfo> {
    let sessions = running_sessions();
    let ids: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
    let index = the_one(prefix, &ids, "running session")?;
    match sessions.into_iter().nth(index) {
        Some(session) => Ok(session),
        None => bail!("no running session '{prefix}'"),
    }
}

/// Returns the session with questions whose id starts with `prefix`. Without a prefix, of several sessions the
/// only one with open questions.
pub(crate) async fn asking(prefix: &str) -> anyhow::Result<SessionInfo> {
    let mut sessions = asking_sessions();
    if prefix.is_empty() && sessions.len() > 1 {
        let mut open = Vec::new();
        for (at, session) in sessions.iter().enumerate() {
            let Ok(mut client) = ControlClient::connect(session) else { continue };
            if client.list().await.is_ok_and(|questions| !questions.is_empty()) {
                open.push(at);
            }
        }
        if let [only] = open[..] {
            return Ok(sessions.swap_remove(only));
        }
    }
    let ids: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
    let index = the_one(prefix, &ids, "running session")?;
    match sessions.into_iter().nth(index) {
        Some(session) => Ok(session),
        None => bail!("no running session '{prefix}'"),
    }
}

/// A session in JSON.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    workspace: String,
    toolchains: Vec<&'a str>,
    up: Vec<&'a str>,
    backend: &'a str,
    /// The agent, if it runs in a container.
    agent: Option<&'a str>,
    /// The number of its clients, if it is held.
    clients: Option<usize>,
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
            workspace: session.workspace.display().to_string(),
            toolchains: session.kinds.iter().map(|kind| kind.as_str()).collect(),
            up: session.up.iter().map(|kind| kind.as_str()).collect(),
            backend: &session.backend,
            agent: session.agent.as_deref(),
            clients: HeldSession::find(&session.id).and_then(|held| match held.state {
                HeldState::Running(clients) => Some(clients),
                HeldState::Ended(_) | HeldState::Lost => None,
            }),
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
    /// `rust,node (not running: go)`
    fn toolchains(&self) -> String {
        let rest = self.toolchains.iter().filter(|kind| !self.up.contains(kind));
        let rest: Vec<&str> = rest.copied().collect();
        let up = self.up.join(",");
        match (up.is_empty(), rest.is_empty()) {
            (_, true) => up,
            (true, false) => format!("(not running: {})", rest.join(",")),
            (false, false) => format!("{up} (not running: {})", rest.join(",")),
        }
    }
}

/// The two largest units: `3d 4h`, `12m 5s`.
fn uptime(uptime: Duration) -> String {
    let seconds = uptime.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptimes() {
        let rows = [(0, "0s"), (59, "59s"), (61, "1m 1s"), (7_260, "2h 1m"), (90_000, "1d 1h")];
        for (seconds, expected) in rows {
            assert_eq!(uptime(Duration::from_secs(seconds)), expected);
        }
    }
}
