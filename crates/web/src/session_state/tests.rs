//! Tests of sessions, with a client whose agent is scripted.

use std::time::{Duration, Instant};

use aifo_acp::{Client, Config, Event};
use serde_json::json;

use super::*;
use crate::page_state::PageChanges;

/// A session with a client and a clock.
struct Pair {
    state: SessionState,
    client: Client,
    seq: Seq,
    now: Instant,
    images: Vec<usize>,
    ops: Vec<Op>,
}

impl Pair {
    fn new(streaming: Streaming) -> Self {
        let now = Instant::now();
        let mut client = Client::new(Config { streaming, ..Config::default() }, now);
        client.initialize("test", "1", now).unwrap();
        client.receive(b"{\"id\":1,\"result\":{}}\n", now);
        while client.poll_event().is_some() {}
        client.new_session(json!({}), now).unwrap();
        client.receive(b"{\"id\":2,\"result\":{\"sessionId\":\"s\"}}\n", now);
        while client.poll_event().is_some() {}
        client.prompt("s", json!([]), now).unwrap();
        let facts = SessionFacts { id: "x".to_owned(), ..SessionFacts::default() };
        let mut state = SessionState::new(facts, 1 << 20, 0);
        state.add_prompt("do it\nnow".to_owned(), Vec::new(), "key".to_owned(), 10);
        state.begin_turn(streaming, 10);
        Pair { state, client, seq: 0, now, images: Vec::new(), ops: Vec::new() }
    }

    fn send(&mut self, message: Value) {
        self.client.receive(format!("{message}\n").as_bytes(), self.now);
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            let images = &mut self.images;
            let mut store = |image: Image| {
                images.push(image.bytes.len());
                Some(format!("{:064}", image.bytes.len()))
            };
            match event {
                Event::Update { update, scope, change } => {
                    self.state.update(
                        &update,
                        scope,
                        change.as_ref().map(|change| change.id.as_str()),
                    );
                }
                Event::TurnEnded(end) => {
                    let tools = self.client.session("s").map(|session| session.tools());
                    self.state.end_turn(&end, tools, 20, &mut store);
                }
                _ => {}
            }
        }
    }

    fn update(&mut self, body: Value) {
        self.send(
            json!({"method": "session/update", "params": {"sessionId": "s", "update": body}}),
        );
    }

    fn say(&mut self, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    }

    fn flush(&mut self) {
        let images = &mut self.images;
        let mut store = |image: Image| {
            images.push(image.bytes.len());
            Some(format!("{:064}", image.bytes.len()))
        };
        let tools = self.client.session("s").map(|session| session.tools());
        self.state.flush(&mut self.seq, tools, &mut store);
        self.ops.extend(self.state.take_ops());
    }

    fn end(&mut self) {
        self.send(
            json!({"id": 3, "result": {"stopReason": "end_turn", "usage": {"totalTokens": 70}}}),
        );
        self.now += Duration::from_secs(3);
        self.client.handle_timeout(self.now);
        self.take_events();
        self.flush();
    }
}

/// The HTML of the keys of a region, in order.
fn region(state: &SessionState, name: &str) -> Vec<(String, String)> {
    let PageChanges::Snapshot(changes) = state.page().changes(None, Seq::MAX) else { panic!() };
    let mut found: Vec<(Vec<u64>, String, String)> = changes
        .into_iter()
        .filter_map(|change| {
            let numbers = change.key.strip_prefix(name)?.strip_prefix('.')?;
            let numbers = numbers.split('.').map(|number| number.parse().unwrap()).collect();
            let html = serde_json::from_str(&change.html?).unwrap();
            Some((numbers, change.key.to_string(), html))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, key, html)| (key, html)).collect()
}

fn html(state: &SessionState) -> String {
    region(state, "log").into_iter().map(|(_, html)| html).collect()
}

