//! A running agent: its sessions, and its requests that wait.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use aifo_acp::{
    AgentInfo, Client, Event, Id, PermissionRequest, RequestEvent, SendError, Streaming, reports,
};
use aifo_acp_io::{AgentConnection, Host};
use aifo_policy::{Question, QuestionOption, QuestionState, QuestionSubject};
use serde_json::{Value, json};

use super::{AllowedHook, RuleJudge, TurnHook};
use crate::hub::{Hub, Source};

/// The agent connection and what belongs to it.
pub(super) struct RunningAgent<H> {
    pub(super) connection: AgentConnection<H>,
    pub(super) streaming: Streaming,
    pub(super) cwd: PathBuf,
    pub(super) judge: RuleJudge,
    pub(super) allowed: AllowedHook,
    pub(super) turns: TurnHook,
    pub(super) info: Option<AgentInfo>,
    /// The server's session of each of the agent's.
    pub(super) sessions: HashMap<String, String>,
    /// Sessions that are being opened, by request.
    pub(super) opening: HashMap<u64, Opening>,
    /// Loaded sessions whose history may still arrive.
    pub(super) drains: HashMap<String, Drain>,
    pub(super) asked: Vec<Asked>,
}

/// A request that opens a session.
pub(super) struct Opening {
    pub(super) session: String,
    pub(super) is_load: bool,
}

/// The wait for a history's end: some agents still send it after the response.
pub(super) struct Drain {
    pub(super) quiet: Instant,
    pub(super) last: Instant,
}

/// A permission request that waits for a user.
pub(super) struct Asked {
    pub(super) question: String,
    pub(super) session: String,
    pub(super) request: Id,
    pub(super) asked: Box<PermissionRequest>,
}

impl<H: Host> RunningAgent<H> {
    /// Returns the agent id of an open session.
    pub(super) fn session_id(&self, session: &str) -> Option<String> {
        let mut open = self.sessions.iter().filter(|(_, own)| *own == session);
        open.next().map(|(id, _)| id.clone())
    }

    pub(super) fn sources(&self) -> Vec<Source<'_>> {
        let client: &Client = self.connection.client();
        self.sessions.iter().map(|(id, own)| Source::of(own, client, id)).collect()
    }

    /// Opens a session: the agent's own one from before, if it can load it.
    pub(super) fn open(&mut self, session: &str, hub: &Hub) -> Result<(), SendError> {
        let Some(known) = hub.agent_session(session) else { return self.open_new(session) };
        let params = self.parameters();
        match self.connection.with_client(|client, now| client.load_session(&known, params, now)) {
            Ok(request) => {
                let opening = Opening { session: session.to_owned(), is_load: true };
                self.opening.insert(request, opening);
                Ok(())
            }
            Err(error @ SendError::NotOffered(_)) => {
                let text = format!("{error}; the agent does not remember what is above");
                hub.notice(session, text, true);
                self.open_new(session)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn open_new(&mut self, session: &str) -> Result<(), SendError> {
        let params = self.parameters();
        let request = self.connection.with_client(|client, now| client.new_session(params, now))?;
        let opening = Opening { session: session.to_owned(), is_load: false };
        self.opening.insert(request, opening);
        Ok(())
    }

    pub(super) fn parameters(&self) -> Value {
        json!({"cwd": self.cwd, "mcpServers": []})
    }

    /// Adds an event's reports to the typed streams.
    pub(super) fn report(&self, event: &Event, hub: &Hub) {
        let session = match event {
            // Reported with the question id.
            Event::Request(RequestEvent::Permission { .. }) => return,
            Event::Update { update, .. } => Some(update.session()),
            Event::Opened { session, .. } | Event::Dropped { session } => Some(session.as_str()),
            Event::Overdue { session } => Some(session.as_str()),
            Event::TurnEnded(end) => Some(end.session.as_str()),
            Event::Request(RequestEvent::Withdrawn { id, .. }) => {
                let asked = self.asked.iter().find(|asked| asked.request == *id);
                let Some(asked) = asked else { return };
                reports(event).iter().for_each(|report| {
                    hub.report(Some(&asked.session), &report.to_string());
                });
                return;
            }
            _ => None,
        };
        let own = match (session, event) {
            (Some(_), Event::Opened { request, .. }) => match self.opening.get(request) {
                Some(opening) => Some(opening.session.as_str()),
                None => return,
            },
            (Some(session), _) => match self.sessions.get(session) {
                Some(own) => Some(own.as_str()),
                None => return,
            },
            (None, _) => None,
        };
        for report in reports(event) {
            hub.report(own, &report.to_string());
        }
    }
}

/// Returns the question of a permission request.
pub(super) fn question_of(
    id: String,
    request: &PermissionRequest,
    cwd: &Path,
    rule: String,
) -> Question {
    let call = request.call.as_ref();
    let subject = QuestionSubject::ToolCall {
        title: call.map_or("", |call| call.title()).to_owned(),
        kind: call.map_or("", |call| call.kind()).to_owned(),
        command: call.and_then(|call| call.command()),
        paths: call
            .map(|call| call.paths())
            .unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect(),
    };
    let directory = call.and_then(|call| {
        let input = call.member("rawInput")?;
        let named = ["cwd", "workdir", "working_directory", "directory"];
        named.iter().find_map(|name| input.get(*name)?.as_str())
    });
    let directory = directory.map_or_else(|| cwd.display().to_string(), str::to_owned);
    let options = request.options.iter().map(|option| QuestionOption {
        id: id_text(&option.id),
        name: option.name.clone(),
        kind: option.kind.word().to_owned(),
    });
    Question {
        id,
        subject,
        directory,
        options: options.collect(),
        reason: rule,
        state: QuestionState::Pending,
        left: false,
    }
}

pub(super) fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}
