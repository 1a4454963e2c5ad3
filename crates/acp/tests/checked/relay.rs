//! A relay that checks its output: shared by property tests and fuzz targets.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aifo_acp::{
    Envelope, Id, Inbound, Limits, Message, MessageReader, MethodServer, PathMap,
    PermissionOutcome, Relay, RelayConfig, RelayEvent, RequestEvent, Side, Withdrawal,
};
use serde_json::{Value, json};

/// Limits so small that random messages reach them.
pub(crate) fn config() -> RelayConfig {
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
        map: PathMap::default().map_directory("/h", "/i").map_alias("/workspace", "/h"),
        roots: vec!["/h".to_owned()],
        sessions: 2,
        queued_prompts: 2,
        queued_bytes: 4096,
        backlog: 500,
        ..RelayConfig::default()
    }
}

/// An action of a relay's caller.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Decide,
    AskEditor,
    Respond,
    Wait,
}

/// A relay with a record of unanswered requests.
pub(crate) struct CheckedRelay {
    relay: Relay,
    config: RelayConfig,
    now: Instant,
    /// Unanswered requests of each end: their ids as read, and as read again after writing, which
    /// differ slightly for some numbers.
    waiting: HashMap<Side, Vec<(Id, Id)>>,
    /// Requests for the caller to decide and to serve.
    permissions: Vec<Id>,
    hosts: Vec<Id>,
    /// Running prompts by id: the session, and whether it was cancelled.
    prompts: HashMap<u64, (String, bool)>,
    /// The number of forwarded requests.
    forwarded: HashMap<Side, u64>,
    written: Vec<(Side, String)>,
    released: u32,
    closed: u32,
}

impl CheckedRelay {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        CheckedRelay {
            relay: Relay::new(config(), now),
            config: config(),
            now,
            waiting: [(Side::Editor, Vec::new()), (Side::Agent, Vec::new())].into(),
            permissions: Vec::new(),
            hosts: Vec::new(),
            prompts: HashMap::new(),
            forwarded: HashMap::new(),
            written: Vec::new(),
            released: 0,
            closed: 0,
        }
    }

    /// Passes in one line, in the given pieces.
    pub(crate) fn receive<'a>(
        &mut self,
        from: Side,
        line: &[u8],
        pieces: impl Iterator<Item = &'a [u8]>,
    ) {
        self.record(from, line);
        for piece in pieces {
            self.relay.receive(from, piece, self.now);
            self.collect();
        }
        self.relay.receive(from, b"\n", self.now);
        self.collect();
    }

    /// Handles the oldest request.
    pub(crate) fn act(&mut self, action: Action) {
        let now = self.now;
        let is_taken = match action {
            Action::Decide if !self.permissions.is_empty() => {
                self.relay.decide(&self.permissions.remove(0), &PermissionOutcome::Cancelled, now)
            }
            Action::AskEditor if !self.permissions.is_empty() => {
                self.relay.ask_editor(&self.permissions.remove(0), now)
            }
            Action::Respond if !self.hosts.is_empty() => {
                self.relay.respond(&self.hosts.remove(0), Ok(json!({})), now)
            }
            _ => true,
        };
        assert!(is_taken, "pending requests can be answered");
        self.collect();
    }

    /// Advances the clock.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.relay.handle_timeout(self.now);
        self.collect();
        let next = self.relay.poll_timeout();
        assert!(next.is_none_or(|time| time > self.now), "no expired deadline is left");
        for side in [Side::Editor, Side::Agent] {
            assert!(self.relay.unanswered(side) <= self.config.limits.requests);
            assert_eq!(self.relay.unanswered(side), self.waiting[&side].len(), "{side:?}");
        }
        let tools =
            ["s", "t", "u", "v"].into_iter().filter_map(|session| self.relay.tools(session));
        let tools: Vec<_> = tools.collect();
        assert!(tools.len() <= self.config.sessions);
        assert!(tools.iter().all(|tools| tools.len() <= self.config.limits.tool_calls));
    }

    /// Ends both streams in this order, and returns everything written, with its receiver.
    pub(crate) fn end(mut self, order: [Side; 2]) -> Vec<(Side, String)> {
        for side in order {
            self.relay.receive_eof(side, self.now);
            self.collect();
            if side == Side::Editor {
                while !self.permissions.is_empty() || !self.hosts.is_empty() {
                    self.act(Action::Decide);
                    self.act(Action::Respond);
                }
            }
            assert!(self.waiting[&side.other()].is_empty(), "each request is answered");
        }
        assert_eq!((self.released, self.closed), (1, 1));
        assert_eq!((self.relay.poll_timeout(), self.relay.poll_event()), (None, None));
        self.written
    }

    /// Records a line's requests and answers with an independent reader.
    fn record(&mut self, from: Side, line: &[u8]) {
        let mut reader = MessageReader::new(&self.config.limits);
        reader.receive(line);
        reader.receive(b"\n");
        while let Some(inbound) = reader.next_message() {
            match inbound {
                Inbound::Message(Message::Request { id, .. })
                | Inbound::TooLong {
                    envelope: Envelope { id: Some(id), method: Some(_) }, ..
                } => {
                    let waiting = self.waiting.get_mut(&from).expect("both ends have an entry");
                    if waiting.iter().all(|(waiting, _)| *waiting != id) {
                        let written = rewritten(&id);
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

    fn collect(&mut self) {
        loop {
            let event = self.relay.poll_event();
            let is_end = event.is_none();
            // An id may be reused once answered, so earlier output comes first.
            if let Some(event) = event {
                self.event(event);
            }
            let has_lines = self.lines();
            if is_end && !has_lines {
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
    fn lines(&mut self) -> bool {
        let before = self.written.len();
        for side in [Side::Editor, Side::Agent] {
            while let Some(line) = self.relay.poll_transmit(side) {
                assert!(line.len() <= self.config.limits.frame_out + 1);
                let message = serde_json::from_slice(&line).expect("valid JSON");
                self.line(side, Message::of(message));
                self.written.push((side, String::from_utf8(line).expect("JSON is UTF-8")));
            }
        }
        self.written.len() > before
    }

    fn line(&mut self, to: Side, message: Message) {
        match message {
            Message::Request { id, method, params } => {
                let forwarded = self.forwarded.entry(to).or_default();
                *forwarded += 1;
                let id = id.as_u64().expect("an id of the relay");
                assert!(id >= *forwarded, "an id is new");
                if to == Side::Agent
                    && method == "session/prompt"
                    && let Some(session) = params.get("sessionId").and_then(Value::as_str)
                {
                    assert!(self.prompts.values().all(|(of, _)| of != session), "one at a time");
                    self.prompts.insert(id, (session.to_owned(), false));
                }
            }
            Message::Response { id, .. } => {
                let waiting = self.waiting.get_mut(&to).expect("both ends have an entry");
                let at = waiting.iter().position(|(_, waiting)| *waiting == id);
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
}

/// Returns an id after writing and reading it.
fn rewritten(id: &Id) -> Id {
    let text = id.to_value().to_string();
    match serde_json::from_str(&text).expect("valid JSON") {
        Value::Number(number) => Id::Number(number),
        Value::String(text) => Id::Text(text),
        other => panic!("{other} is not an id"),
    }
}
