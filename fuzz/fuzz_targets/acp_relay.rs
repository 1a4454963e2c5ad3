//! A relay and arbitrary bytes from its editor and its agent.

#![no_main]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aifo_acp::{
    Decision, Envelope, Id, Inbound, Limits, Message, MessageReader, PathMap, Relay, RelayConfig,
    RelayEvent, MethodServer, Side, Withdrawal,
};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

// Lines with `>` are the editor's. The input's bytes also select the owner's actions.
fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let mut now = Instant::now();
    let mut relay = Relay::new(config(), now);
    let mut ledger = Ledger::default();
    for (index, line) in input.wire.split(|byte| *byte == b'\n').enumerate() {
        let (from, line) = match line.strip_prefix(b">") {
            Some(line) => (Side::Editor, line),
            None => (Side::Agent, line),
        };
        for message in messages(line) {
            // One by one, because ids may be reused after the response.
            ledger.said(from, &message, &relay);
            relay.receive(from, &message, now);
            relay.receive(from, b"\n", now);
            ledger.collect(&mut relay);
        }
        let action = data.get(index % data.len().max(1)).copied().unwrap_or_default();
        ledger.act(&mut relay, action, now);
        now += Duration::from_secs(u64::from(action / 64));
        relay.handle_timeout(now);
        ledger.collect(&mut relay);
        assert!(relay.poll_timeout().is_none_or(|time| time > now), "all that is due is done");
        for side in [Side::Editor, Side::Agent] {
            assert!(relay.unanswered(side) <= 4);
            assert_eq!(relay.unanswered(side), ledger.waiting[index_of(side)].len());
        }
    }
    let order =
        if data.len() % 2 == 0 { [Side::Editor, Side::Agent] } else { [Side::Agent, Side::Editor] };
    for side in order {
        relay.receive_eof(side, now);
        ledger.collect(&mut relay);
        if side == Side::Editor {
            while !ledger.permissions.is_empty() || !ledger.hosts.is_empty() {
                ledger.act(&mut relay, 0, now);
                ledger.act(&mut relay, 2, now);
            }
        }
        assert!(ledger.waiting[index_of(side.other())].is_empty(), "each has one answer");
    }
    assert!(ledger.is_closed && ledger.is_released);
    assert_eq!(relay.poll_timeout(), None);
});

fn config() -> RelayConfig {
    let limits = Limits {
        frame: 400,
        frame_out: 500,
        values: 40,
        requests: 4,
        turn_kinds: 3,
        tool_calls: 4,
        tool_bytes: 8192,
        ..Limits::default()
    };
    RelayConfig {
        limits,
        files: MethodServer::Host,
        terminal: MethodServer::Editor,
        map: PathMap::default().map_directory("/h", "/i").map_alias("/workspace", "/h"),
        roots: vec!["/h".to_owned()],
        sessions: 2,
        queued_prompts: 2,
        queued_bytes: 2048,
        ..RelayConfig::default()
    }
}

/// Returns the messages of a line, which may be a batch.
fn messages(line: &[u8]) -> Vec<Vec<u8>> {
    match serde_json::from_slice(line) {
        Ok(serde_json::Value::Array(batch)) => {
            batch.iter().map(|value| value.to_string().into_bytes()).collect()
        }
        _ => vec![line.to_vec()],
    }
}

/// Returns an id after writing and reading it.
fn written(id: &Id) -> Id {
    let text = id.to_value().to_string();
    match serde_json::from_str(&text).expect("we write JSON") {
        serde_json::Value::Number(number) => Id::Number(number),
        serde_json::Value::String(text) => Id::Text(text),
        other => panic!("{other} is no id"),
    }
}

fn index_of(side: Side) -> usize {
    match side {
        Side::Editor => 0,
        Side::Agent => 1,
    }
}

/// Open requests and prompts.
#[derive(Default)]
struct Ledger {
    /// The editor's and the agent's requests without a response: their ids as read, and as read after
    /// writing, which differ slightly for some numbers.
    waiting: [Vec<(Id, Id)>; 2],
    permissions: Vec<Id>,
    hosts: Vec<Id>,
    /// The agent's prompts and their sessions.
    prompts: HashMap<u64, String>,
    is_released: bool,
    is_closed: bool,
}

