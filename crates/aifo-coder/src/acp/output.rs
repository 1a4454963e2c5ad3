//! The output of `prompt`, as text or JSON Lines.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::Arc;

use aifo_acp::{
    AnswerPart, CallState, Client, Event, Id, PermissionRequest, Position, ToolCall, TurnEnd,
    UpdateScope, decision_report, reports, turn_end_report,
};
use aifo_acp_io::WireLog;
use aifo_launch::acp::{JudgedPermission, PromptView};
use aifo_terminal::console;
use aifo_types::{escape_json, escape_text};
use serde_json::{Value, json};

use crate::cli::OutputFormat;

/// Writes the answer to stdout, and in text form notes on calls to stderr.
pub(crate) struct Output {
    form: Form,
    /// Flushed when the event loop is idle, or when the buffer is full.
    stdout: BufWriter<Stdout>,
    /// No lines about calls and denials on stderr.
    is_quiet: bool,
    /// Also records decisions.
    log: Option<Arc<WireLog>>,
}

enum Form {
    Text(Answer),
    Json,
}

/// State of the printed answer.
struct Answer {
    position: Position,
    printed: usize,
    ends_line: bool,
    /// True if the last character is white space, or none was printed.
    ends_space: bool,
    reader: Reader,
    /// Both stdout and stderr are terminals, so their lines mix.
    shares_terminal: bool,
}

/// The reader of the answer. For a terminal, control characters are escaped.
#[derive(Clone, Copy)]
enum Reader {
    Terminal,
    Program,
}

impl Reader {
    fn of_stdout() -> Self {
        if io::stdout().is_terminal() { Reader::Terminal } else { Reader::Program }
    }
}

impl Output {
    pub(crate) fn new(format: OutputFormat, is_quiet: bool, log: Option<Arc<WireLog>>) -> Self {
        let form = match format {
            OutputFormat::Json => Form::Json,
            OutputFormat::Text => Form::Text(Answer {
                position: Position::default(),
                printed: 0,
                ends_line: true,
                ends_space: true,
                reader: Reader::of_stdout(),
                shares_terminal: io::stdout().is_terminal() && io::stderr().is_terminal(),
            }),
        };
        let stdout = BufWriter::with_capacity(BUFFER_SIZE, io::stdout());
        Output { form, stdout, is_quiet, log }
    }

    /// Reports that no turn completed.
    pub(crate) fn failed(&mut self, why: &str) -> io::Result<()> {
        match &mut self.form {
            Form::Json => {
                let error = json!({"message": why});
                let report = json!({
                    "type": "final",
                    "text": "",
                    "content": [],
                    "stop_reason": null,
                    "error": error,
                });
                print_json(&mut self.stdout, &report)?;
            }
            Form::Text(answer) => answer.end_line(&mut self.stdout)?,
        }
        self.stdout.flush()
    }

    /// Prints a line on stderr.
    fn print_line(&mut self, line: &str) {
        if self.is_quiet {
            return;
        }
        if let Form::Text(answer) = &mut self.form
            && answer.shares_terminal
        {
            // The next write to stdout reports a closed terminal.
            let _ = answer.end_line(&mut self.stdout);
        }
        let _ = self.stdout.flush();
        console::say(line);
    }
}

impl PromptView for Output {
    /// Prints an event, if the format shows it.
    fn event(&mut self, event: &Event, client: &Client) -> io::Result<()> {
        if let Event::Update { change: Some(change), update, .. } = event {
            let before = change.before.as_ref().map(|state| state.word());
            let (call, after) = (&change.id, change.after.word());
            tracing::debug!(session = update.session(), call, before, after, "tool call");
        }
        let answer = match &mut self.form {
            Form::Json => {
                let print = |report| print_json(&mut self.stdout, report);
                return reports(event).iter().try_for_each(print);
            }
            Form::Text(answer) => answer,
        };
        let Event::Update { update, change, scope } = event else { return Ok(()) };
        // History of a resumed session is not printed.
        let (UpdateScope::Turn(_) | UpdateScope::Late(_)) = scope else { return Ok(()) };
        let Some(session) = client.session(update.session()) else { return Ok(()) };
        let certain = session.read_on(&mut answer.position);
        certain.into_iter().try_for_each(|part| answer.print(&mut self.stdout, part))?;
        let is_end = |state: &CallState| matches!(state, CallState::Ended(_));
        let ended = change
            .as_ref()
            .filter(|change| is_end(&change.after) && !change.before.as_ref().is_some_and(is_end));
        if let Some(call) = ended.and_then(|change| session.tools().get(&change.id)) {
            let (kind, what) = (or(call.kind(), "call"), what(call));
            self.print_line(&format!("{kind} '{what}' {}", call.state().word()));
        }
        Ok(())
    }

