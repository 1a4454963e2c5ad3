//! One call of a tool, put together from all that is told of it.

use serde_json::{Map, Value};

use crate::json::weight;

/// A tool call as it is known so far (`spec/acp.md#tool-calls`).
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    id: String,
    announced: Announced,
    status: ToolStatus,
    unfinished: Option<UnfinishedReason>,
    /// Everything that was told and has no place of its own, by its name in the protocol.
    members: Map<String, Value>,
}

/// How a call came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Announced {
    /// Not yet: by an update or by a request for permission.
    No,
    /// By a `tool_call`.
    Yes,
}

/// What the agent says of a call. It never goes back: of two that were told, the later in this order
/// counts, whichever came first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolStatus {
    /// It has not begun, or nothing was said.
    #[default]
    Pending,
    /// It runs.
    InProgress,
    /// A word that is not known here.
    Other(String),
    /// It has ended.
    Completed,
    /// It was ended.
    Cancelled,
    /// It has failed.
    Failed,
}

/// What we hold of a call that the agent has not ended. Should it still tell, that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfinishedReason {
    /// Its turn was cancelled.
    Cancelled,
    /// Its turn has ended.
    Abandoned,
}

/// Where a call stands, both taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallState {
    /// It is under way, as far as anybody knows.
    Open(ToolStatus),
    /// The agent has not said how it ended.
    Unfinished(UnfinishedReason),
    /// The agent has said how it ended.
    Ended(ToolStatus),
}

impl ToolCall {
    /// A call of which nothing is known but its id.
    pub(crate) fn placeholder(id: &str) -> Self {
        ToolCall {
            id: id.to_owned(),
            announced: Announced::No,
            status: ToolStatus::default(),
            unfinished: None,
            members: Map::new(),
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether a `tool_call` has come.
    pub fn announced(&self) -> Announced {
        self.announced
    }

    /// What the agent says.
    pub fn status(&self) -> &ToolStatus {
        &self.status
    }

    /// Where it stands.
    pub fn state(&self) -> CallState {
        match self.unfinished {
            _ if self.status.is_end() => CallState::Ended(self.status.clone()),
            Some(reason) => CallState::Unfinished(reason),
            None => CallState::Open(self.status.clone()),
        }
    }

    /// Any member by its name in the protocol: `title`, `kind`, `content`, `rawInput`, ..
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// Its title, for people only: agents cut and invent titles.
    pub fn title(&self) -> &str {
        self.text("title")
    }

    /// Its kind, `""` if nothing was said.
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// Takes what is told, member by member. What is missing or `null` stays as it was; a member of
    /// more than about `max_member` bytes is not kept, and neither is what it replaces.
    pub(crate) fn merge(&mut self, update: &Value, announced: Announced, max_member: usize) {
        self.announced = self.announced.max(announced);
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

    /// Marks it, unless it has ended or was marked before.
    pub(crate) fn mark_unfinished(&mut self, reason: UnfinishedReason) {
        if !self.status.is_end() {
            self.unfinished.get_or_insert(reason);
        }
    }

    /// Forgets all but where it stands.
    pub(crate) fn strip(&mut self) {
        self.members = Map::new();
    }

    /// About how many bytes of memory it takes.
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
    /// `None` for what is no text.
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

    /// Whether nothing follows.
    pub fn is_end(&self) -> bool {
        matches!(self, ToolStatus::Completed | ToolStatus::Cancelled | ToolStatus::Failed)
    }

    /// The protocol's word for it.
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
    /// One word for it: the agent's status, or what we hold of the call.
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
        update.iter().for_each(|update| call.merge(update, Announced::No, usize::MAX));
        call
    }

    #[test]
    fn what_is_missing_or_null_stays() {
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
    fn a_status_never_goes_back() {
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
    fn our_marks_give_way_to_what_the_agent_says() {
        let mut open = call(&[json!({"status": "in_progress"})]);
        assert_eq!(open.state(), CallState::Open(ToolStatus::InProgress));
        open.mark_unfinished(UnfinishedReason::Cancelled);
        open.mark_unfinished(UnfinishedReason::Abandoned);
        assert_eq!(
            open.state(),
            CallState::Unfinished(UnfinishedReason::Cancelled),
            "the first mark stays"
        );
        open.merge(&json!({"status": "completed"}), Announced::No, usize::MAX);
        assert_eq!(open.state(), CallState::Ended(ToolStatus::Completed));
        open.mark_unfinished(UnfinishedReason::Abandoned);
        assert_eq!(open.state(), CallState::Ended(ToolStatus::Completed));
    }
}