impl Ledger {
    /// Records a message's request or response, with an independent reader.
    fn said(&mut self, from: Side, message: &[u8], relay: &Relay) {
        let mut reader = MessageReader::new(&config().limits);
        reader.receive(message);
        reader.receive(b"\n");
        while let Some(inbound) = reader.next_message() {
            match inbound {
                Inbound::Message(Message::Request { id, .. })
                | Inbound::TooLong {
                    envelope: Envelope { id: Some(id), method: Some(_) }, ..
                } => {
                    let waiting = &mut self.waiting[index_of(from)];
                    if waiting.iter().all(|(waiting, _)| *waiting != id) {
                        assert_eq!(relay.unanswered(from), waiting.len());
                        let written = written(&id);
                        waiting.push((id, written));
                    }
                }
                Inbound::Message(Message::Response { id, .. })
                | Inbound::TooLong { envelope: Envelope { id: Some(id), method: None }, .. }
                    if from == Side::Agent =>
                {
                    id.as_u64().map(|id| self.prompts.remove(&id));
                }
                _ => {}
            }
        }
    }

    fn collect(&mut self, relay: &mut Relay) {
        while let Some(event) = relay.poll_event() {
            self.event(event);
            self.lines(relay);
        }
        self.lines(relay);
    }

    fn event(&mut self, event: RelayEvent) {
        assert!(!self.is_closed, "nothing comes after the last event");
        match event {
            RelayEvent::Permission { id, .. } => self.permissions.push(id),
            RelayEvent::Request { id, .. } => self.hosts.push(id),
            RelayEvent::Withdrawn { id, why } => {
                self.permissions.retain(|waiting| *waiting != id);
                if why == Withdrawal::Ended {
                    self.hosts.retain(|waiting| *waiting != id);
                }
            }
            RelayEvent::Ended { side: Side::Agent } => {
                assert!(self.permissions.is_empty() && self.hosts.is_empty());
                self.waiting[1].clear();
                self.prompts.clear();
            }
            RelayEvent::Released => {
                assert!(!std::mem::replace(&mut self.is_released, true), "told once");
            }
            RelayEvent::Closed => self.is_closed = true,
            _ => {}
        }
    }

    fn lines(&mut self, relay: &mut Relay) {
        for side in [Side::Editor, Side::Agent] {
            while let Some(line) = relay.poll_transmit(side) {
                assert!(line.len() <= 501);
                let message = serde_json::from_slice(&line).expect("we write JSON");
                match Message::of(message) {
                    Message::Request { id, method, params } => {
                        let id = id.as_u64().expect("it is ours");
                        if side == Side::Agent
                            && method == "session/prompt"
                            && let Some(session) =
                                params.get("sessionId").and_then(|id| id.as_str())
                        {
                            let mut running = self.prompts.values();
                            assert!(running.all(|of| of != session), "one at a time");
                            self.prompts.insert(id, session.to_owned());
                        }
                    }
                    Message::Response { id, .. } => {
                        let waiting = &mut self.waiting[index_of(side)];
                        let at = waiting.iter().position(|(_, waiting)| *waiting == id);
                        waiting.remove(at.expect("somebody waits for it"));
                    }
                    Message::Notification { .. } => {}
                    Message::Invalid(why) => panic!("we wrote {why}"),
                }
            }
        }
    }

    fn act(&mut self, relay: &mut Relay, action: u8, now: Instant) {
        let is_taken = match action % 4 {
            0 if !self.permissions.is_empty() => {
                relay.decide(&self.permissions.remove(0), &Decision::Cancelled, now)
            }
            1 if !self.permissions.is_empty() => relay.ask_editor(&self.permissions.remove(0), now),
            2 if !self.hosts.is_empty() => {
                relay.respond(&self.hosts.remove(0), Ok(serde_json::json!({})), now)
            }
            _ => true,
        };
        assert!(is_taken, "what waits can be answered");
        self.collect(relay);
    }
}
