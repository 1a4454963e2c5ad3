//! Properties for any traffic of an editor and an agent, split and interleaved in any way: nothing panics,
//! each request has one answer, a session has one prompt at a time, and memory is bounded.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aifo_acp::{
    Decision, Envelope, Id, Inbound, Limits, Message, MessageReader, MethodServer, PathMap, Relay,
    RelayConfig, RelayEvent, RequestEvent, Side, Withdrawal,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

proptest! {
    #[test]
    fn any_traffic_is_handled_and_splits_change_nothing(
        script in vec(step(), 0..60), lengths in vec(1..60usize, 1..4), ends in any::<Ends>(),
    ) {
        let whole = play(&script, &[usize::MAX], ends);
        prop_assert_eq!(play(&script, &lengths, ends), whole);
    }

    #[test]
    fn an_end_that_does_not_read_has_a_bounded_backlog(script in vec(step(), 0..200)) {
        let mut relay = Relay::new(config(), Instant::now());
        let now = Instant::now();
        for Step { from, line, .. } in script {
            if relay.should_read(from) {
                relay.receive(from, format!("{line}\n").as_bytes(), now);
            }
            while let Some(event) = relay.poll_event() {
                // The caller answers at once; the ends never read.
                match event {
                    RelayEvent::Request(RequestEvent::Permission { id, .. }) => _ = relay.ask_editor(&id, now),
                    RelayEvent::Request(RequestEvent::Host { id, .. }) => _ = relay.respond(&id, Ok(json!({})), now),
                    _ => {}
                }
            }
            for side in [Side::Editor, Side::Agent] {
                // The limit for reading, and the output of one message.
                prop_assert!(relay.backlog(side) <= 2 * 500 + 300 + 12 * 300);
            }
        }
    }
}

/// Limits so small that random messages reach them.
fn config() -> RelayConfig {
    let limits = Limits {
        frame: 260,
        frame_head: 60,
        frame_out: 300,
        values: 40,
        non_json_tail: 64,
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
        map: PathMap::default().map_directory("/h", "/i"),
        roots: vec!["/h".to_owned()],
        sessions: 2,
        queued_prompts: 2,
        queued_bytes: 4096,
        backlog: 500,
        ..RelayConfig::default()
    }
}

/// A step: one end sends a line, then the caller acts, then time passes.
#[derive(Clone, Debug)]
struct Step {
    from: Side,
    line: String,
    owner: Owner,
    seconds: u64,
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    Decides,
    AsksTheEditor,
    Responds,
    Waits,
}

/// The order in which the ends disconnect.
#[derive(Clone, Copy, Debug)]
enum Ends {
    EditorFirst,
    AgentFirst,
}

impl Arbitrary for Ends {
    type Parameters = ();
    type Strategy = proptest::sample::Select<Ends>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        select(vec![Ends::EditorFirst, Ends::AgentFirst])
    }
}

fn step() -> impl Strategy<Value = Step> {
    let said = prop_oneof![
        (Just(Side::Editor), editor_line()),
        (Just(Side::Agent), agent_line()),
        (select(vec![Side::Editor, Side::Agent]), odd_line()),
    ];
    let owner = select(vec![Owner::Decides, Owner::AsksTheEditor, Owner::Responds, Owner::Waits]);
    (said, owner, 0..4u64).prop_map(|((from, line), owner, seconds)| Step {
        from,
        line,
        owner,
        seconds,
    })
}

fn editor_line() -> impl Strategy<Value = String> {
    let session = || select(vec!["s", "s", "t", "u"]);
    prop_oneof![
        1 => id().prop_map(|id| json!({"id": id, "method": "initialize", "params": {"clientCapabilities": {"terminal": true}}})),
        1 => (id(), select(vec!["/h/a", "/elsewhere"])).prop_map(|(id, cwd)| json!({"id": id, "method": "session/new", "params": {"cwd": cwd}})),
        6 => (id(), session()).prop_map(|(id, session)| json!({"id": id, "method": "session/prompt", "params": {"sessionId": session, "prompt": []}})),
        3 => session().prop_map(|session| json!({"method": "session/cancel", "params": {"sessionId": session}})),
        1 => id().prop_map(|id| json!({"id": id, "method": "_vendor"})),
        4 => (1..8u64).prop_map(|id| json!({"id": id, "result": {"outcome": {"outcome": "cancelled"}}})),
        2 => id().prop_map(|id| json!({"method": "$/cancel_request", "params": {"requestId": id}})),
    ]
    .prop_map(|value| value.to_string())
}

