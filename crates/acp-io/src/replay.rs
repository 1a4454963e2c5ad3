//! A logged connection once more, with the state machines of today.

mod clock;
mod told;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use aifo_acp::{
    CancelCause, Cancelling, Client, Config, Decision, Id, Message, Refused, Requests, RpcError,
    Serves, classify, encode_line,
};
use serde_json::Value;

use crate::wire_log::{Encoding, Entry, Line, Pipe, What};
use clock::Clock;
pub use told::{Misfit, News, Told};

/// Drives a [`Client`] with what stands in a log (`spec/acp-wire.md#replay`): what we sent are its
/// commands again, what came is received again, and the log's times are the clock.
#[derive(Debug)]
pub struct Replay<F> {
    config: Config,
    /// `None` until the first line is there: what the client serves is told by that.
    client: Option<Client>,
    tell: F,
    /// What the client has written, and the log has not told of yet.
    written: VecDeque<Message>,
    /// The ids of requests in the log, and those that they have now.
    ids: HashMap<Id, u64>,
    line: u64,
    part: u64,
    clock: Clock,
}

/// Replays these files, one after the other, as one log. Reads one line at a time; a line is as
/// long as one that an agent may send.
///
/// # Errors
///
/// A file cannot be read. What does not fit is told as a [`Misfit`], and no error.
pub fn replay(files: &[PathBuf], config: Config, tell: impl FnMut(Told)) -> io::Result<()> {
    let mut replay = Replay::new(config, Instant::now(), tell);
    let mut line = Vec::new();
    for file in files {
        let mut reader = BufReader::new(File::open(file)?);
        replay.begin_file();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            replay.take_line(&line);
        }
    }
    replay.finish();
    Ok(())
}

impl<F: FnMut(Told)> Replay<F> {
    /// At the start of a log. `config` says how the agent's chunks are read, and within which
    /// limits; what is served is told by the log. `base` is any time: the log's first.
    pub fn new(config: Config, base: Instant, tell: F) -> Self {
        Replay {
            config,
            client: None,
            tell,
            written: VecDeque::new(),
            ids: HashMap::new(),
            line: 0,
            part: 0,
            clock: Clock::new(base),
        }
    }

    /// From here on lines are counted anew.
    pub fn begin_file(&mut self) {
        self.line = 0;
    }

    /// Takes the next line of the log.
    pub fn take_line(&mut self, line: &[u8]) {
        self.line = self.line.saturating_add(1);
        match std::str::from_utf8(line).ok().and_then(Entry::parse) {
            Some(entry) => self.take(entry),
            None => self.misfit(Misfit::Unreadable),
        }
    }

    /// The log is over. What has no end in it ends now.
    pub fn finish(&mut self) {
        if let Some(client) = &mut self.client {
            client.receive_eof(self.clock.instant());
            self.settle();
        }
        for message in std::mem::take(&mut self.written) {
            self.misfit(Misfit::OnlyNow(Box::new(message)));
        }
    }

    fn take(&mut self, entry: Entry) {
        match entry.what {
            What::Head { part, requests, .. } => {
                if self.client.is_none() {
                    self.follow(requests);
                }
                if part != self.part.saturating_add(1) {
                    self.misfit(Misfit::Gap { after: self.part, before: part });
                }
                self.part = part;
            }
            What::Line(Pipe::Out, line) => {
                self.advance(entry.time, SLACK);
                match line {
                    Line::Frame(value) => {
                        classify(value).into_iter().for_each(|message| self.sent(message));
                    }
                    Line::Text { .. } | Line::Skipped { .. } => self.misfit(Misfit::NotOurs),
                }
            }
            What::Line(Pipe::In, line) => {
                self.advance(entry.time, Duration::ZERO);
                self.came(line);
            }
            What::End(Pipe::In) => {
                self.advance(entry.time, Duration::ZERO);
                let now = self.clock.instant();
                self.client().receive_eof(now);
                self.settle();
            }
            What::Line(Pipe::Err, line) => {
                self.advance(entry.time, Duration::ZERO);
                if let Line::Text { text, .. } | Line::Skipped { head: text, .. } = line {
                    self.tell(News::Stderr(text));
                }
            }
            What::Decision(report) => {
                self.advance(entry.time, Duration::ZERO);
                self.tell(News::Decision(report));
            }
            What::End(Pipe::Out | Pipe::Err) => {}
        }
    }

    /// Whose requests the log has. A person at an editor may take any time.
    fn follow(&mut self, requests: Requests) {
        self.config.requests = requests;
        if requests == Requests::Relayed {
            let limits = &mut self.config.limits;
            let times = [
                &mut limits.initialize,
                &mut limits.request,
                &mut limits.prompt_idle,
                &mut limits.permission,
            ];
            times.into_iter().for_each(|time| *time = Duration::MAX);
        }
    }

