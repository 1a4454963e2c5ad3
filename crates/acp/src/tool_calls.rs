//! The tool calls of a session, by id.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::tool_call::{CallState, ToolCall, UnfinishedReason};

/// Tool calls in bounded memory (`spec/acp.md#tool-calls`). They belong to the session, as a
/// background call may end in a later turn.
#[derive(Debug)]
pub struct ToolCalls {
    max_calls: usize,
    max_bytes: usize,
    max_member: usize,
    held: usize,
    slots: HashMap<String, Slot>,
    /// Order of eviction: ended calls first, then open ones, each by last change.
    order: BTreeMap<EvictionKey, String>,
    touches: u64,
}

#[derive(Debug)]
struct Slot {
    call: ToolCall,
    key: EvictionKey,
    weight: usize,
}

/// A position in the order of eviction.
type EvictionKey = (Activity, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    Ended,
    Open,
}

/// A call's change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChange {
    /// The call id.
    pub id: String,
    /// The state before; `None` for a new call.
    pub before: Option<CallState>,
    /// The state after.
    pub after: CallState,
}

impl ToolCalls {
    /// Creates an empty set with limits on the count and on memory in bytes.
    pub fn new(max_calls: usize, max_bytes: usize) -> Self {
        ToolCalls {
            max_calls: max_calls.max(1),
            max_bytes,
            max_member: usize::MAX,
            held: 0,
            slots: HashMap::new(),
            order: BTreeMap::new(),
            touches: 0,
        }
    }

    /// Drops fields above about `max_member` bytes.
    #[must_use]
    pub(crate) fn with_max_member(self, max_member: usize) -> Self {
        ToolCalls { max_member, ..self }
    }

    /// Applies a `tool_call`, an update or a permission request to its call, which is created if
    /// unknown. `None` without a call id.
    pub fn upsert(&mut self, update: &Value) -> Option<ToolChange> {
        let id = call_id(update)?;
        let (mut call, before) = match self.take(&id) {
            Some(call) => {
                let before = call.state();
                (call, Some(before))
            }
            None => (ToolCall::placeholder(&id), None),
        };
        call.merge(update, self.max_member);
        let after = call.state();
        self.put(call);
        Some(ToolChange { id, before, after })
    }

    /// Returns a call by its id.
    pub fn get(&self, id: &str) -> Option<&ToolCall> {
        self.slots.get(id).map(|slot| &slot.call)
    }

    /// Returns all calls, unordered.
    pub fn iter(&self) -> impl Iterator<Item = &ToolCall> {
        self.slots.values().map(|slot| &slot.call)
    }

    /// Returns the number of calls.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns about how many bytes the calls take.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Marks an open call as unfinished.
    pub(crate) fn mark_unfinished(&mut self, id: &str, mark: UnfinishedReason) {
        if let Some(slot) = self.slots.get_mut(id) {
            slot.call.mark_unfinished(mark);
        }
    }

    fn take(&mut self, id: &str) -> Option<ToolCall> {
        let slot = self.slots.remove(id)?;
        self.order.remove(&slot.key);
        self.held = self.held.saturating_sub(slot.weight);
        Some(slot.call)
    }

    fn put(&mut self, mut call: ToolCall) {
        let mut weight = call.weight();
        if weight > self.max_bytes {
            call.strip();
            weight = call.weight();
        }
        while self.slots.len() >= self.max_calls
            || self.held.saturating_add(weight) > self.max_bytes
        {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.take(&oldest);
        }
        self.touches = self.touches.saturating_add(1);
        let activity = if call.status().is_end() { Activity::Ended } else { Activity::Open };
        let (id, key) = (call.id().to_owned(), (activity, self.touches));
        self.held = self.held.saturating_add(weight);
        self.order.insert(key, id.clone());
        self.slots.insert(id, Slot { call, key, weight });
    }
}

/// Returns the call id; some agents send numbers.
fn call_id(update: &Value) -> Option<String> {
    match update.get("toolCallId")? {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool_call::ToolStatus;

    fn calls() -> ToolCalls {
        ToolCalls::new(3, 1 << 20)
    }

    fn update(id: &str, status: &str) -> Value {
        json!({"toolCallId": id, "status": status})
    }

    #[test]
    fn an_update_before_its_call_creates_a_placeholder() {
        let mut calls = calls();
        let change = calls.upsert(&update("t", "in_progress")).unwrap();
        assert_eq!((change.before, change.after), (None, CallState::Open(ToolStatus::InProgress)));
        let call = calls.get("t").unwrap();
        assert_eq!((call.title(), call.kind()), ("", ""));

        let announcement = json!({"toolCallId": "t", "title": "ls", "status": "pending"});
        let change = calls.upsert(&announcement).unwrap();
        assert_eq!(change.before, Some(change.after), "the status only advances");
        calls.upsert(&json!({"toolCallId": "t", "rawInput": {"command": "ls"}}));
        let call = calls.get("t").unwrap();
        assert_eq!((call.title(), calls.len()), ("ls", 1));
        assert_eq!(call.command().as_deref(), Some("ls"));
    }

    #[test]
    fn calls_are_independent() {
        let mut calls = calls();
        for (id, status) in [("a", "in_progress"), ("b", "pending"), ("a", "completed")] {
            calls.upsert(&update(id, status));
        }
        assert_eq!(calls.get("a").unwrap().status(), &ToolStatus::Completed);
        assert_eq!(calls.get("b").unwrap().status(), &ToolStatus::Pending);
    }

    #[test]
    fn updates_without_a_call_id_are_ignored() {
        let mut calls = calls();
        for update in [json!({}), json!({"toolCallId": null}), json!({"toolCallId": []}), json!(1)]
        {
            assert_eq!(calls.upsert(&update), None, "{update}");
        }
        assert!(calls.is_empty());
        calls.upsert(&json!({"toolCallId": 7}));
        assert!(calls.get("7").is_some(), "a number is an id, too");
    }

    #[test]
    fn ended_calls_are_evicted_first_then_the_oldest() {
        let mut calls = calls();
        for (id, status) in [
            ("a", "pending"),
            ("b", "completed"),
            ("c", "pending"),
            ("a", "in_progress"),
            ("d", "pending"),
        ] {
            calls.upsert(&update(id, status));
        }
        assert!(calls.get("b").is_none(), "completed before");
        calls.upsert(&update("e", "pending"));
        let mut left: Vec<&str> = calls.iter().map(ToolCall::id).collect();
        left.sort_unstable();
        assert_eq!(left, ["a", "d", "e"]);
    }

    #[test]
    fn memory_of_calls_is_bounded() {
        let mut calls = ToolCalls::new(100, 10_000);
        for index in 0..1000 {
            let output = "x".repeat(2000);
            calls.upsert(&json!({"toolCallId": index, "rawOutput": output}));
            assert!(calls.held() <= 10_000, "{}", calls.held());
        }
        assert!(calls.len() >= 3);
        let huge = json!({"toolCallId": "h", "status": "failed", "rawOutput": "x".repeat(20_000)});
        calls.upsert(&huge);
        let call = calls.get("h").unwrap();
        assert_eq!((call.status(), call.member("rawOutput")), (&ToolStatus::Failed, None));
        assert!(calls.held() <= 10_000);
        let long_name = json!({"toolCallId": "x".repeat(1 << 20)});
        calls.upsert(&long_name);
        assert_eq!(calls.len(), 1, "one call is always kept");
    }
}