#[test]
fn a_turn_becomes_entries_in_order() {
    let mut pair = Pair::new(Streaming::Delta);
    pair.say("one ");
    pair.flush();
    pair.say("two");
    pair.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T",
        "kind": "execute", "status": "in_progress", "rawInput": {"command": "ls"}}));
    pair.flush();
    let is_open = |pair: &Pair| html(&pair.state).contains("class=\"tool open\"");
    assert!(is_open(&pair));
    pair.update(json!({"sessionUpdate": "agent_thought_chunk", "content": "hm"}));
    pair.say("three");
    pair.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}),
    );
    pair.flush();
    assert!(!is_open(&pair));
    pair.update(
        json!({"sessionUpdate": "plan", "entries": [{"content": "a", "status": "completed"}]}),
    );
    pair.update(json!({"sessionUpdate": "usage_update", "used": 10, "size": 40}));
    pair.end();
    let all = html(&pair.state);
    let places: Vec<_> =
        ["do it", "one two", "<code class=\"title\">ls", "hm", "three", "end turn", "70 tokens"]
            .iter()
            .map(|word| all.find(word).unwrap_or_else(|| panic!("no {word} in {all}")))
            .collect();
    assert!(places.is_sorted(), "{places:?} in {all}");
    assert!(region(&pair.state, "plan")[0].1.contains("1 of 1"));
    assert!(region(&pair.state, "usage")[0].1.contains("(25%)"));
    assert_eq!(pair.state.facts().title, "do it");
    assert_eq!(pair.state.activity(), Activity::Idle);
}

/// Streams a text in chunks of this size with a flush after every `flushes` chunks. The page must
/// equal that of the text as a whole.
fn check_stream(text: &str, chunk: usize, flushes: usize) {
    let mut whole = Pair::new(Streaming::Delta);
    whole.say(text);
    whole.end();
    let mut pair = Pair::new(Streaming::Delta);
    let chars: Vec<char> = text.chars().collect();
    for (number, piece) in chars.chunks(chunk).enumerate() {
        pair.say(&piece.iter().collect::<String>());
        if number % flushes == 0 {
            pair.flush();
        }
    }
    pair.end();
    assert_eq!(html(&pair.state), html(&whole.state));
    let restored = restore(&pair.ops);
    assert_eq!(html(&restored), html(&whole.state), "from the journal");
}

fn restore(ops: &[Op]) -> SessionState {
    let mut state = SessionState::restore(ops.iter().cloned(), 1 << 20, 0, 99);
    state.flush(&mut 0, None, &mut |_| None);
    state
}

#[test]
fn large_tables_and_code_in_single_characters() {
    let mut text = "See [a] and:\n\n| a | b |\n|---|---|\n".to_owned();
    (0..30).for_each(|row| text.push_str(&format!("| {row} | `x` |\n")));
    text.push_str("\n```rust\nfn main() {\n\n    let x = \"| a |\"; // é\n}\n```\n\nend\n\n[a]: https://example.org\n");
    check_stream(&text, 1, 1);
    check_stream(&text, 1, 7);
    check_stream(&text, 13, 3);
}

#[test]
fn an_image_in_chunks_is_stored_once_and_markup_is_whole() {
    let uri = format!("data:image/png;base64,{}", "QUFB".repeat(300));
    let text = format!("before ![a]({uri}) after\n\n`{uri}`\n\n{uri}\n");
    for chunk in [1, 7, 64, 5000] {
        let mut pair = Pair::new(Streaming::Delta);
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(chunk) {
            pair.say(&piece.iter().collect::<String>());
            if chunk > 1 {
                pair.flush();
            }
        }
        pair.end();
        let html = html(&pair.state);
        let name = format!("/media/{:064}", 900);
        assert!(html.contains(&format!("before <img src=\"{name}\" alt=\"a\"")), "{html}");
        assert_eq!(html.matches("data:image").count(), 1, "code is not rewritten: {html}");
        assert!(!pair.images.is_empty());
    }
}

