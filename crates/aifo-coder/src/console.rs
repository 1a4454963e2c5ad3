//! What we say on stderr: one line each, in one form, without characters that speak to a terminal.

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

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLevel {
    /// Only what went wrong.
    Quiet,
    /// And sidecars that take their time to start.
    Warnings,
    /// And what a person who watches a server wants to know.
    Notices,
    /// And every decision.
    Decisions,
}

/// Starts to write log lines to stderr.
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
    // It can only be set once, and this is the one place that does.
    let _ = tracing::subscriber::set_global_default(subscriber);
    if let Some(error) = mistake {
        tracing::warn!(%error, "{RUST_LOG} is ignored");
    }
}

/// The target of lines about a session that starts: where it runs, and what it waits for. They are
/// shown unless the user wants silence.
pub(crate) const PROGRESS: &str = "aifo_coder::progress";

/// A level, or `target=level` pairs with commas: `info`, `warn,aifo_proxy=trace`. It has the last
/// word where it is set.
const RUST_LOG: &str = "RUST_LOG";

/// Prints a line for people.
pub(crate) fn say(text: impl Display) {
    // A stderr that is gone has no reader.
    let _ = writeln!(std::io::stderr(), "aifo-coder: {}", escape_line(&text.to_string()));
}

/// Prints lines for people, without our name before them.
pub(crate) fn say_lines(text: &str) {
    let _ = write!(std::io::stderr(), "{}", aifo_types::escape_text(text));
}

/// Tells why the whole command failed; a hint in the error's text comes on a line of its own.
pub(crate) fn fail(error: &anyhow::Error) {
    let text = error_chain(error);
    let mut stderr = std::io::stderr().lock();
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    for (index, line) in text.lines().enumerate() {
        let prefix = if index == 0 { "aifo-coder: " } else { "" };
        // Nobody is left to be told that stderr is gone.
        let _ = writeln!(stderr, "{clear}{prefix}{}", escape_line(line));
    }
}

/// The error and its causes, each told once: many an error tells its cause in its own words.
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
    /// A terminal may show half a line of somebody else's.
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
