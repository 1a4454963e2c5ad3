//! Lines on stderr, in one format, with control characters escaped.

use std::fmt::{self, Display, Write as _};
use std::io::{IsTerminal, Write as _};

use aifo_types::escape_line;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLevel {
    /// Errors only.
    Quiet,
    /// Also slow starts of sidecars.
    Warnings,
    /// Also notices for the operator of a server.
    Notices,
    /// Also every decision.
    Decisions,
}

/// Starts logging to stderr.
pub(crate) fn start(log_level: LogLevel) {
    let level = match log_level {
        LogLevel::Quiet | LogLevel::Warnings => Level::WARN,
        LogLevel::Notices => Level::INFO,
        LogLevel::Decisions => Level::DEBUG,
    };
    let ours = Targets::new().with_default(level);
    let ours = match log_level {
        LogLevel::Quiet => ours,
        _ => ours.with_target(PROGRESS, level.max(Level::INFO)),
    };
    let asked = std::env::var(RUST_LOG).ok().filter(|asked| !asked.trim().is_empty());
    let targets = asked.as_deref().map(str::parse::<Targets>);
    let (targets, mistake) = match targets {
        Some(Ok(targets)) => (targets, None),
        Some(Err(error)) => (ours, Some(error)),
        None => (ours, None),
    };
    let line = Line { clears: std::io::stderr().is_terminal() };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_writer(std::io::stderr)
        .event_format(line)
        .finish()
        .with(targets);
    // Fails only if set twice; this is the only caller.
    let _ = tracing::subscriber::set_global_default(subscriber);
    if let Some(error) = mistake {
        tracing::warn!(%error, "ignoring invalid {RUST_LOG}");
    }
}

/// The target of lines about a session's start. Shown unless `--quiet` is given.
pub(crate) const PROGRESS: &str = "aifo_coder::progress";

/// A level, or comma-separated `target=level` pairs: `info`, `warn,aifo_proxy=trace`. Overrides the
/// flags.
const RUST_LOG: &str = "RUST_LOG";

/// Prints a line with the program's name before it.
pub(crate) fn say(text: impl Display) {
    // A closed stderr has no reader.
    let _ = writeln!(std::io::stderr(), "aifo-coder: {}", escape_line(&text.to_string()));
}

/// Prints lines without the program's name.
pub(crate) fn say_lines(text: &str) {
    let _ = write!(std::io::stderr(), "{}", aifo_types::escape_text(text));
}

/// A writer to stderr that escapes text for terminals, for lines that libraries write.
pub(crate) struct EscapedStderr;

impl std::io::Write for EscapedStderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        say_lines(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Prints the error of the whole command; a hint in its text gets its own line.
pub(crate) fn fail(error: &anyhow::Error) {
    let text = error_chain(error);
    let mut stderr = std::io::stderr().lock();
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    for (index, line) in text.lines().enumerate() {
        let prefix = if index == 0 { "aifo-coder: " } else { "" };
        // A closed stderr has no reader.
        let _ = writeln!(stderr, "{clear}{prefix}{}", escape_line(line));
    }
}

/// The error and its causes, without those that an outer message already contains.
pub(crate) fn error_chain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |mut error_chain, cause| {
        let cause = cause.to_string();
        if error_chain.is_empty() {
            error_chain = cause;
        } else if !error_chain.contains(&cause) {
            error_chain.push_str(": ");
            error_chain.push_str(&cause);
        }
        error_chain
    })
}

/// `aifo-coder: message key=value ..`
struct Line {
    /// Clears the line first: a terminal may show another program's partial line.
    clears: bool,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let clear = if self.clears { "\r\x1b[K" } else { "" };
        writeln!(writer, "{clear}aifo-coder: {}{}", fields.message, fields.rest)
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = escape_line(&format!("{value:?}"));
        // Writing to a String does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{text}"),
            name => write!(self.rest, " {name}={text}"),
        };
    }
}
