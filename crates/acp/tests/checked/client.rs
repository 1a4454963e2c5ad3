//! A client that checks its output: shared by property tests and fuzz targets.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aifo_acp::{
    CancelCause, Client, ClientCapabilities, Config, ConnectionState, Event, Id, Limits, Message,
    PermissionOutcome, RequestEvent, Streaming, Withdrawal, classify,
};
use serde_json::{Value, json};

/// An initialized client with a record of unanswered requests.
pub(crate) struct CheckedClient {
    client: Client,
    limits: Limits,
    now: Instant,
    /// Ids of the agent's reported, unanswered requests.
    waiting: Vec<Id>,
    /// How often each client request was sent less how often it was completed.
    requests: HashMap<u64, i64>,
    /// The same of all prompts.
    prompts: i64,
}

impl CheckedClient {
    pub(crate) fn new(limits: Limits, streaming: Streaming) -> Self {
        let now = Instant::now();
        let config = Config {
            limits: limits.clone(),
            streaming,
            capabilities: ClientCapabilities {
                read_text_file: true,
                ..ClientCapabilities::default()
            },
        };
        let mut client = Client::new(config, now);
        client.initialize("test", "1", now).expect("the first request");
        let (waiting, requests) = (Vec::new(), HashMap::new());
        CheckedClient { client, limits, now, waiting, requests, prompts: 0 }
    }

    /// Passes in bytes of the agent.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.client.receive(bytes, self.now);
        self.collect();
    }

    /// Sends one of six requests or answers.
    pub(crate) fn act(&mut self, action: u8) {
        let now = self.now;
        // A request that is out of order is rejected.
        match action % 6 {
            0 => _ = self.client.new_session(json!({}), now),
            1 => _ = self.client.load_session("s", json!({}), now),
            2 | 3 => _ = self.client.prompt("s", json!([]), now),
            4 => _ = self.client.cancel("s", CancelCause::Requested, now),
            _ => self.answer_one(),
        }
    }

    /// Advances the clock.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.client.handle_timeout(self.now);
        self.collect();
        let next = self.client.poll_timeout();
        assert!(next.is_none_or(|time| time > self.now), "no expired deadline is left");
        assert!(self.client.unanswered() <= self.limits.requests);
        if let Some(session) = self.client.session("s") {
            assert!(session.tools().len() <= self.limits.tool_calls);
            assert!(session.tools().held() <= self.limits.tool_bytes);
            assert!(session.draft().len() <= self.limits.turn_bytes);
        }
    }

    /// Ends the agent's stream. Every request has one end by then.
    pub(crate) fn end(mut self) {
        self.client.receive_eof(self.now);
        self.collect();
        assert_eq!(self.client.state(), &ConnectionState::Closed);
        assert_eq!((self.client.unanswered(), self.client.poll_timeout()), (0, None));
        assert_eq!((self.waiting.as_slice(), self.prompts), (&[][..], 0), "each ends once");
        assert!(self.requests.values().all(|left| *left == 0), "{:?}", self.requests);
    }

    /// Takes events one by one, each with its lines, as ids may be reused.
    fn collect(&mut self) {
        self.lines();
        while let Some(event) = self.client.poll_event() {
            self.event(event);
            self.lines();
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Request(RequestEvent::Permission { id, .. } | RequestEvent::Host { id, .. }) => {
                assert!(!self.waiting.contains(&id), "two pending requests with the same id");
                self.waiting.push(id);
            }
            Event::Request(RequestEvent::Withdrawn { id, why: Withdrawal::Ended }) => {
                let at = self.waiting.iter().position(|waiting| *waiting == id);
                self.waiting.remove(at.expect("only pending requests are withdrawn"));
            }
            Event::Opened { request, .. }
            | Event::Answered { request, .. }
            | Event::Failed { request, .. } => *self.requests.entry(request).or_default() -= 1,
            Event::Ready(_) => *self.requests.entry(1).or_default() -= 1,
            Event::TurnEnded(end) => {
                self.prompts -= 1;
                assert!(end.answer.text.len() <= self.limits.turn_bytes);
                assert!(end.counts.kinds.len() <= self.limits.turn_kinds + 1);
            }
            _ => {}
        }
    }

    fn lines(&mut self) {
        while let Some(line) = self.client.poll_transmit() {
            let message: Value = serde_json::from_slice(&line).expect("valid JSON");
            match classify(message).remove(0) {
                Message::Request { method, .. } if method == "session/prompt" => self.prompts += 1,
                Message::Request { id, .. } => {
                    let id = id.as_u64().expect("an id of the client");
                    *self.requests.entry(id).or_default() += 1;
                }
                Message::Response { id, .. } => self.waiting.retain(|waiting| *waiting != id),
                Message::Notification { method, .. } => assert_eq!(method, "session/cancel"),
                Message::Invalid(why) => panic!("invalid output: {why}"),
            }
        }
    }

    /// Answers the oldest request of the agent.
    fn answer_one(&mut self) {
        if let Some(id) = self.waiting.first().cloned() {
            let is_answered = self.client.decide(&id, &PermissionOutcome::Cancelled, self.now)
                || self.client.respond(&id, Ok(json!({})), self.now);
            assert!(is_answered, "pending requests can be answered");
            self.collect();
            assert!(!self.waiting.contains(&id));
        }
    }
}
