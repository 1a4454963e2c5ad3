//! Common parts of the dialects: prompts and replies.

use serde_json::{Value, json};

use super::http::{Answer, Event};
use super::script::Message;
use super::tools::{Call, Tool};
use super::{anthropic, chat, gemini, responses};

/// A model API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's Responses: codex.
    Responses,
    /// OpenAI's Chat Completions: most agents.
    Chat,
    /// Anthropic's Messages: claude.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

/// A request to a model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prompt {
    /// The model's name.
    pub(super) model: String,
    /// The tools that it may call.
    pub(super) tools: Vec<Tool>,
    /// The conversation so far, without system instructions.
    pub(super) conversation: Vec<Message>,
    /// The schema of the reply, if that must be a JSON document.
    pub(super) schema: Option<Value>,
    /// How the reply is sent.
    pub(super) delivery: Delivery,
}

/// How a reply is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// As one document.
    Whole,
    /// As server-sent events.
    Stream,
}

/// The reply of a model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Text(String),
    Call(Call),
}

impl Dialect {
    /// The dialect of a path, with any prefix of the agent's base URL.
    pub(super) fn of(path: &str) -> Option<Self> {
        let ends = |end: &str| path.ends_with(end);
        match () {
            () if ends("/responses") => Some(Dialect::Responses),
            () if ends("/chat/completions") => Some(Dialect::Chat),
            () if ends("/messages") => Some(Dialect::Anthropic),
            () if ends(":generateContent") || ends(":streamGenerateContent") => {
                Some(Dialect::Gemini)
            }
            () => None,
        }
    }

    /// Parses a request body.
    pub(super) fn read(self, path: &str, body: &Value) -> Prompt {
        match self {
            Dialect::Responses => responses::read(body),
            Dialect::Chat => chat::read(body),
            Dialect::Anthropic => anthropic::read(body),
            Dialect::Gemini => gemini::read(path, body),
        }
    }

    /// Encodes a reply.
    pub(super) fn write(self, prompt: &Prompt, reply: &Reply) -> Answer {
        let model = &prompt.model;
        match (self, prompt.delivery) {
            (Dialect::Responses, Delivery::Whole) => whole(responses::document(model, reply)),
            (Dialect::Responses, Delivery::Stream) => stream(&responses::events(model, reply)),
            (Dialect::Chat, Delivery::Whole) => whole(chat::document(model, reply)),
            (Dialect::Chat, Delivery::Stream) => {
                let mut events: Vec<_> =
                    chat::chunks(model, reply).iter().map(Event::data).collect();
                events.push(Event::data("[DONE]"));
                Answer::Stream(events)
            }
            (Dialect::Anthropic, Delivery::Whole) => whole(anthropic::document(model, reply)),
            (Dialect::Anthropic, Delivery::Stream) => stream(&anthropic::events(model, reply)),
            (Dialect::Gemini, Delivery::Whole) => whole(gemini::document(model, reply)),
            (Dialect::Gemini, Delivery::Stream) => {
                Answer::Stream(vec![Event::data(gemini::document(model, reply))])
            }
        }
    }
}

impl Delivery {
    /// Reads the member `stream` of a request.
    pub(super) fn asked(body: &Value) -> Self {
        match body.get("stream").and_then(Value::as_bool) {
            Some(true) => Delivery::Stream,
            _ => Delivery::Whole,
        }
    }
}

impl Tool {
    /// Parses a list of tool declarations. The dialects name the schema differently, and Chat
    /// Completions nests everything one level deeper; skips tools that are not called by name with
    /// arguments.
    pub(super) fn read(declared: Option<&Value>, schema: &[&str]) -> Vec<Self> {
        let tool = |tool: &Value| {
            let name = tool.get("name")?.as_str()?.to_owned();
            let schema = schema.iter().find_map(|schema| tool.get(schema))?.clone();
            Some(Tool { name, schema })
        };
        list(declared)
            .map(|found| found.get("function").unwrap_or(found))
            .filter_map(tool)
            .collect()
    }
}

/// The members of an array; none if it is missing.
pub(super) fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// A text member; empty if it is missing.
pub(super) fn word(value: &Value, member: &str) -> String {
    value.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// All text of a content: a string, a part with a `text`, or an array of either.
pub(super) fn text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(|part| text(Some(part))).collect(),
        Some(part) => word(part, "text"),
        None => String::new(),
    }
}

/// The schema in a member; that of any object if the member only asks for a document.
pub(super) fn schema(format: &Value, schema: Option<&Value>) -> Option<Value> {
    match word(format, "type").as_str() {
        "json_schema" => schema.cloned(),
        "json_object" => Some(json!({"type": "object"})),
        _ => None,
    }
}

fn whole(document: Value) -> Answer {
    Answer::Whole(200, document)
}

fn stream(events: &[Value]) -> Answer {
    Answer::Stream(events.iter().map(Event::typed).collect())
}