    /// Reports a permission decision, its rule, and for a denial the remedy. Returns the line of a
    /// denial.
    fn decided(
        &mut self,
        id: &Id,
        request: &PermissionRequest,
        decided: &JudgedPermission,
    ) -> io::Result<Option<String>> {
        let JudgedPermission { decision, rule, remedy } = decided;
        let report = decision_report(id, decision, rule);
        if let Form::Json = self.form {
            print_json(&mut self.stdout, &report)?;
        }
        if let Some(log) = &self.log {
            log.record_decision(report);
        }
        let call = request.call.as_ref();
        let kind = call.map_or("call", |call| or(call.kind(), "call"));
        let what = call.map_or_else(|| "?".to_owned(), what);
        let Some(remedy) = remedy else {
            tracing::debug!(kind, what, rule, "permission");
            return Ok(None);
        };
        let denial = format!("{kind} '{what}': {rule}; {remedy}");
        self.print_line(&format!("denied {denial}"));
        Ok(Some(denial))
    }

    /// Prints the end of the turn and takes its answer. The last output.
    fn turn_ended(&mut self, end: &mut TurnEnd) -> io::Result<()> {
        let answer = std::mem::take(&mut end.answer);
        match &mut self.form {
            Form::Json => print_json(&mut self.stdout, &turn_end_report(end, answer))?,
            Form::Text(printed) => {
                printed.print_rest(&mut self.stdout, &answer)?;
                printed.end_line(&mut self.stdout)?;
            }
        }
        self.stdout.flush()
    }

    fn has_unflushed(&self) -> bool {
        !self.stdout.buffer().is_empty()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

impl Answer {
    /// Prints what has not been printed of a complete answer.
    fn print_rest(&mut self, stdout: &mut impl Write, answer: &aifo_acp::Answer) -> io::Result<()> {
        let from = self.printed;
        let begins = answer.messages.iter().copied().filter(|at| *at >= from);
        let mut cuts: Vec<usize> = begins.chain([answer.text.len()]).collect();
        cuts.dedup();
        let mut begin = from;
        for end in cuts {
            let text = answer.text.get(begin..end).unwrap_or_default();
            let begins_message = answer.messages.contains(&begin);
            self.print(stdout, AnswerPart { text, begins_message })?;
            begin = end;
        }
        Ok(())
    }

    /// Prints a part, with an empty line before another message, unless white space separates them: some
    /// agents call a tool in mid-sentence.
    fn print(&mut self, stdout: &mut impl Write, part: AnswerPart<'_>) -> io::Result<()> {
        let AnswerPart { text, begins_message } = part;
        if text.is_empty() {
            return Ok(());
        }
        if begins_message && !self.ends_space && !text.starts_with(char::is_whitespace) {
            stdout.write_all(b"\n\n")?;
        }
        self.ends_space = text.ends_with(char::is_whitespace);
        self.printed = self.printed.saturating_add(text.len());
        self.ends_line = text.ends_with('\n');
        match self.reader {
            Reader::Program => stdout.write_all(text.as_bytes()),
            Reader::Terminal => stdout.write_all(escape_text(text).as_bytes()),
        }
    }

    fn end_line(&mut self, stdout: &mut impl Write) -> io::Result<()> {
        if !self.ends_line {
            (self.ends_line, self.ends_space) = (true, true);
            writeln!(stdout)?;
        }
        Ok(())
    }
}

fn print_json(stdout: &mut impl Write, report: &Value) -> io::Result<()> {
    serde_json::to_writer(EscapedJson(&mut *stdout), report)?;
    stdout.write_all(b"\n")
}

/// Escapes JSON while it is written: a report may be too long to hold in memory twice.
struct EscapedJson<W>(W);

impl<W: Write> Write for EscapedJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // serde_json never splits a character.
        let mut text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.floor_char_boundary(ESCAPE_CHUNK));
            self.0.write_all(escape_json(piece).as_bytes())?;
            text = rest;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Bytes of JSON that are escaped at a time.
const ESCAPE_CHUNK: usize = 64 * 1024;

/// A call's command if known, else its title, which the agent may choose freely, else its first path,
/// else its id.
fn what(call: &ToolCall) -> String {
    let path =
        || call.paths().first().map_or_else(|| call.id().to_owned(), |path| (*path).to_owned());
    let title =
        || Some(call.title().to_owned()).filter(|title| !title.is_empty() && title != call.id());
    call.command().or_else(title).unwrap_or_else(path)
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// Bytes; the capacity of a pipe.
const BUFFER_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_escaped_wherever_it_is_cut() {
        let report = json!({"text": "é\u{1b}\u{202e}\n\u{1f600}".repeat(10_000), "n": [1.5, null]});
        let mut written = Vec::new();
        print_json(&mut written, &report).unwrap();
        let text = std::str::from_utf8(&written).unwrap();
        assert_eq!(text, format!("{}\n", escape_json(&report.to_string())));
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), report);
    }
}