fn agent_line() -> impl Strategy<Value = String> {
    let session = || select(vec!["s", "s", "t", "v"]);
    let update =
        (session(), select(vec!["tool_call", "tool_call_update", "plan", "a", "b"]), 0..8u8);
    prop_oneof![
        6 => (1..20u64).prop_map(|id| json!({"id": id, "result": {"stopReason": "end_turn"}})),
        1 => (1..20u64).prop_map(|id| json!({"id": id.to_string(), "error": {"code": -32002, "data": {"uri": "file:///i/a"}}})),
        3 => update.prop_map(|(session, kind, call)| json!({"method": "session/update", "params": {"sessionId": session,
            "update": {"sessionUpdate": kind, "toolCallId": call.to_string(), "content": {"type": "diff", "path": "/i/a"}}}})),
        4 => (id(), session()).prop_map(|(id, session)| json!({"id": id, "method": "session/request_permission",
            "params": {"sessionId": session, "toolCall": {"toolCallId": "1"}, "options": [{"optionId": "y"}]}})),
        2 => id().prop_map(|id| json!({"id": id, "method": "fs/read_text_file", "params": {"path": "/i/a"}})),
        2 => id().prop_map(|id| json!({"id": id, "method": "terminal/create"})),
        1 => id().prop_map(|id| json!({"id": id, "method": "fs/unheard_of"})),
        2 => id().prop_map(|id| json!({"method": "$/cancel_request", "params": {"requestId": id}})),
    ]
    .prop_map(|value| value.to_string())
}

fn odd_line() -> impl Strategy<Value = String> {
    let long = "x".repeat(300);
    let fitting = "x".repeat(180);
    prop_oneof![
        Just("Loading credentials...".to_owned()),
        Just("17".to_owned()),
        Just(
            r#"[{"id":"b","method":"_vendor"},{"id":1,"result":{}},17,{"id":"c","method":"x"}]"#
                .to_owned()
        ),
        (id(), Just(long)).prop_map(|(id, long)| {
            json!({"id": id, "method": "long", "params": [long]}).to_string()
        }),
        (id(), Just(fitting))
            .prop_map(|(id, text)| json!({"id": id, "method": "m", "params": [text, text.len()]})
                .to_string()),
        (1..9u64).prop_map(|id| json!({"id": id, "result": "x".repeat(300)}).to_string()),
        (0..9u64).prop_map(|id| format!("{{\"id\":{id},\"result\":[{}0]}}", "0,".repeat(60))),
        Just("\u{0}{\"id\":".to_owned()),
        Just(String::new()),
    ]
}

fn id() -> impl Strategy<Value = Value> {
    select(vec![json!(1), json!(2), json!(3), json!("1"), json!("a"), json!(2.5), json!("")])
}

