//! Tests of a relay between a scripted editor and a scripted agent.

mod capabilities;
mod commands;
mod editor_requests;
mod ending;
mod passing;
mod permissions;
mod questions;
mod turns;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::event::{RequestEvent, Withdrawal};
use crate::message_reader::NonJsonOutput;
use crate::turn_end::StopReason;

/// A relay with its output, its events, and a clock that only tests advance.
struct Story {
    relay: Relay,
    now: Instant,
    editor: Vec<Value>,
    agent: Vec<Value>,
    events: Vec<RelayEvent>,
}

impl Story {
    /// A relay where the agent may send the requests of these tests.
    fn new(mut config: RelayConfig) -> Self {
        config.allowed_requests.extend(["m", "_vendor/*"].map(str::to_owned));
        Story::of(config)
    }

    fn of(config: RelayConfig) -> Self {
        let now = Instant::now();
        let relay = Relay::new(config, now);
        Story { relay, now, editor: Vec::new(), agent: Vec::new(), events: Vec::new() }
    }

    fn start() -> Self {
        Story::new(RelayConfig::default())
    }

    /// Session `s` has a turn: the editor request `p`, sent as 1.
    fn prompted() -> Self {
        let mut story = Story::start();
        story.prompt("p");
        assert_eq!(story.agent()[0]["id"], 1);
        story
    }

    fn line(&mut self, from: Side, line: &str) {
        self.relay.receive(from, format!("{line}\n").as_bytes(), self.now);
        self.collect();
    }

    fn editor_sends(&mut self, message: Value) {
        self.line(Side::Editor, &message.to_string());
    }

    fn agent_sends(&mut self, message: Value) {
        self.line(Side::Agent, &message.to_string());
    }

    fn prompt(&mut self, id: &str) {
        self.editor_sends(prompt_of("s", id));
    }

    fn cancel(&mut self) {
        self.editor_sends(
            json!({"method": "session/cancel", "params": {"sessionId": "s", "_meta": 1}}),
        );
    }

    /// Answers the prompt with this id.
    fn stop(&mut self, id: u64, reason: &str) {
        self.agent_sends(json!({"id": id, "result": {"stopReason": reason}}));
    }

    fn update(&mut self, body: Value) {
        self.agent_sends(
            json!({"method": "session/update", "params": {"sessionId": "s", "update": body}}),
        );
    }

    fn ask_permission(&mut self, id: u64) {
        self.agent_sends(permission(id));
    }

    fn eof(&mut self, from: Side) {
        self.relay.receive_eof(from, self.now);
        self.collect();
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.relay.handle_timeout(self.now);
        self.collect();
    }

    fn collect(&mut self) {
        loop {
            self.events.extend(std::iter::from_fn(|| self.relay.poll_event()));
            self.take_lines();
            // Taking lines may produce more events.
            let Some(more) = self.relay.poll_event() else { return };
            self.events.push(more);
        }
    }

    fn take_lines(&mut self) {
        for (side, lines) in [(Side::Editor, &mut self.editor), (Side::Agent, &mut self.agent)] {
            while let Some(line) = self.relay.poll_transmit(side) {
                assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
                let message: Value = serde_json::from_slice(&line).unwrap();
                assert_eq!(message["jsonrpc"], "2.0");
                lines.push(message);
            }
        }
    }

    /// Takes the messages to the editor.
    fn editor(&mut self) -> Vec<Value> {
        self.take_lines();
        std::mem::take(&mut self.editor)
    }

    /// Takes the messages to the agent.
    fn agent(&mut self) -> Vec<Value> {
        self.take_lines();
        std::mem::take(&mut self.agent)
    }

    /// Takes the events.
    fn events(&mut self) -> Vec<RelayEvent> {
        std::mem::take(&mut self.events)
    }

    fn turns(&mut self) -> Vec<RelayedTurn> {
        let events = self.events().into_iter();
        let turns = events.filter_map(|event| match event {
            RelayEvent::TurnEnded(turn) => Some(*turn),
            _ => None,
        });
        turns.collect()
    }
}

fn prompt_of(session: &str, id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": id}]}})
}

fn permission(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
        "sessionId": "s", "toolCall": {"toolCallId": "t"}, "_meta": {"x": 1},
        "options": [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]}})
}

fn ok(id: impl Into<Value>, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

fn error(id: impl Into<Value>, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": code, "message": message}})
}

fn cancelled(id: impl Into<Value>) -> Value {
    ok(id, json!({"outcome": {"outcome": "cancelled"}}))
}

fn selected(id: impl Into<Value>, option: &str) -> Value {
    ok(id, json!({"outcome": {"outcome": "selected", "optionId": option}}))
}

fn stopped(id: impl Into<Value>, reason: &str) -> Value {
    ok(id, json!({"stopReason": reason}))
}

fn id(value: impl Into<Value>) -> Id {
    Id::parse(value.into()).unwrap()
}
