//! OpenAI's Chat Completions (`POST /v1/chat/completions`).

use serde_json::{Value, json};

use super::dialect::{Delivery, Prompt, Reply, list, schema, text, word};
use super::script::Message;
use super::tools::Tool;

/// Parses a request.
pub(super) fn read(body: &Value) -> Prompt {
    let format = body.get("response_format").cloned().unwrap_or_default();
    Prompt {
        model: word(body, "model"),
        tools: Tool::read(body.get("tools"), &["parameters"]),
        conversation: list(body.get("messages")).filter_map(message).collect(),
        schema: schema(&format, format.pointer("/json_schema/schema")),
        delivery: Delivery::asked(body),
    }
}

fn message(message: &Value) -> Option<Message> {
    let content = text(message.get("content"));
    match word(message, "role").as_str() {
        "user" => Some(Message::User(content)),
        "assistant" => Some(Message::Model(content)),
        "tool" => Some(Message::ToolReport(content)),
        _ => None,
    }
}

/// The whole response.
pub(super) fn document(model: &str, reply: &Reply) -> Value {
    let message = match reply {
        Reply::Text(text) => json!({"role": "assistant", "content": text}),
        Reply::Call(_) => {
            json!({"role": "assistant", "content": null, "tool_calls": calls(reply)})
        }
    };
    let choice = json!({"index": 0, "message": message, "finish_reason": finish(reply)});
    completion(model, "chat.completion", &[choice], Some(usage()))
}

/// The response as a stream, without the final `[DONE]`.
pub(super) fn chunks(model: &str, reply: &Reply) -> Vec<Value> {
    let said = match reply {
        Reply::Text(text) => json!({"role": "assistant", "content": text}),
        Reply::Call(_) => json!({"role": "assistant", "tool_calls": calls(reply)}),
    };
    let chunk =
        |choices: &[Value], usage| completion(model, "chat.completion.chunk", choices, usage);
    vec![
        chunk(&[json!({"index": 0, "delta": said, "finish_reason": null})], None),
        chunk(&[json!({"index": 0, "delta": {}, "finish_reason": finish(reply)})], None),
        chunk(&[], Some(usage())),
    ]
}

fn calls(reply: &Reply) -> Value {
    let Reply::Call(call) = reply else { return json!([]) };
    json!([{
        "index": 0, "id": call.id, "type": "function",
        "function": {"name": call.tool, "arguments": call.arguments.to_string()},
    }])
}

fn finish(reply: &Reply) -> &'static str {
    match reply {
        Reply::Text(_) => "stop",
        Reply::Call(_) => "tool_calls",
    }
}

fn usage() -> Value {
    json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
}

fn completion(model: &str, object: &str, choices: &[Value], usage: Option<Value>) -> Value {
    let mut document = json!({
        "id": "chatcmpl-0", "object": object, "created": 0, "model": model, "choices": choices,
    });
    if let Some(usage) = usage {
        document["usage"] = usage;
    }
    document
}
