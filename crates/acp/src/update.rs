//! Lenient parsing of session updates.

use serde_json::Value;

/// One `session/update`, as received (`spec/acp.md#updates`).
///
/// Only the fields that matter are read. [`body`](Update::body) has all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    session: String,
    kind: UpdateKind,
    params: Value,
}

/// The update kinds of protocol version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// `user_message_chunk`
    UserMessage,
    /// `agent_message_chunk`
    AgentMessage,
    /// `agent_thought_chunk`
    AgentThought,
    /// `tool_call`
    ToolCall,
    /// `tool_call_update`
    ToolCallUpdate,
    /// `plan`: the whole plan.
    Plan,
    /// `available_commands_update`
    AvailableCommands,
    /// `current_mode_update`
    CurrentMode,
    /// All configuration options.
    ConfigOptions,
    /// The session title and similar data.
    SessionInfo,
    /// Context size and cost.
    Usage,
    /// A notice to show.
    Notice,
    /// The context is being compacted.
    Compaction,
    /// A chunk of the compaction's summary.
    CompactionSummary,
    /// An unknown kind.
    Other(String),
}

/// Why parameters are not an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUpdate {
    /// The session is missing.
    #[error("an update without a session")]
    NoSession,
    /// The kind is missing.
    #[error("an update without a kind")]
    NoKind,
}

/// The turn that an update belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateScope {
    /// None: the history of a loading session.
    History,
    /// None: no turn has begun.
    BeforeTurns,
    /// This one.
    Turn(u64),
    /// Most likely this one, which has been answered.
    Late(u64),
}

impl Update {
    /// Parses the parameters of a `session/update`.
    pub fn parse(params: Value) -> Result<Self, InvalidUpdate> {
        let session = session_of(&params).ok_or(InvalidUpdate::NoSession)?;
        let kind = params.get("update").and_then(|body| body.get("sessionUpdate")?.as_str());
        let kind = UpdateKind::parse(kind.ok_or(InvalidUpdate::NoKind)?);
        Ok(Update { session, kind, params })
    }

    /// Returns the session id.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the kind.
    pub fn kind(&self) -> &UpdateKind {
        &self.kind
    }

    /// Returns the `update` member.
    pub fn body(&self) -> &Value {
        self.params.get("update").unwrap_or(&Value::Null)
    }

    /// Returns all parameters; some agents put `_meta` beside the update.
    pub fn params(&self) -> &Value {
        &self.params
    }

    /// Returns the message id of a chunk, if given.
    pub fn message_id(&self) -> Option<&str> {
        self.body().get("messageId")?.as_str()
    }
}

/// Returns the session id in parameters.
pub(crate) fn session_of(params: &Value) -> Option<String> {
    params.get("sessionId")?.as_str().map(str::to_owned)
}

impl UpdateKind {
    fn parse(name: &str) -> Self {
        let known = TABLE.iter().find(|(known, _)| *known == name);
        known.map_or_else(|| UpdateKind::Other(name.to_owned()), |(_, kind)| kind.clone())
    }

    /// Returns the protocol's name.
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
    fn kinds_have_names_and_unknown_ones_are_accepted() {
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
    }

    #[test]
    fn an_update_keeps_its_unknown_members() {
        let body = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m",
            "content": {"type": "text", "text": "hi"}, "extra": true});
        let update = Update::parse(json!({"sessionId": "s", "update": body})).unwrap();
        assert_eq!(update.message_id(), Some("m"));
        assert_eq!(update.body()["extra"], json!(true));
    }

    #[test]
    fn invalid_updates_are_errors() {
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