/// Plays a script and returns everything written, with its receiver.
fn play(script: &[Step], lengths: &[usize], ends: Ends) -> Vec<(Side, String)> {
    let mut now = Instant::now();
    let mut relay = Relay::new(config(), now);
    let mut ledger = Ledger::default();
    for step in script {
        ledger.said(step.from, &step.line);
        let bytes = format!("{}\n", step.line).into_bytes();
        let mut rest = bytes.as_slice();
        for length in lengths.iter().cycle() {
            let (piece, after) = rest.split_at((*length).min(rest.len()));
            relay.receive(step.from, piece, now);
            ledger.collect(&mut relay);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        ledger.act(&mut relay, step.owner, now);
        now += Duration::from_secs(step.seconds);
        relay.handle_timeout(now);
        ledger.collect(&mut relay);
        assert!(relay.poll_timeout().is_none_or(|time| time > now), "no expired deadline is left");
        for side in [Side::Editor, Side::Agent] {
            assert!(relay.unanswered(side) <= 4);
            assert_eq!(relay.unanswered(side), ledger.waiting[&side].len(), "{side:?}");
        }
        let tools = ["s", "t", "u", "v"].into_iter().filter_map(|session| relay.tools(session));
        let tools: Vec<_> = tools.collect();
        assert!(tools.len() <= 2 && tools.iter().all(|tools| tools.len() <= 4));
    }
    let order = match ends {
        Ends::EditorFirst => [Side::Editor, Side::Agent],
        Ends::AgentFirst => [Side::Agent, Side::Editor],
    };
    for side in order {
        relay.receive_eof(side, now);
        ledger.collect(&mut relay);
        match side {
            Side::Editor => {
                while !ledger.permissions.is_empty() || !ledger.hosts.is_empty() {
                    ledger.act(&mut relay, Owner::Decides, now);
                    ledger.act(&mut relay, Owner::Responds, now);
                }
                assert!(ledger.waiting[&Side::Agent].is_empty(), "no unanswered editor request");
            }
            Side::Agent => assert!(ledger.waiting[&Side::Editor].is_empty(), "all have failed"),
        }
    }
    assert_eq!((ledger.released, ledger.closed), (1, 1));
    assert_eq!((relay.poll_timeout(), relay.poll_event()), (None, None));
    ledger.written
}

/// Tracks unanswered requests.
struct Ledger {
    /// Ids of unanswered requests.
    waiting: HashMap<Side, Vec<Id>>,
    /// Requests for the caller to decide and to serve.
    permissions: Vec<Id>,
    hosts: Vec<Id>,
    /// Running prompts by id: the session, and whether it was cancelled.
    prompts: HashMap<u64, (String, bool)>,
    /// The number of forwarded requests.
    passed: HashMap<Side, u64>,
    written: Vec<(Side, String)>,
    released: u32,
    closed: u32,
}

impl Default for Ledger {
    fn default() -> Self {
        let waiting = [(Side::Editor, Vec::new()), (Side::Agent, Vec::new())];
        Ledger {
            waiting: waiting.into(),
            permissions: Vec::new(),
            hosts: Vec::new(),
            prompts: HashMap::new(),
            passed: HashMap::new(),
            written: Vec::new(),
            released: 0,
            closed: 0,
        }
    }
}

impl Ledger {
    /// Records a line's requests and answers with an independent parser.
    fn said(&mut self, from: Side, line: &str) {
        let mut reader = MessageReader::new(&config().limits);
        reader.receive(line.as_bytes());
        reader.receive(b"\n");
        while let Some(inbound) = reader.next_message() {
            match inbound {
                Inbound::Message(Message::Request { id, .. })
                | Inbound::TooLong {
                    envelope: Envelope { id: Some(id), method: Some(_) }, ..
                } => {
                    let waiting = self.waiting.get_mut(&from).unwrap();
                    if !waiting.contains(&id) {
                        waiting.push(id);
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
        loop {
            let event = relay.poll_event();
            let is_end = event.is_none();
            // An id may be reused once answered, so earlier output comes first.
            let (hosts, permissions) = (self.hosts.len(), self.permissions.len());
            if let Some(event) = event {
                self.event(event);
            }
            assert!(self.hosts.len() <= hosts + 1 && self.permissions.len() <= permissions + 1);
            let written = self.lines(relay);
            if is_end && !written {
                return;
            }
        }
    }

    fn event(&mut self, event: RelayEvent) {
        assert_eq!(self.closed, 0, "an event after the last one: {event:?}");
        match event {
            RelayEvent::Request(RequestEvent::Permission { id, .. }) => self.permissions.push(id),
            RelayEvent::Request(RequestEvent::Host { id, .. }) => self.hosts.push(id),
            RelayEvent::Request(RequestEvent::Withdrawn { id, why }) => {
                self.permissions.retain(|waiting| *waiting != id);
                if why == Withdrawal::Ended {
                    self.hosts.retain(|waiting| *waiting != id);
                }
            }
            RelayEvent::Ended { side: Side::Agent } => {
                assert!(self.permissions.is_empty() && self.hosts.is_empty());
                self.waiting.insert(Side::Agent, Vec::new());
                self.prompts.clear();
            }
            RelayEvent::Released => self.released += 1,
            RelayEvent::Closed => self.closed += 1,
            _ => {}
        }
    }

    /// Returns whether there were any lines.
    fn lines(&mut self, relay: &mut Relay) -> bool {
        let before = self.written.len();
        for side in [Side::Editor, Side::Agent] {
            while let Some(line) = relay.poll_transmit(side) {
                assert!(line.len() <= 301);
                let message = serde_json::from_slice(&line).expect("valid JSON");
                self.line(side, Message::of(message));
                self.written.push((side, String::from_utf8(line).unwrap()));
            }
        }
        self.written.len() > before
    }

    fn line(&mut self, to: Side, message: Message) {
        match message {
            Message::Request { id, method, params } => {
                let passed = self.passed.entry(to).or_default();
                *passed += 1;
                let id = id.as_u64().unwrap();
                assert!(id >= *passed, "an id is new");
                if to == Side::Agent && method == "session/prompt" {
                    let session = params["sessionId"].as_str().unwrap().to_owned();
                    assert!(self.prompts.values().all(|(of, _)| *of != session), "one at a time");
                    self.prompts.insert(id, (session, false));
                }
            }
            Message::Response { id, .. } => {
                let waiting = self.waiting.get_mut(&to).unwrap();
                let at = waiting.iter().position(|waiting| *waiting == id);
                waiting.remove(at.unwrap_or_else(|| panic!("{id:?} is not pending at {to:?}")));
            }
            Message::Notification { method, params } if method == "session/cancel" => {
                let mut prompts = self.prompts.values_mut();
                let prompt = prompts.find(|(session, _)| params["sessionId"] == **session);
                let (_, is_cancelled) = prompt.expect("without a turn nothing is cancelled");
                assert!(!std::mem::replace(is_cancelled, true), "once a turn");
            }
            Message::Notification { .. } => {}
            Message::Invalid(why) => panic!("invalid output: {why}"),
        }
    }

    fn act(&mut self, relay: &mut Relay, owner: Owner, now: Instant) {
        let is_taken = match owner {
            Owner::Decides if !self.permissions.is_empty() => {
                relay.decide(&self.permissions.remove(0), &Decision::Cancelled, now)
            }
            Owner::AsksTheEditor if !self.permissions.is_empty() => {
                relay.ask_editor(&self.permissions.remove(0), now)
            }
            Owner::Responds if !self.hosts.is_empty() => {
                relay.respond(&self.hosts.remove(0), Ok(json!({})), now)
            }
            _ => true,
        };
        assert!(is_taken, "pending requests can be answered");
        self.collect(relay);
    }
}
