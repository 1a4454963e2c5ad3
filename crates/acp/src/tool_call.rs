//! One tool call, merged from its updates.

use serde_json::{Map, Value};

use crate::json::weight;

/// The state of a tool call (`spec/acp.md#tool-calls`).
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    id: String,
    status: ToolStatus,
    unfinished: Option<UnfinishedReason>,
    /// All other fields, by their protocol names.
    members: Map<String, Value>,
}

/// The status that the agent sends. It only advances in this order, whatever the order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolStatus {
    /// Not started, or not given.
    #[default]
    Pending,
    /// Running.
    InProgress,
    /// An unknown status.
    Other(String),
    /// Completed.
    Completed,
    /// Cancelled.
    Cancelled,
    /// Failed.
    Failed,
}

/// Why a call counts as over although the agent has not ended it. A later status from the agent
/// overrides this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfinishedReason {
    /// Its turn was cancelled.
    Cancelled,
    /// Its turn ended.
    Abandoned,
}

/// The combined state of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallState {
    /// Running, as far as known.
    Open(ToolStatus),
    /// The agent has not ended it.
    Unfinished(UnfinishedReason),
    /// The agent has ended it.
    Ended(ToolStatus),
}

impl ToolCall {
    /// Creates a call with only an id.
    pub(crate) fn placeholder(id: &str) -> Self {
        ToolCall {
            id: id.to_owned(),
            status: ToolStatus::default(),
            unfinished: None,
            members: Map::new(),
        }
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the agent's status.
    pub fn status(&self) -> &ToolStatus {
        &self.status
    }

    /// Returns the combined state.
    pub fn state(&self) -> CallState {
        match self.unfinished {
            _ if self.status.is_end() => CallState::Ended(self.status.clone()),
            Some(reason) => CallState::Unfinished(reason),
            None => CallState::Open(self.status.clone()),
        }
    }

    /// Returns a field by its protocol name: `title`, `kind`, `content`, `rawInput`, ..
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// Returns the title. For display only: agents shorten and invent titles.
    pub fn title(&self) -> &str {
        self.text("title")
    }

    /// Returns the kind, `""` if not given.
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// Merges an update field by field. Missing and `null` fields are unchanged. A field of more
    /// than about `max_member` bytes is dropped together with its previous value.
    pub(crate) fn merge(&mut self, update: &Value, max_member: usize) {
        for (name, value) in update.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("toolCallId" | "sessionUpdate", _) | (_, Value::Null) => {}
                ("status", status) => self.advance(ToolStatus::parse(status)),
                _ if max_member < usize::MAX && weight(value) > max_member => {
                    self.members.remove(name);
                }
                _ => _ = self.members.insert(name.clone(), value.clone()),
            }
        }
    }

    /// Marks an open call as unfinished; the first reason counts.
    pub(crate) fn mark_unfinished(&mut self, reason: UnfinishedReason) {
        if !self.status.is_end() {
            self.unfinished.get_or_insert(reason);
        }
    }

    /// Drops all fields but the state.
    pub(crate) fn strip(&mut self) {
        self.members = Map::new();
    }

    /// Returns about how many bytes of memory the call takes.
    pub(crate) fn weight(&self) -> usize {
        let members = self.members.iter().map(|(name, value)| name.len() + weight(value));
        let status = match &self.status {
            ToolStatus::Other(word) => word.len(),
            _ => 0,
        };
        size_of::<Self>() + 3 * self.id.len() + status + members.sum::<usize>()
    }

    fn advance(&mut self, status: Option<ToolStatus>) {
        if let Some(status) = status.filter(|status| *status > self.status) {
            self.status = status;
        }
    }

    fn text(&self, name: &str) -> &str {
        self.members.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

impl ToolStatus {
    /// Returns `None` if the value is not a string.
    fn parse(value: &Value) -> Option<Self> {
        Some(match value.as_str()? {
            "pending" => ToolStatus::Pending,
            "in_progress" => ToolStatus::InProgress,
            "completed" => ToolStatus::Completed,
            "cancelled" => ToolStatus::Cancelled,
            "failed" => ToolStatus::Failed,
            word => ToolStatus::Other(word.to_owned()),
        })
    }

    /// Returns whether the status is final.
    pub fn is_end(&self) -> bool {
        matches!(self, ToolStatus::Completed | ToolStatus::Cancelled | ToolStatus::Failed)
    }

    /// Returns the protocol's name.
    pub fn word(&self) -> &str {
        match self {
            ToolStatus::Pending => "pending",
            ToolStatus::InProgress => "in_progress",
            ToolStatus::Other(word) => word,
            ToolStatus::Completed => "completed",
            ToolStatus::Cancelled => "cancelled",
            ToolStatus::Failed => "failed",
        }
    }
}

impl CallState {
    /// Returns the agent's status, or the reason for an unfinished call.
    pub fn word(&self) -> &str {
        match self {
            CallState::Open(status) | CallState::Ended(status) => status.word(),
            CallState::Unfinished(UnfinishedReason::Cancelled) => "cancelled",
            CallState::Unfinished(UnfinishedReason::Abandoned) => "abandoned",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(update: &[Value]) -> ToolCall {
        let mut call = ToolCall::placeholder("t");
        update.iter().for_each(|update| call.merge(update, usize::MAX));
        call
    }

    #[test]
    fn missing_and_null_fields_are_unchanged() {
        let call = call(&[
            json!({"toolCallId": "t", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}}),
            json!({"toolCallId": "t", "title": null, "content": [1]}),
            json!({"toolCallId": "t", "_meta": {"x": 1}}),
            json!({"toolCallId": "t", "content": [2], "kind": "read"}),
        ]);
        assert_eq!((call.title(), call.kind(), call.id()), ("ls", "read", "t"));
        assert_eq!(call.member("content"), Some(&json!([2])));
        assert_eq!(call.member("_meta"), Some(&json!({"x": 1})));
        assert_eq!(call.member("toolCallId"), None);
        assert_eq!(call.command().as_deref(), Some("ls"));
    }

    #[test]
    fn a_status_only_advances() {
        let rows: [(&[&str], &str); 9] = [
            (&[], "pending"),
            (&["in_progress", "pending"], "in_progress"),
            (&["completed", "in_progress"], "completed"),
            (&["failed", "completed"], "failed"),
            (&["completed", "failed"], "failed"),
            (&["cancelled", "pending"], "cancelled"),
            (&["thinking", "pending"], "thinking"),
            (&["in_progress", "thinking"], "thinking"),
            (&["thinking", "completed"], "completed"),
        ];
        for (words, expected) in rows {
            let update: Vec<Value> = words.iter().map(|word| json!({"status": word})).collect();
            assert_eq!(call(&update).status().word(), expected, "{words:?}");
        }
        assert_eq!(call(&[json!({"status": 7})]).status(), &ToolStatus::Pending);
    }

    #[test]
    fn a_final_status_overrides_the_unfinished_mark() {
        let mut open = call(&[json!({"status": "in_progress"})]);
        assert_eq!(open.state(), CallState::Open(ToolStatus::InProgress));
        open.mark_unfinished(UnfinishedReason::Cancelled);
        open.mark_unfinished(UnfinishedReason::Abandoned);
        assert_eq!(
            open.state(),
            CallState::Unfinished(UnfinishedReason::Cancelled),
            "the first reason stays"
        );
        open.merge(&json!({"status": "completed"}), usize::MAX);
        assert_eq!(open.state(), CallState::Ended(ToolStatus::Completed));
        open.mark_unfinished(UnfinishedReason::Abandoned);
        assert_eq!(open.state(), CallState::Ended(ToolStatus::Completed));
    }
}
