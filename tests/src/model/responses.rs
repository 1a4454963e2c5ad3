//! OpenAI's Responses (`POST /v1/responses`).

use serde_json::{Value, json};

use super::dialect::{Delivery, Prompt, Reply, list, schema, text, word};
use super::script::Message;
use super::tools::Tool;

/// Parses a request.
pub(super) fn read(body: &Value) -> Prompt {
    let conversation = match body.get("input") {
        Some(Value::String(text)) => vec![Message::User(text.clone())],
        input => list(input).filter_map(message).collect(),
    };
    let format = body.pointer("/text/format").cloned().unwrap_or_default();
    Prompt {
        model: word(body, "model"),
        tools: Tool::read(body.get("tools"), &["parameters"]),
        conversation,
        schema: schema(&format, format.get("schema")),
        delivery: Delivery::asked(body),
    }
}

fn message(item: &Value) -> Option<Message> {
    match (word(item, "type").as_str(), word(item, "role").as_str()) {
        ("function_call_output", _) => Some(Message::ToolReport(text(item.get("output")))),
        ("message" | "", "user") => Some(Message::User(text(item.get("content")))),
        ("message" | "", "assistant") => Some(Message::Model(text(item.get("content")))),
        _ => None,
    }
}

/// The whole response.
pub(super) fn document(model: &str, reply: &Reply) -> Value {
    response(model, "completed", &[item(reply)])
}

/// The response as a stream.
pub(super) fn events(model: &str, reply: &Reply) -> Vec<Value> {
    let item = item(reply);
    let mut events = vec![
        json!({"type": "response.created", "response": response(model, "in_progress", &[])}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
    ];
    let id = &item["id"];
    match reply {
        Reply::Text(text) => {
            let part = json!({"type": "output_text", "text": "", "annotations": []});
            let parts = [
                ("response.content_part.added", "part", part),
                ("response.output_text.delta", "delta", json!(text)),
                ("response.output_text.done", "text", json!(text)),
                ("response.content_part.done", "part", item["content"][0].clone()),
            ];
            events.extend(parts.into_iter().map(|(kind, name, value)| {
                json!({
                    "type": kind, "item_id": id, "output_index": 0, "content_index": 0, name: value,
                })
            }));
        }
        Reply::Call(_) => {
            let parts = [
                ("response.function_call_arguments.delta", "delta"),
                ("response.function_call_arguments.done", "arguments"),
            ];
            events.extend(parts.into_iter().map(|(kind, name)| {
                json!({"type": kind, "item_id": id, "output_index": 0, name: item["arguments"]})
            }));
        }
    }
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    let response = document(model, reply);
    events.push(json!({"type": "response.completed", "response": response}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

fn item(reply: &Reply) -> Value {
    match reply {
        Reply::Text(text) => json!({
            "type": "message", "id": "msg_0", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Reply::Call(call) => json!({
            "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id,
            "name": call.tool, "arguments": call.arguments.to_string(), "status": "completed",
        }),
    }
}

fn response(model: &str, status: &str, output: &[Value]) -> Value {
    json!({
        "id": "resp_0", "object": "response", "created_at": 0, "status": status, "model": model,
        "output": output, "parallel_tool_calls": false, "tool_choice": "auto", "tools": [],
        "usage": {
            "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    })
}
