//! Gemini (`POST /v1beta/models/M:generateContent` and `:streamGenerateContent?alt=sse`).

use serde_json::{Value, json};

use super::dialect::{Delivery, Prompt, Reply, list, text, word};
use super::script::Message;
use super::tools::Tool;

/// Parses a request. The path contains the model and the delivery.
pub(super) fn read(path: &str, body: &Value) -> Prompt {
    let (model, verb) =
        path.rsplit('/').next().and_then(|last| last.split_once(':')).unwrap_or_default();
    let declared = list(body.get("tools"));
    let tools = declared.flat_map(|tools| {
        Tool::read(tools.get("functionDeclarations"), &["parametersJsonSchema", "parameters"])
    });
    let wanted = body.get("generationConfig").cloned().unwrap_or_default();
    let schema = ["responseJsonSchema", "responseSchema"].iter().find_map(|name| wanted.get(name));
    let any = (word(&wanted, "responseMimeType") == "application/json")
        .then(|| json!({"type": "object"}));
    Prompt {
        model: model.to_owned(),
        tools: tools.collect(),
        conversation: list(body.get("contents")).flat_map(messages).collect(),
        schema: schema.cloned().or(any),
        delivery: match verb {
            "streamGenerateContent" => Delivery::Stream,
            _ => Delivery::Whole,
        },
    }
}

fn messages(content: &Value) -> Vec<Message> {
    let said = match word(content, "role").as_str() {
        "model" => Message::Model,
        _ => Message::User,
    };
    let part = |part: &Value| match part.get("functionResponse") {
        Some(answer) => Some(Message::ToolReport(report(answer.get("response")))),
        None => part.get("text").map(|_| said(text(Some(part)))),
    };
    list(content.get("parts")).filter_map(part).collect()
}

/// Extracts output or error from a function's response, which is an object.
fn report(response: Option<&Value>) -> String {
    let text = |name| response.and_then(|response| response.get(name)).and_then(Value::as_str);
    let text = text("output").or_else(|| text("error")).map(str::to_owned);
    text.unwrap_or_else(|| response.map(Value::to_string).unwrap_or_default())
}

/// The response: the only document, or the only event of a stream.
pub(super) fn document(model: &str, reply: &Reply) -> Value {
    let part = match reply {
        Reply::Text(text) => json!({"text": text}),
        Reply::Call(call) => json!({
            "functionCall": {"id": call.id, "name": call.tool, "args": call.arguments},
        }),
    };
    json!({
        "candidates": [{
            "index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP",
        }],
        "usageMetadata": {
            "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2,
        },
        "modelVersion": model,
    })
}
