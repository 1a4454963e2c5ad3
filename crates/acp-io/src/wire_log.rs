//! A log of an agent connection, for debugging.

mod entry;
mod files;
mod redactor;

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aifo_acp::{Frame, FrameReader, JsonError, Limits, parse_json};
use serde_json::Value;

use entry::{Encoding, LogEntry, LogEntryKind, LogLine, LogPipe};
use files::LogFiles;
pub use files::WireLogLimits;
use redactor::Redactor;

/// Writes every line of an agent's three pipes to rotating files (`spec/acp-wire.md#lines`).
///
/// Errors never reach the caller: after the first one logging stops, with one warning. Each line is
/// one `write` to the page cache by the task that forwards it, so a slow disk slows the agent and
/// no queue grows.
#[derive(Debug)]
pub struct WireLog(Mutex<Writer>);

#[derive(Debug)]
struct Writer {
    /// `None` after a failed write.
    files: Option<LogFiles>,
    redactor: Redactor,
    stdout: FrameReader,
    stderr: FrameReader,
    /// The limit of JSON values in a line.
    values: usize,
    clock: Clock,
}

/// The time of day, made monotonic.
#[derive(Debug)]
struct Clock {
    begun: Instant,
    since_1970: Duration,
}

impl WireLog {
    /// Opens a log in a directory, which is created if missing. `agent` is the agent name without
    /// arguments. Each of `secrets` of at least four bytes is redacted.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or is a symbolic link, or no file can be created in it.
    pub fn open(
        directory: &Path,
        limits: WireLogLimits,
        agent: &str,
        secrets: Vec<String>,
    ) -> io::Result<Self> {
        let clock = Clock::start();
        let files = LogFiles::create(directory, limits, agent, clock.now())?;
        // The client limits, so that a line read whole is logged whole.
        let of_agent = Limits::default();
        Ok(WireLog(Mutex::new(Writer {
            files: Some(files),
            redactor: Redactor::new(secrets),
            stdout: FrameReader::new(of_agent.frame, HEAD),
            stderr: FrameReader::new(STDERR_LINE, HEAD),
            values: of_agent.values,
            clock,
        })))
    }

    /// Logs bytes of the agent's stdout, split anywhere.
    pub fn record_in(&self, bytes: &[u8]) {
        self.writer().receive(LogPipe::In, bytes);
    }

    /// Logs a line written to the agent's stdin.
    pub fn record_out(&self, line: &[u8]) {
        self.writer().sent(line);
    }

    /// Logs bytes of the agent's stderr, split anywhere.
    pub fn record_err(&self, bytes: &[u8]) {
        self.writer().receive(LogPipe::Err, bytes);
    }

    /// Logs a permission decision: a [report](aifo_acp::decision_report).
    pub fn record_decision(&self, report: Value) {
        self.writer().write(LogEntryKind::Decision(report));
    }

    /// Logs the end of the agent's stdout.
    pub fn end_in(&self) {
        self.writer().end(LogPipe::In);
    }

    /// Logs the end of the agent's stderr.
    pub fn end_err(&self) {
        self.writer().end(LogPipe::Err);
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic in another thread must not stop the log.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    fn receive(&mut self, pipe: LogPipe, bytes: &[u8]) {
        if self.files.is_some() {
            self.reader(pipe).receive(bytes);
            self.drain(pipe);
        }
    }

    fn end(&mut self, pipe: LogPipe) {
        if self.files.is_some() {
            self.reader(pipe).receive_eof();
            self.drain(pipe);
            self.write(LogEntryKind::End(pipe));
        }
    }

    fn sent(&mut self, line: &[u8]) {
        if self.files.is_some() {
            let mut whole = FrameReader::new(line.len(), HEAD);
            whole.receive(line);
            whole.receive_eof();
            while let Some(line) = next_line(&mut whole, self.values, &self.redactor) {
                self.write(LogEntryKind::Line(LogPipe::Out, line));
            }
        }
    }

    fn reader(&mut self, pipe: LogPipe) -> &mut FrameReader {
        match pipe {
            LogPipe::In | LogPipe::Out => &mut self.stdout,
            LogPipe::Err => &mut self.stderr,
        }
    }

    fn drain(&mut self, pipe: LogPipe) {
        loop {
            let line = match pipe {
                LogPipe::In | LogPipe::Out => {
                    next_line(&mut self.stdout, self.values, &self.redactor)
                }
                LogPipe::Err => next_text(&mut self.stderr, &self.redactor),
            };
            match line {
                Some(line) => self.write(LogEntryKind::Line(pipe, line)),
                None => return,
            }
        }
    }

    fn write(&mut self, kind: LogEntryKind) {
        let entry = LogEntry { time: self.clock.now(), kind };
        let Some(files) = &mut self.files else { return };
        if let Err(error) = files.write(&entry) {
            self.files = None;
            tracing::warn!(%error, "cannot write the wire log; logging stops");
        }
    }
}

impl Clock {
    fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Clock { begun: Instant::now(), since_1970: since_1970.unwrap_or_default() }
    }

    fn now(&self) -> Duration {
        self.since_1970.saturating_add(self.begun.elapsed())
    }
}

/// Returns the next line of a message pipe.
fn next_line(reader: &mut FrameReader, values: usize, redactor: &Redactor) -> Option<LogLine> {
    match reader.next_frame()? {
        Frame::Line(line) => Some(match parse_json(line, values) {
            Ok(mut frame) => {
                redactor.frame(&mut frame);
                LogLine::Frame(frame)
            }
            Err(JsonError::Syntax(_)) => text(line, line.len(), Encoding::Utf8, redactor),
            Err(JsonError::TooMuch { .. }) => skipped(line.len() as u64, line.as_bytes(), redactor),
        }),
        other => other_line(other, redactor),
    }
}

/// Returns the next line of a text pipe.
fn next_text(reader: &mut FrameReader, redactor: &Redactor) -> Option<LogLine> {
    match reader.next_frame()? {
        Frame::Line(line) => Some(text(line, line.len(), Encoding::Utf8, redactor)),
        other => other_line(other, redactor),
    }
}

/// Returns a line that is oversized or not UTF-8; `None` at the end.
fn other_line(frame: Frame<'_>, redactor: &Redactor) -> Option<LogLine> {
    match frame {
        Frame::NotUtf8 { line } => {
            let lossy = String::from_utf8_lossy(line);
            Some(text(&lossy, line.len(), Encoding::Broken, redactor))
        }
        Frame::Oversize { len, head } => Some(skipped(len, head, redactor)),
        Frame::Line(_) | Frame::Eof => None,
    }
}

fn text(line: &str, len: usize, encoding: Encoding, redactor: &Redactor) -> LogLine {
    // Redact before truncating: half a secret would not be found.
    let mut text = redactor.text(line);
    text.truncate(text.floor_char_boundary(TEXT));
    LogLine::Text { text, len: len as u64, encoding }
}

fn skipped(len: u64, head: &[u8], redactor: &Redactor) -> LogLine {
    let head = head.get(..HEAD).unwrap_or(head);
    LogLine::Skipped { len, head: redactor.text(&String::from_utf8_lossy(head)) }
}

/// Bytes logged of a skipped line: enough for its id.
const HEAD: usize = 4 << 10;
/// Bytes logged of a line that is not JSON.
const TEXT: usize = 64 << 10;
/// The longest line of stderr, in bytes; longer ones are skipped.
const STDERR_LINE: usize = 64 << 10;

#[cfg(test)]
mod tests;
