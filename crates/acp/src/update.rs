//! What an agent tells of a session, seen without asking too much of it.

use agent_client_protocol_schema::v1::SessionNotification;
use serde::Deserialize;
use serde_json::Value;

/// One `session/update`, as it came (`spec/acp.md#updates`).
///
/// The few members that decide anything are read one by one. All others are in
/// [`body`](Update::body), whatever they are, and in [`typed`](Update::typed) where they are what the
/// schema says.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    session: String,
    kind: UpdateKind,
    params: Value,
}

/// The kinds of updates of version 1 of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// A piece of what the user said.
    UserMessage,
    /// A piece of the answer.
    AgentMessage,
    /// A piece of what the agent thinks.
    AgentThought,
    /// A call of a tool.
    ToolCall,
    /// News of one.
    ToolCallUpdate,
    /// All of the plan.
    Plan,
    /// Commands that a prompt may begin with.
    AvailableCommands,
    /// The mode that is on.
    CurrentMode,
    /// All settings.
    ConfigOptions,
    /// Title and such.
    SessionInfo,
    /// How full the context is, and what it cost.
    Usage,
    /// Something to show.
    Notice,
    /// The context is being made smaller.
    Compaction,
    /// A piece of what is left of it.
    CompactionSummary,
    /// One that is not known here.
    Other(String),
}

/// Why parameters are no update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUpdate {
    /// Nobody knows whose it is.
    #[error("an update without a session")]
    NoSession,
    /// Nobody knows what it is.
    #[error("an update without a kind")]
    NoKind,
}

/// What news of a session belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateScope {
    /// To what was before the session was loaded.
    History,
    /// To nothing: there was no turn yet.
    BeforeTurns,
    /// To this turn.
    Turn(u64),
    /// To this turn, most likely; it has been answered before.
    Late(u64),
}

impl Update {
    /// Reads the parameters of a `session/update`.
    pub fn parse(params: Value) -> Result<Self, InvalidUpdate> {
        let session = session_of(&params).ok_or(InvalidUpdate::NoSession)?;
        let kind = params.get("update").and_then(|body| body.get("sessionUpdate")?.as_str());
        let kind = UpdateKind::parse(kind.ok_or(InvalidUpdate::NoKind)?);
        Ok(Update { session, kind, params })
    }

    /// The session it is about.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// What it tells.
    pub fn kind(&self) -> &UpdateKind {
        &self.kind
    }

    /// The `update` itself.
    pub fn body(&self) -> &Value {
        self.params.get("update").unwrap_or(&Value::Null)
    }

    /// All parameters; some agents put their `_meta` beside the update.
    pub fn params(&self) -> &Value {
        &self.params
    }

    /// The update in the schema's types, which refuse much of what real agents send.
    pub fn typed(&self) -> Result<SessionNotification, serde_json::Error> {
        SessionNotification::deserialize(&self.params)
    }

    /// The message that a chunk is a piece of, if the agent tells.
    pub fn message_id(&self) -> Option<&str> {
        self.body().get("messageId")?.as_str()
    }
}

/// The session that parameters are about.
pub(crate) fn session_of(params: &Value) -> Option<String> {
    params.get("sessionId")?.as_str().map(str::to_owned)
}

impl UpdateKind {
    fn parse(name: &str) -> Self {
        let known = TABLE.iter().find(|(known, _)| *known == name);
        known.map_or_else(|| UpdateKind::Other(name.to_owned()), |(_, kind)| kind.clone())
    }

    /// The protocol's name of it.
    pub fn name(&self) -> &str {
        match self {
            UpdateKind::Other(name) => name,
            kind => TABLE.iter().find(|(_, known)| known == kind).map_or("", |(name, _)| name),
        }
    }
}

const TABLE: &[(&str, UpdateKind)] = &[
    ("user_message_chunk", UpdateKind::UserMessage),
    ("agent_message_chunk", UpdateKind::AgentMessage),
    ("agent_thought_chunk", UpdateKind::AgentThought),
    ("tool_call", UpdateKind::ToolCall),
    ("tool_call_update", UpdateKind::ToolCallUpdate),
    ("plan", UpdateKind::Plan),
    ("available_commands_update", UpdateKind::AvailableCommands),
    ("current_mode_update", UpdateKind::CurrentMode),
    ("config_option_update", UpdateKind::ConfigOptions),
    ("session_info_update", UpdateKind::SessionInfo),
    ("usage_update", UpdateKind::Usage),
    ("notice", UpdateKind::Notice),
    ("compaction_update", UpdateKind::Compaction),
    ("compaction_summary_chunk", UpdateKind::CompactionSummary),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_have_names_and_unknown_ones_pass() {
        for (name, kind) in TABLE {
            let params = json!({"sessionId": "s", "update": {"sessionUpdate": name}});
            let update = Update::parse(params).unwrap();
            assert_eq!((update.kind(), update.kind().name()), (kind, *name));
        }
        let params =
            json!({"sessionId": "s", "update": {"sessionUpdate": "news", "x": 1}, "_meta": 2});
        let update = Update::parse(params.clone()).unwrap();
        assert_eq!(update.kind(), &UpdateKind::Other("news".to_owned()));
        assert_eq!((update.kind().name(), update.session()), ("news", "s"));
        assert_eq!(update.params(), &params, "all of it is kept");
        assert!(update.typed().is_err(), "the schema does not know it");
    }

    #[test]
    fn the_schemas_types_stand_beside_the_raw_form() {
        let body = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m",
            "content": {"type": "text", "text": "hi"}, "extra": true});
        let update = Update::parse(json!({"sessionId": "s", "update": body})).unwrap();
        assert_eq!(update.message_id(), Some("m"));
        let typed = serde_json::to_value(update.typed().unwrap()).unwrap();
        assert_eq!(typed["update"]["content"]["text"], "hi");
        assert_eq!(
            (&typed["update"]["extra"], &update.body()["extra"]),
            (&json!(null), &json!(true))
        );
    }

    #[test]
    fn what_is_no_update_is_told() {
        let rows = [
            (json!(null), InvalidUpdate::NoSession),
            (json!({"update": {"sessionUpdate": "plan"}}), InvalidUpdate::NoSession),
            (
                json!({"sessionId": 7, "update": {"sessionUpdate": "plan"}}),
                InvalidUpdate::NoSession,
            ),
            (json!({"sessionId": "s"}), InvalidUpdate::NoKind),
            (json!({"sessionId": "s", "update": []}), InvalidUpdate::NoKind),
            (json!({"sessionId": "s", "update": {"sessionUpdate": 1}}), InvalidUpdate::NoKind),
        ];
        for (params, why) in rows {
            assert_eq!(Update::parse(params.clone()), Err(why), "{params}");
        }
    }
}
