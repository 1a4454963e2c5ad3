//! Tests of a client with a scripted agent.

mod cancelling;
mod opening;
mod permissions;
mod turns;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::event::{RequestEvent, Withdrawal};
use crate::failure::Failure;
use crate::message_reader::NonJsonOutput;
use crate::turn_end::{StopReason, TurnEnd};

/// A client with its output, its events, and a clock that only tests advance.
struct Story {
    client: Client,
    now: Instant,
    written: Vec<Value>,
    events: Vec<Event>,
}

impl Story {
    /// A client at the start of a connection.
    fn start(config: Config) -> Self {
        let now = Instant::now();
        let client = Client::new(config, now);
        Story { client, now, written: Vec::new(), events: Vec::new() }
    }

    /// A client after `initialize`, with all output taken.
    fn ready(config: Config) -> Self {
        let mut story = Story::start(config);
        let id = story.client.initialize("test", "1", story.now).unwrap();
        story.reply(id, &json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}));
        story.forget()
    }

    /// Session `s` is open.
    fn open(config: Config) -> Self {
        let mut story = Story::ready(config);
        story.open_session("s");
        story.forget()
    }

    fn open_session(&mut self, id: &str) {
        let request = self.client.new_session(json!({"cwd": "/w"}), self.now).unwrap();
        self.reply(request, &json!({"sessionId": id}));
    }

    fn forget(mut self) -> Self {
        self.take_written();
        self.events.clear();
        self
    }

    /// Prompts session `s` and returns the request id.
    fn prompt(&mut self) -> u64 {
        self.client.prompt("s", json!([]), self.now).unwrap();
        self.collect();
        self.written.last().unwrap()["id"].as_u64().unwrap()
    }

    fn receive(&mut self, message: &Value) {
        self.receive_line(&message.to_string());
    }

    fn receive_line(&mut self, line: &str) {
        self.client.receive(format!("{line}\n").as_bytes(), self.now);
        self.collect();
    }

    fn reply(&mut self, id: u64, result: &Value) {
        self.receive(&json!({"id": id, "result": result}));
    }

    fn stop(&mut self, id: u64, reason: &str) {
        self.reply(id, &json!({"stopReason": reason}));
    }

    fn update(&mut self, body: Value) {
        self.receive(&update_of("s", body));
    }

    fn agent_text(&mut self, text: &str) {
        self.update(chunk("agent_message_chunk", text));
    }

    fn ask_permission(&mut self, id: u64) {
        let options = json!([
            {"optionId": "yes", "kind": "allow_once", "name": "Yes"},
            {"optionId": "no", "kind": "reject_once", "name": "No"},
        ]);
        let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options});
        self.receive(&json!({"id": id, "method": "session/request_permission", "params": params}));
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.client.handle_timeout(self.now);
        self.collect();
    }

    fn eof(&mut self) {
        self.client.receive_eof(self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
        while let Some(line) = self.client.poll_transmit() {
            assert_eq!(line.last(), Some(&b'\n'));
            self.written.push(serde_json::from_slice(&line).unwrap());
        }
    }

    fn take_written(&mut self) -> Vec<Value> {
        self.collect();
        std::mem::take(&mut self.written)
    }

    /// Returns the ended turns.
    fn ends(&self) -> Vec<&TurnEnd> {
        let mut ends = Vec::new();
        for event in &self.events {
            if let Event::TurnEnded(end) = event {
                ends.push(&**end);
            }
        }
        ends
    }

    /// Returns the scopes of the updates.
    fn scopes(&self) -> Vec<crate::update::UpdateScope> {
        let scope = |event: &Event| match event {
            Event::Update { scope, .. } => Some(*scope),
            _ => None,
        };
        self.events.iter().filter_map(scope).collect()
    }

    /// Returns the written methods and results in order.
    fn sent(&mut self) -> Vec<String> {
        let summary = |message: &Value| match &message["method"] {
            Value::String(method) => method.clone(),
            _ => match &message["result"]["outcome"] {
                Value::Object(outcome) => format!("{} {}", message["id"], outcome["outcome"]),
                _ => format!("{} {}", message["id"], message["error"]["code"]),
            },
        };
        self.take_written().iter().map(summary).collect()
    }
}

fn update_of(session: &str, body: Value) -> Value {
    json!({"method": "session/update", "params": {"sessionId": session, "update": body}})
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

fn tool(kind: &str, id: &str, status: &str) -> Value {
    json!({"sessionUpdate": kind, "toolCallId": id, "status": status})
}

fn serving_all() -> Config {
    let capabilities =
        ClientCapabilities { read_text_file: true, write_text_file: true, terminal: true };
    Config { capabilities, ..Config::default() }
}

const SECOND: Duration = Duration::from_secs(1);
