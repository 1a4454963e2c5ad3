//! Responses to requests: by the script, or to side requests.

use serde_json::{Value, json};

use super::dialect::{Dialect, Prompt, Reply};
use super::http::{Answer, Request};
use super::script::{Next, Turn};
use super::tools::{Call, Tool, suggestion};
use super::{Script, ToolResult, schema};

/// The model's name, for agents that accept one.
pub(super) const MODEL: &str = "aifo-model";

/// The model's name for agents without tools, which take commands from the text.
pub(super) const TEXT_MODEL: &str = "aifo-text-model";

/// A response and its effect on the log.
pub(super) struct Answered {
    pub(super) answer: Answer,
    /// A summary of the model's reply.
    pub(super) replied: Option<String>,
    pub(super) results: Vec<ToolResult>,
    /// The turn of this response.
    pub(super) turn: Option<usize>,
}

impl Answered {
    fn aside(status: u16, document: Value) -> Self {
        let answer = Answer::Whole(status, document);
        Answered { answer, replied: None, results: Vec::new(), turn: None }
    }
}

/// Answers a request.
pub(super) fn answer(request: &Request, body: &Value, script: &Script) -> Answered {
    let path = request.path();
    match (request.method.as_str(), Dialect::of(path)) {
        ("POST", Some(dialect)) => reply(dialect, dialect.read(path, body), script),
        ("POST", None) if path.ends_with("/count_tokens") => {
            Answered::aside(200, json!({"input_tokens": 1}))
        }
        ("POST", None) if path.ends_with(":countTokens") => {
            Answered::aside(200, json!({"totalTokens": 1}))
        }
        ("GET", None) if path.ends_with("/models") => {
            let models = [MODEL, TEXT_MODEL].map(model);
            Answered::aside(200, json!({"object": "list", "data": models}))
        }
        _ => {
            let message = format!("no model answers {} {path}", request.method);
            let error = json!({"message": message, "type": "not_found_error"});
            Answered::aside(404, json!({"type": "error", "error": error}))
        }
    }
}

fn reply(dialect: Dialect, prompt: Prompt, script: &Script) -> Answered {
    let shell = Tool::shell(&prompt.tools);
    let mut results = Vec::new();
    let mut turn = None;
    let reply = if let Some(wanted) = &prompt.schema {
        // Side requests of agents: which model to use, who speaks next, ...
        Reply::Text(schema::smallest(wanted).to_string())
    } else if shell.is_none() && !prompt.model.ends_with(TEXT_MODEL) {
        // ... and what the conversation is about.
        Reply::Text("A small task".to_owned())
    } else {
        let position = script.position(&prompt.conversation);
        results = position.results;
        match position.next {
            Next::Turn(number, next) => {
                turn = Some(number);
                match (next, shell) {
                    (Turn::Say(text), _) => Reply::Text(text.clone()),
                    (Turn::Shell(command), Some(tool)) => {
                        Reply::Call(tool.run(format!("call_{number}"), command))
                    }
                    (Turn::Call(tool, arguments), _) => Reply::Call(Call {
                        id: format!("call_{number}"),
                        tool: tool.clone(),
                        arguments: arguments.clone(),
                    }),
                    (Turn::Shell(command), None) => Reply::Text(suggestion(command)),
                }
            }
            Next::Wait { turn, session, polls } => {
                Reply::Call(Call::wait(format!("call_{turn}_{polls}"), session))
            }
            Next::Over => Reply::Text(script.last_words().to_owned()),
        }
    };
    let replied = match &reply {
        Reply::Text(text) => text.clone(),
        Reply::Call(call) => format!("{} {}", call.tool, call.arguments),
    };
    let answer = dialect.write(&prompt, &reply);
    Answered { answer, replied: Some(replied), results, turn }
}

fn model(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": "aifo"})
}
