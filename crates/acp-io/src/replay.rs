//! Replays a wire log with the current client.

mod clock;
mod event;
mod sent;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use aifo_acp::{Client, Config, Id, Message, Requests, classify, encode_line};
use serde_json::Value;

use crate::wire_log::{Encoding, LogEntry, LogEntryKind, LogLine, LogPipe};
use clock::Clock;
pub use event::{ReplayEvent, ReplayEventKind, ReplayMismatch};

/// Drives a [`Client`] with a log (`spec/acp-wire.md#replay`): sent messages are its commands,
/// received ones its input, and the log's times its clock.
#[derive(Debug)]
pub struct Replay<F> {
    config: Config,
    /// `None` until the first line, which determines the client's configuration.
    client: Option<Client>,
    report: F,
    /// Messages that the client wrote and that have not appeared in the log yet.
    written: VecDeque<Message>,
    /// Request ids in the log, and the client's ids for them.
    ids: HashMap<Id, u64>,
    line: u64,
    part: u64,
    clock: Clock,
}

/// Replays files as one log, line by line.
///
/// # Errors
///
/// A file cannot be read. A difference is reported as a [`ReplayMismatch`], not as an error.
pub fn replay(
    files: &[PathBuf],
    config: Config,
    report: impl FnMut(ReplayEvent),
) -> io::Result<()> {
    let mut replay = Replay::new(config, Instant::now(), report);
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

impl<F: FnMut(ReplayEvent)> Replay<F> {
    /// Starts a replay. `config` sets streaming and limits; the log sets capabilities and the
    /// request origin. `base` is the time of the first entry; any will do.
    pub fn new(config: Config, base: Instant, report: F) -> Self {
        Replay {
            config,
            client: None,
            report,
            written: VecDeque::new(),
            ids: HashMap::new(),
            line: 0,
            part: 0,
            clock: Clock::new(base),
        }
    }

    /// Restarts the count of lines.
    pub fn begin_file(&mut self) {
        self.line = 0;
    }

    /// Replays the next line of the log.
    pub fn take_line(&mut self, line: &[u8]) {
        self.line = self.line.saturating_add(1);
        match std::str::from_utf8(line).ok().and_then(LogEntry::parse) {
            Some(entry) => self.take(entry),
            None => self.mismatch(ReplayMismatch::Unreadable),
        }
    }

    /// Ends the log, which ends pending requests and turns.
    pub fn finish(&mut self) {
        if let Some(client) = &mut self.client {
            client.receive_eof(self.clock.instant());
            self.settle();
        }
        for message in std::mem::take(&mut self.written) {
            self.mismatch(ReplayMismatch::NotInLog(Box::new(message)));
        }
    }

    fn take(&mut self, entry: LogEntry) {
        match entry.kind {
            LogEntryKind::Head { part, requests, .. } => {
                if self.client.is_none() {
                    self.set_origin(requests);
                }
                if part != self.part.saturating_add(1) {
                    self.mismatch(ReplayMismatch::Gap { after: self.part, before: part });
                }
                self.part = part;
            }
            LogEntryKind::Line(LogPipe::Out, line) => {
                self.advance(entry.time, SLACK);
                match line {
                    LogLine::Frame(value) => {
                        classify(value).into_iter().for_each(|message| self.sent(message));
                    }
                    LogLine::Text { .. } | LogLine::Skipped { .. } => {
                        self.mismatch(ReplayMismatch::NotAMessage);
                    }
                }
            }
            LogEntryKind::Line(LogPipe::In, line) => {
                self.advance(entry.time, Duration::ZERO);
                self.received(line);
            }
            LogEntryKind::End(LogPipe::In) => {
                self.advance(entry.time, Duration::ZERO);
                let now = self.clock.instant();
                self.client().receive_eof(now);
                self.settle();
            }
            LogEntryKind::Line(LogPipe::Err, line) => {
                self.advance(entry.time, Duration::ZERO);
                if let LogLine::Text { text, .. } | LogLine::Skipped { head: text, .. } = line {
                    self.emit(ReplayEventKind::Stderr(text));
                }
            }
            LogEntryKind::Decision(report) => {
                self.advance(entry.time, Duration::ZERO);
                self.emit(ReplayEventKind::Decision(report));
            }
            LogEntryKind::End(LogPipe::Out | LogPipe::Err) => {}
        }
    }

    /// Sets the request origin. An editor's user may take any time.
    fn set_origin(&mut self, requests: Requests) {
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

    /// Replays a received line.
    fn received(&mut self, line: LogLine) {
        let now = self.clock.instant();
        match line {
            LogLine::Frame(mut value) => {
                self.map_response_ids(&mut value);
                // Reading has its own limit.
                if let Ok(line) = encode_line(&value, usize::MAX) {
                    self.client().receive(&line, now);
                }
            }
            LogLine::Text { text, encoding, .. } => {
                let mut line = text.into_bytes();
                if encoding == Encoding::Broken {
                    line.push(NO_UTF8);
                }
                line.push(b'\n');
                self.client().receive(&line, now);
            }
            LogLine::Skipped { len, head } => {
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

    /// Advances the clock to an entry's time and handles timeouts on the way.
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

    /// Reports all events of the client.
    fn settle(&mut self) {
        while let Some(event) = self.client.as_mut().and_then(Client::poll_event) {
            self.emit(ReplayEventKind::Event(Box::new(event)));
        }
        self.collect();
    }

    /// Collects the messages that the client wrote.
    fn collect(&mut self) {
        while let Some(line) = self.client.as_mut().and_then(Client::poll_transmit) {
            // The client writes valid JSON.
            let value = serde_json::from_slice(&line).unwrap_or_default();
            self.written.extend(classify(value));
        }
    }

    /// Replaces the ids of responses with the client's. An unknown id is replaced with a string.
    fn map_response_ids(&self, value: &mut Value) {
        match value {
            Value::Array(batch) => batch.iter_mut().for_each(|value| self.map_response_ids(value)),
            value => {
                let Message::Response { id, .. } = Message::of(value.clone()) else { return };
                let id = normalized(id);
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

    fn mismatch(&mut self, mismatch: ReplayMismatch) {
        self.emit(ReplayEventKind::Mismatch(mismatch));
    }

    fn emit(&mut self, kind: ReplayEventKind) {
        (self.report)(ReplayEvent { at: self.clock.now, line: self.line, kind });
    }
}

/// Normalises the spelling of an id.
fn normalized(id: Id) -> Id {
    id.as_u64().map_or(id, Id::from)
}

/// Times are logged in milliseconds, slightly before or after they take effect.
const SLACK: Duration = Duration::from_millis(2);
/// A byte that UTF-8 never has.
const NO_UTF8: u8 = 0xff;
/// Stands for the skipped part of a line.
static PADDING: [u8; 64 << 10] = [b'x'; 64 << 10];

#[cfg(test)]
mod tests;
