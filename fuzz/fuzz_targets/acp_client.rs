//! An ACP client and arbitrary bytes from its agent.

#![no_main]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aifo_acp::{
    CancelCause, Client, Config, Decision, Event, Id, Limits, Message, ClientCapabilities, ConnectionState, Streaming,
    Withdrawal, classify,
};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

// The piece lengths also select the client's actions.
fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let mut now = Instant::now();
    let mut client = Client::new(config(data.len()), now);
    let mut ledger = Ledger::default();
    client.initialize("fuzz", "1", now).expect("it is the first");
    for (index, line) in input.wire.split_inclusive(|byte| *byte == b'\n').enumerate() {
        client.receive(line, now);
        ledger.collect(&mut client);
        let action = data.get(index % data.len().max(1)).copied().unwrap_or_default();
        match action % 6 {
            0 => _ = client.new_session(json!({}), now),
            1 => _ = client.load_session("s", json!({}), now),
            2 | 3 => _ = client.prompt("s", json!([]), now),
            4 => _ = client.cancel("s", CancelCause::Requested, now),
            _ => ledger.answer_one(&mut client, now),
        }
        now += Duration::from_secs(u64::from(action / 6));
        client.handle_timeout(now);
        ledger.collect(&mut client);
        assert!(client.poll_timeout().is_none_or(|time| time > now), "all that is due is done");
        assert!(client.unanswered() <= 4);
        if let Some(session) = client.session("s") {
            assert!(session.tools().len() <= 4 && session.tools().held() <= 8192);
            assert!(session.draft().len() <= 2048);
        }
    }
    client.receive_eof(now);
    ledger.collect(&mut client);
    assert_eq!((client.state(), client.unanswered()), (&ConnectionState::Closed, 0));
    assert_eq!(client.poll_timeout(), None);
    assert_eq!((ledger.waiting.len(), ledger.prompts), (0, 0), "each has one end");
    assert!(ledger.requests.values().all(|left| *left == 0), "{:?}", ledger.requests);
});

fn config(seed: usize) -> Config {
    let limits = Limits {
        frame: 400,
        values: 40,
        requests: 4,
        early_updates: 4,
        early_bytes: 4096,
        turn_updates: 20,
        turn_bytes: 2048,
        turn_kinds: 3,
        tool_calls: 4,
        tool_bytes: 8192,
        prompt_total: (seed % 2 == 0).then_some(Duration::from_secs(300)),
        ..Limits::default()
    };
    let streaming = [Streaming::Delta, Streaming::Snapshot, Streaming::Auto][seed % 3];
    let capabilities = ClientCapabilities { read_text_file: true, ..ClientCapabilities::default() };
    Config { limits, streaming, capabilities, ..Config::default() }
}

/// Open requests and prompts.
#[derive(Default)]
struct Ledger {
    /// The agent's requests without a response.
    waiting: Vec<Id>,
    /// The client's requests: the number sent less the number ended.
    requests: HashMap<u64, i64>,
    prompts: i64,
}

impl Ledger {
    /// Takes events one by one, each with its lines, because ids may be reused.
    fn collect(&mut self, client: &mut Client) {
        self.lines(client);
        while let Some(event) = client.poll_event() {
            self.event(event);
            self.lines(client);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Permission { id, .. } | Event::Request { id, .. } => self.waiting.push(id),
            Event::Withdrawn { id, why: Withdrawal::Ended } => {
                self.waiting.retain(|waiting| *waiting != id);
            }
            Event::Opened { request, .. }
            | Event::Answered { request, .. }
            | Event::Failed { request, .. } => *self.requests.entry(request).or_default() -= 1,
            Event::Ready(_) => *self.requests.entry(1).or_default() -= 1,
            Event::TurnEnded(end) => {
                self.prompts -= 1;
                assert!(end.answer.text.len() <= 2048 && end.counts.kinds.len() <= 4);
            }
            _ => {}
        }
    }

    fn lines(&mut self, client: &mut Client) {
        while let Some(line) = client.poll_transmit() {
            let message: Value = serde_json::from_slice(&line).expect("we write JSON");
            match classify(message).remove(0) {
                Message::Request { method, .. } if method == "session/prompt" => self.prompts += 1,
                Message::Request { id, .. } => {
                    let id = id.as_u64().expect("it is ours");
                    *self.requests.entry(id).or_default() += 1;
                }
                Message::Response { id, .. } => self.waiting.retain(|waiting| *waiting != id),
                Message::Notification { method, .. } => assert_eq!(method, "session/cancel"),
                Message::Invalid(why) => panic!("we wrote {why}"),
            }
        }
    }

    fn answer_one(&mut self, client: &mut Client, now: Instant) {
        if let Some(id) = self.waiting.first().cloned() {
            let is_answered = client.decide(&id, &Decision::Cancelled, now)
                || client.respond(&id, Ok(json!({})), now);
            assert!(is_answered, "what waits can be answered");
        }
    }
}