#[test]
fn snapshots_replace_the_text() {
    let mut pair = Pair::new(Streaming::Snapshot);
    for text in ["H", "He", "# Hel", "# Hello\n\nWorld"] {
        pair.say(text);
        pair.flush();
    }
    pair.end();
    let html = html(&pair.state);
    assert!(html.contains("<h1>Hello</h1>") && html.contains("<p>World</p>"), "{html}");
    assert!(!html.contains("<p>He</p>"), "{html}");
}

#[test]
fn a_stopped_server_leaves_nothing_open() {
    let mut pair = Pair::new(Streaming::Delta);
    pair.say("half");
    pair.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "status": "in_progress"}));
    pair.flush();
    let question = QuestionBlock {
        id: "q".to_owned(),
        title: "rm".to_owned(),
        kind: "execute".to_owned(),
        command: None,
        paths: Vec::new(),
        directory: "/w".to_owned(),
        reason: String::new(),
        options: vec![("a".to_owned(), "allow_once".to_owned(), "Yes".to_owned())],
        state: QuestionEnd::Pending,
        time: 0,
    };
    pair.state.add_question(question, None, &mut |_| None);
    pair.flush();
    assert_eq!(region(&pair.state, "asks").len(), 1);
    assert_eq!(pair.state.pending_questions(), 1);
    let restored = restore(&pair.ops);
    let all = html(&restored);
    for words in ["half", "abandoned", "cancelled: aifo-coder web was stopped", "interrupted"] {
        assert!(all.contains(words), "no {words} in {all}");
    }
    assert_eq!(region(&restored, "asks"), []);
    assert_eq!(restored.pending_questions(), 0);
    assert!(restored.has_request("key") && !restored.has_request("other"));
}

#[test]
fn a_history_is_bounded() {
    let facts = SessionFacts::default();
    let mut state = SessionState::new(facts, 20_000, 0);
    let mut seq = 0;
    for number in 0..200 {
        state.add_notice(format!("{number} {}", "x".repeat(500)), false, 0);
        state.flush(&mut seq, None, &mut |_| None);
    }
    let all = html(&state);
    assert!(state.weight <= 21_000 && all.len() < 30_000, "{} {}", state.weight, all.len());
    assert!(all.contains("earlier entries were removed") && all.contains(">199 x"));
    let ops = state.snapshot_ops();
    assert!(html(&restore(&ops)).contains(">199 x"));
}

#[test]
fn a_logged_call_belongs_to_the_only_open_tool_call() {
    let mut pair = Pair::new(Streaming::Delta);
    let open =
        |id: &str| json!({"sessionUpdate": "tool_call", "toolCallId": id, "status": "in_progress"});
    pair.update(open("t"));
    pair.flush();
    let now = crate::clock::unix_ms();
    assert_eq!(pair.state.only_call_at(now).as_deref(), Some("t"));
    assert_eq!(pair.state.only_call_at(now - 500).as_deref(), Some("t"), "reported late");
    assert_eq!(pair.state.only_call_at(now - 60_000), None, "before it");
    let run = crate::block::ToolRun {
        command: "cargo test".to_owned(),
        kind: "rust".to_owned(),
        ending: "exit 0".to_owned(),
        has_failed: false,
        millis: Some(1200),
    };
    pair.state.add_run("t", run);
    pair.flush();
    let all = html(&pair.state);
    assert!(all.contains("<code>cargo test</code>") && all.contains("1.2 s"), "{all}");
    pair.update(open("u"));
    pair.flush();
    assert_eq!(pair.state.only_call_at(now), None, "one of two");
}

#[test]
fn usage_is_short() {
    let rows = [
        (json!({"used": 53_000, "size": 200_000}), "context 53k of 200k (26%)"),
        (json!({"inputTokens": 1, "outputTokens": 1234}), "1 token in, 1.2k tokens out"),
        (json!({"cost": {"amount": 0.42, "currency": "EUR"}}), "0.42 EUR"),
        (json!({"cost": {"amount": 0.1234}}), "0.1234 USD"),
        (json!({"cost": {"amount": 3}}), "3.00 USD"),
    ];
    for (usage, expected) in rows {
        assert_eq!(usage_text(&usage), expected);
    }
}
