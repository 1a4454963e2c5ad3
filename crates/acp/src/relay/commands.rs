//! Commands of the caller beside the agent's own (`spec/acp-relay.md#own-commands`).

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::event::RelayEvent;
use super::requests::IncomingRequest;
use super::{Relay, Side};
use crate::message::Id;

/// A command that the caller serves. The agent never gets its prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCommand {
    /// Its name without the slash.
    pub name: String,
    /// Its description.
    pub description: String,
    /// A hint at the words after the name.
    pub hint: String,
}

impl OwnCommand {
    fn to_value(&self) -> Value {
        json!({"name": self.name, "description": self.description, "input": {"hint": self.hint}})
    }
}

impl Relay {
    /// Adds the own commands to a list of the agent.
    pub(super) fn add_commands(&mut self, update: &mut Value) {
        let is_list = update.get("sessionUpdate").and_then(Value::as_str) == Some(LIST);
        if let Some(list) = update.get_mut("availableCommands").and_then(Value::as_array_mut)
            && is_list
        {
            self.has_listed = true;
            list.extend(self.config.commands.iter().map(OwnCommand::to_value));
        }
    }

    /// Tells the editor of the own commands if the agent has no list. It follows a session's opening.
    pub(super) fn list_commands(&mut self, session: &str) {
        if self.has_listed || self.config.commands.is_empty() {
            return;
        }
        let list: Vec<Value> = self.config.commands.iter().map(OwnCommand::to_value).collect();
        let update = json!({"sessionUpdate": LIST, "availableCommands": list});
        self.update_editor(session, update);
    }

    /// Takes a prompt of an own command. Returns false for any other prompt.
    pub(super) fn take_command(&mut self, session: &str, id: &Id, params: &Value) -> bool {
        let text = params.get("prompt").and_then(|prompt| prompt.get(0)?.get("text")?.as_str());
        let Some(line) = text.and_then(|text| text.trim().strip_prefix('/')) else { return false };
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if !self.config.commands.iter().any(|command| command.name == name) {
            return false;
        }
        self.editor.received.push(id.clone(), IncomingRequest::Command);
        let words = rest.split_whitespace().map(str::to_owned).collect();
        let (session, name) = (session.to_owned(), name.to_owned());
        self.events.push_back(RelayEvent::Command { id: id.clone(), session, name, words });
        true
    }

    /// Answers a prompt of an own command with a text. Does nothing if the prompt is not pending.
    pub fn answer_command(&mut self, id: &Id, session: &str, text: &str, now: Instant) {
        self.now = now;
        if matches!(self.editor.received.get(id), Some(IncomingRequest::Command)) {
            let content = json!({"type": "text", "text": text});
            self.update_editor(
                session,
                json!({"sessionUpdate": "agent_message_chunk", "content": content}),
            );
            self.answer(Side::Editor, id, Ok(json!({"stopReason": "end_turn"})), Map::new());
        }
    }

    fn update_editor(&mut self, session: &str, update: Value) {
        let params = json!({"sessionId": session, "update": update});
        self.notify(Side::Editor, "session/update".to_owned(), params, Map::new());
    }
}

const LIST: &str = "available_commands_update";
