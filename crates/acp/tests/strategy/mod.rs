//! Strategies: JSON, lines of all kinds, and agent messages.

use aifo_acp::Id;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// Any small, shallow JSON.
pub(crate) fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e6..1e6f64).prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        "[\\x00-\\x1f\"\\\\]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            3 => select(vec!["id", "method", "params", "result", "error"]).prop_map(str::to_owned),
            1 => "[a-z]{0,4}",
        ];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((key, inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Any id.
pub(crate) fn id() -> impl Strategy<Value = Id> {
    prop_oneof![
        any::<u64>().prop_map(Id::from),
        any::<i64>().prop_map(|number| Id::Number(number.into())),
        "\\PC{0,6}".prop_map(Id::Text),
    ]
}

/// Bytes that are lines more often than random bytes.
pub(crate) fn lines() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        2 => vec(any::<u8>(), 0..12),
        4 => json_value().prop_map(|value| value.to_string().into_bytes()),
        4 => Just(b"\n".to_vec()),
        1 => Just(b" \r\n".to_vec()),
        2 => Just(br#"{"id":1,"result":{}}"#.to_vec()),
        1 => Just("\u{feff}".into()),
        1 => Just(br#"{"method":"\ud800","params":{"\udc00x":["\ud83d\ude00\ud83d"]}}"#.to_vec()),
        2 => Just(br#"[{"method":"a"},17,{"id":"x","method":"b"}]"#.to_vec()),
        1 => Just(format!("{{\"id\":7,\"result\":\"{}\"}}\n", "x".repeat(200)).into_bytes()),
        1 => Just(format!("[{}0]\n", "0,".repeat(40)).into_bytes()),
    ];
    vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

/// Updates of a few calls. Each has some of its call's final fields, so that the result does not
/// depend on the order.
pub(crate) fn updates() -> impl Strategy<Value = Vec<Value>> {
    let status =
        select(vec!["pending", "in_progress", "thinking", "completed", "failed", "cancelled"]);
    let part = (0..4u8, any::<[bool; 4]>(), option::of(status));
    vec(part, 0..24).prop_map(|parts| {
        let updates = parts.into_iter().map(|(call, has_fields, status)| {
            let value = |name: &str, is_present: bool| {
                if is_present { json!(format!("{name} of {call}")) } else { Value::Null }
            };
            let [title, kind, input, content] = has_fields;
            json!({
                "toolCallId": format!("t{call}"),
                "status": status,
                "title": value("title", title),
                "kind": value("kind", kind),
                "rawInput": value("input", input),
                "content": value("content", content),
            })
        });
        updates.collect()
    })
}

/// A line of an agent that violates the protocol.
pub(crate) fn agent_message() -> impl Strategy<Value = String> {
    let session = select(vec!["s", "s", "s", "other"]);
    let text = select(vec!["a", "", "ab", "data:image/png;base64,aGk="]);
    let number = 0..8u64;
    prop_oneof![
        2 => Just(json!({"id": 1, "result": {"protocolVersion": 1}})),
        3 => number.clone().prop_map(|id| json!({"id": id, "result": {"sessionId": "s"}})),
        3 => number.clone().prop_map(|id| json!({"id": id, "result": {"stopReason": "end_turn"}})),
        1 => number.clone().prop_map(|id| json!({"id": id, "error": {"code": -32000}})),
        4 => (session.clone(), text, option::of("[ab]"), select(vec!["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]))
            .prop_map(|(session, text, message, kind)| update(session, json!({
                "sessionUpdate": kind, "messageId": message, "content": {"type": "text", "text": text}
            }))),
        2 => (session.clone(), 0..8u8, select(vec!["pending", "completed", "odd"]), any::<bool>())
            .prop_map(|(session, call, status, is_call)| update(session, json!({
                "sessionUpdate": if is_call { "tool_call" } else { "tool_call_update" },
                "toolCallId": call, "status": status, "rawOutput": "x".repeat(40)
            }))),
        2 => (number.clone(), session).prop_map(|(id, session)| json!({
            "id": id, "method": "session/request_permission",
            "params": {"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": [{"optionId": "y"}]}
        })),
        1 => number.clone().prop_map(|id| json!({"id": id, "method": "fs/read_text_file"})),
        1 => number.clone().prop_map(|id| json!({"id": id, "method": "terminal/create"})),
        1 => number.prop_map(|id| json!({"method": "$/cancel_request", "params": {"requestId": id}})),
        1 => (select(vec!["plan", "usage_update", "new1", "new2", "new3"]), json_value())
            .prop_map(|(kind, value)| update("s", json!({"sessionUpdate": kind, "content": value}))),
        2 => json_value(),
    ]
    .prop_map(|value| value.to_string())
}

fn update(session: &str, body: Value) -> Value {
    json!({"method": "session/update", "params": {"sessionId": session, "update": body}})
}
