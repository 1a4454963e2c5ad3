//! Anthropic's Messages (`POST /v1/messages`).

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::dialect::{Delivery, Prompt, Reply, list, schema, text, word};
use super::script::Message;
use super::tools::Tool;

/// Parses a request.
pub(super) fn read(body: &Value) -> Prompt {
    let format = body.pointer("/output_config/format").cloned().unwrap_or_default();
    Prompt {
        model: word(body, "model"),
        tools: Tool::read(body.get("tools"), &["input_schema"]),
        conversation: list(body.get("messages")).flat_map(messages).collect(),
        schema: schema(&format, format.get("schema")),
        delivery: Delivery::asked(body),
    }
}

/// A message holds several parts of the conversation: results and user texts.
fn messages(message: &Value) -> Vec<Message> {
    let said = match word(message, "role").as_str() {
        "assistant" => Message::Model,
        _ => Message::User,
    };
    let block = |block: &Value| match word(block, "type").as_str() {
        "tool_result" => Some(Message::ToolReport(text(block.get("content")))),
        "text" => Some(said(text(Some(block)))),
        _ => None,
    };
    match message.get("content") {
        Some(Value::String(text)) => vec![said(text.clone())],
        blocks => list(blocks).filter_map(block).collect(),
    }
}

/// The whole response.
pub(super) fn document(model: &str, reply: &Reply) -> Value {
    let block = match reply {
        Reply::Text(text) => json!({"type": "text", "text": text}),
        Reply::Call(call) => json!({
            "type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments,
        }),
    };
    message(model, json!(stop(reply)), &[block])
}

/// The response as a stream.
pub(super) fn events(model: &str, reply: &Reply) -> Vec<Value> {
    let (block, delta) = match reply {
        Reply::Text(text) => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}))
        }
        Reply::Call(call) => (
            json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": call.arguments.to_string()}),
        ),
    };
    let end = json!({"stop_reason": stop(reply), "stop_sequence": null});
    vec![
        json!({"type": "message_start", "message": message(model, Value::Null, &[])}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]
}

fn stop(reply: &Reply) -> &'static str {
    match reply {
        Reply::Text(_) => "end_turn",
        Reply::Call(_) => "tool_use",
    }
}

/// A unique message id: claude merges messages of one id when it resumes a session.
fn message_id() -> String {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    format!("msg_{}", SERIAL.fetch_add(1, Ordering::Relaxed))
}

fn message(model: &str, stop: Value, content: &[Value]) -> Value {
    json!({
        "id": message_id(), "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    })
}