    /// The agent has said something.
    fn came(&mut self, line: Line) {
        let now = self.clock.instant();
        match line {
            Line::Frame(mut value) => {
                self.put_ids(&mut value);
                // What was read once can be read again, however long its line is written here.
                if let Ok(line) = encode_line(&value, usize::MAX) {
                    self.client().receive(&line, now);
                }
            }
            Line::Text { text, encoding, .. } => {
                let mut line = text.into_bytes();
                if encoding == Encoding::Broken {
                    line.push(NO_UTF8);
                }
                line.push(b'\n');
                self.client().receive(&line, now);
            }
            Line::Skipped { len, head } => {
                let mut left = len.max(self.config.limits.frame.saturating_add(1) as u64);
                left = left.saturating_sub(head.len() as u64);
                self.client().receive(head.as_bytes(), now);
                while left > 0 {
                    self.settle();
                    let part = usize::try_from(left).unwrap_or(PADDING.len()).min(PADDING.len());
                    self.client().receive(PADDING.get(..part).unwrap_or_default(), now);
                    left = left.saturating_sub(part as u64);
                }
                self.settle();
                self.client().receive(b"\n", now);
            }
        }
        self.settle();
    }

    /// We had said something.
    fn sent(&mut self, message: Message) {
        let fits = match message.clone() {
            Message::Request { id, method, params } => self.ask(id, &method, params),
            Message::Notification { method, params } => self.notify(&method, &params),
            Message::Response { id, outcome } => self.answer(&id, outcome),
            Message::Invalid(_) => Err(Misfit::NotOurs),
        };
        match fits {
            Ok(()) => self.tell(News::Sent(message)),
            Err(misfit) => self.misfit(misfit),
        }
        self.settle();
    }

    fn ask(&mut self, id: Id, method: &str, params: Value) -> Result<(), Misfit> {
        if method == "initialize" && self.client.is_none() {
            self.config.serves = serves(&params);
        }
        let now = self.clock.instant();
        // The turn before was over for the sender: a prompt that a relay has queued follows at once.
        if method == "session/prompt"
            && let Some(session) = params.get("sessionId").and_then(Value::as_str)
            && self.client().finish_turn(session, now)
        {
            self.settle();
        }
        let client = self.client();
        let text = |of: &Value, name: &str| {
            of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let asked = match method {
            "initialize" => {
                let info = params.get("clientInfo").unwrap_or(&Value::Null);
                client.initialize(&text(info, "name"), &text(info, "version"), now)
            }
            "session/new" => client.new_session(params, now),
            "session/load" => client.load_session(&text(&params, "sessionId"), params, now),
            "session/prompt" => {
                let prompt = params.get("prompt").cloned().unwrap_or_default();
                client.prompt(&text(&params, "sessionId"), prompt, now)
            }
            _ => client.request(method, params, now),
        };
        let refused = |why: Refused| Misfit::Refused { method: method.to_owned(), why };
        asked.map_err(refused)?;
        self.collect();
        // A prompt gives the number of its turn, so the id is taken from what was written.
        let is_it = |message: &Message| matches!(message, Message::Request { .. });
        if let Some(Message::Request { id: new, .. }) = self.take_written(is_it)
            && let Some(new) = new.as_ours()
        {
            self.ids.insert(normal(id), new);
        }
        Ok(())
    }

    fn notify(&mut self, method: &str, params: &Value) -> Result<(), Misfit> {
        let is_relayed = self.config.requests == Requests::Relayed;
        if method != "session/cancel" {
            // An editor may send any notification.
            if is_relayed {
                return Ok(());
            }
            return Err(Misfit::Unknown { method: method.to_owned() });
        }
        let session = params.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let is_it = |message: &Message| match message {
            Message::Notification { params, .. } => {
                params.get("sessionId").and_then(Value::as_str) == Some(session)
            }
            _ => false,
        };
        // It may have been the clock that cancelled the turn.
        if self.take_written(is_it).is_some() {
            return Ok(());
        }
        let now = self.clock.instant();
        let cancelling = self.client().cancel(session, CancelCause::Asked, now);
        if cancelling == Cancelling::NoNeed {
            // A relay's line may be logged after an answer that it could not know.
            if is_relayed {
                return Ok(());
            }
            return Err(Misfit::NothingToCancel);
        }
        self.collect();
        self.take_written(is_it);
        Ok(())
    }

    fn answer(&mut self, id: &Id, outcome: Result<Value, RpcError>) -> Result<(), Misfit> {
        let is_it = |message: &Message| match message {
            Message::Response { id: other, .. } => other == id,
            _ => false,
        };
        // The client answers much by itself.
        if let Some(Message::Response { outcome: now, .. }) = self.take_written(is_it) {
            let is_same = kind(&now) == kind(&outcome);
            return if is_same { Ok(()) } else { Err(Misfit::OtherAnswer { id: id.clone() }) };
        }
        let now = self.clock.instant();
        let decision = outcome.as_ref().ok().and_then(decision);
        let client = self.client();
        let is_decided = decision.is_some_and(|decision| client.decide(id, &decision, now));
        if !is_decided && !client.respond(id, outcome, now) {
            return Err(Misfit::NotAwaited { id: id.clone() });
        }
        self.collect();
        self.take_written(is_it);
        Ok(())
    }

    /// Takes out what the client has written, the oldest of the kind.
    fn take_written(&mut self, is_it: impl Fn(&Message) -> bool) -> Option<Message> {
        let at = self.written.iter().position(is_it)?;
        self.written.remove(at)
    }

    /// Lets time pass up to that of an entry, and does what falls due until then.
    fn advance(&mut self, time: Duration, slack: Duration) {
        let until = self.clock.offset(time);
        loop {
            let until = self.clock.at(until.saturating_add(slack));
            let due = self.client.as_ref().and_then(Client::poll_timeout);
            let Some(due) = due.filter(|due| *due <= until) else { break };
            self.clock.now = self.clock.now.max(due.saturating_duration_since(self.clock.base));
            let now = self.clock.instant();
            self.client().handle_timeout(now);
            self.settle();
        }
        self.clock.now = self.clock.now.max(until);
    }

    /// Takes out all that has come of it.
    fn settle(&mut self) {
        while let Some(event) = self.client.as_mut().and_then(Client::poll_event) {
            self.tell(News::Event(Box::new(event)));
        }
        self.collect();
    }

    /// Takes out what it has written.
    fn collect(&mut self) {
        while let Some(line) = self.client.as_mut().and_then(Client::poll_transmit) {
            // Our own lines can be read.
            let value = serde_json::from_slice(&line).unwrap_or_default();
            self.written.extend(classify(value));
        }
    }

    /// Gives answers the ids that their requests have now. An answer to nothing stays one.
    fn put_ids(&self, value: &mut Value) {
        match value {
            Value::Array(batch) => batch.iter_mut().for_each(|value| self.put_ids(value)),
            value => {
                let Message::Response { id, .. } = Message::of(value.clone()) else { return };
                let id = normal(id);
                let new = match self.ids.get(&id) {
                    Some(new) => (*new).into(),
                    None => format!("not in the log: {}", id.to_value()).into(),
                };
                if let Some(members) = value.as_object_mut() {
                    members.insert("id".to_owned(), new);
                }
            }
        }
    }

    fn client(&mut self) -> &mut Client {
        let now = self.clock.instant();
        self.client.get_or_insert_with(|| Client::new(self.config.clone(), now))
    }

    fn misfit(&mut self, misfit: Misfit) {
        self.tell(News::Misfit(misfit));
    }

    fn tell(&mut self, news: News) {
        (self.tell)(Told { at: self.clock.now, line: self.line, news });
    }
}

/// What was served, as it was declared.
fn serves(params: &Value) -> Serves {
    let flag = |pointer: &str| params.pointer(pointer).and_then(Value::as_bool).unwrap_or_default();
    Serves {
        read_text_file: flag("/clientCapabilities/fs/readTextFile"),
        write_text_file: flag("/clientCapabilities/fs/writeTextFile"),
        terminal: flag("/clientCapabilities/terminal"),
    }
}

/// What an answer decides, if it is one to a request for permission.
fn decision(result: &Value) -> Option<Decision> {
    let outcome = result.get("outcome")?;
    match outcome.get("outcome")?.as_str()? {
        "selected" => Some(Decision::Select(outcome.get("optionId")?.clone())),
        "cancelled" => Some(Decision::Cancelled),
        _ => None,
    }
}

/// What two answers have to have in common to be the same; their words may be redacted.
fn kind(outcome: &Result<Value, RpcError>) -> (Option<i64>, Option<String>) {
    match outcome {
        Ok(result) => {
            (None, result.pointer("/outcome/outcome").and_then(Value::as_str).map(str::to_owned))
        }
        Err(error) => (Some(error.code), None),
    }
}

/// An id as all its spellings are compared.
fn normal(id: Id) -> Id {
    id.as_ours().map_or(id, Id::from)
}

/// Times are logged in whole milliseconds, a little after or before they are acted upon.
const SLACK: Duration = Duration::from_millis(2);
/// What no line of UTF-8 has.
const NO_UTF8: u8 = 0xff;
/// What stands for the part of a line that was skipped.
static PADDING: [u8; 64 << 10] = [b'x'; 64 << 10];

#[cfg(test)]
mod tests;
