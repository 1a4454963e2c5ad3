//! Lines on stderr, in one format, with control characters escaped.

mod screen;

use std::error::Error;
use std::fmt::{self, Display, Write as _};
use std::io::{self, IsTerminal};

use aifo_types::escape_line;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Registry,
    filter::Targets,
    layer::{Context, Layer, SubscriberExt},
};

pub use screen::{HeldLines, Hold, Log, hold, set_status};

/// The lines that a command prints on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Errors only.
    Quiet,
    /// Also slow starts of sidecars.
    Warnings,
    /// Also notices for the operator of a server.
    Notices,
    /// Also every decision.
    Decisions,
}

/// Starts logging to stderr, and to the log of a session that is [held](hold).
pub fn start(log_level: LogLevel, refusals: &'static str) {
    let level = match log_level {
        LogLevel::Quiet | LogLevel::Warnings => Level::WARN,
        LogLevel::Notices => Level::INFO,
        LogLevel::Decisions => Level::DEBUG,
    };
    let default = Targets::new().with_default(level);
    let default = match log_level {
        LogLevel::Quiet => default,
        _ => default.with_target(PROGRESS, level.max(Level::INFO)),
    };
    let given = std::env::var(RUST_LOG).ok().filter(|given| !given.trim().is_empty());
    let targets = given.as_deref().map(str::parse::<Targets>);
    let (shown, mistake) = match targets {
        Some(Ok(targets)) => (targets, None),
        Some(Err(error)) => (default, Some(error)),
        None => (default, None),
    };
    screen::report_panics();
    if shown.would_enable(PROGRESS, &Level::INFO) {
        screen::show_progress();
    }
    // Fails only if set twice; this is the only caller.
    let _ = tracing::subscriber::set_global_default(
        Registry::default().with(Lines { shown, refusals }),
    );
    if let Some(error) = mistake {
        tracing::warn!(%error, "ignoring invalid {RUST_LOG}");
    }
}

/// The target of lines about a session's start. Shown unless `--quiet` is given. No module has this
/// name, whose own notices would be shown too.
pub const PROGRESS: &str = "aifo_coder::session_start";

/// Returns whether stdin and stdout are a terminal.
pub fn is_on_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Returns a number with its noun: "1 file", "2 files".
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A level, or comma-separated `target=level` pairs: `info`, `warn,aifo_proxy=trace`. Overrides the
/// flags.
const RUST_LOG: &str = "RUST_LOG";

/// Prints text with the program's name before it; a hint in it gets its own line.
pub fn say(text: impl Display) {
    print_lines(Level::INFO, &text.to_string());
}

fn print_lines(level: Level, text: &str) {
    for (index, line) in text.lines().enumerate() {
        let prefix = if index == 0 { "aifo-coder: " } else { "" };
        screen::print(level, &format!("{prefix}{}", escape_line(line)));
    }
}

/// Prints lines without the program's name.
pub fn say_lines(text: &str) {
    screen::print(Level::INFO, aifo_types::escape_text(text).trim_end_matches('\n'));
}

/// A writer to stderr that escapes text for terminals, for lines that libraries write.
pub struct EscapedStderr;

impl io::Write for EscapedStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().write_all(aifo_types::escape_text(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Prints the error of the whole command; a hint in its text gets its own line.
pub fn fail(error: &impl AsRef<dyn Error + Send + Sync>) {
    let error = error.as_ref();
    let text = chain_text(error);
    let remedy = remedy(error).filter(|_| !text.contains("\nhint: "));
    let hint = remedy.map(|remedy| format!("\nhint: {remedy}")).unwrap_or_default();
    print_lines(Level::ERROR, &format!("{text}{hint}"));
}

/// Returns the remedy of an error of the file system that any command can meet.
fn remedy(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut causes = chain(error).filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.find_map(|cause| match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(
            "free space; `aifo-coder cache list` and `aifo-coder state list` show the files \
             that aifo keeps",
        ),
        io::ErrorKind::ReadOnlyFilesystem => Some(
            "set XDG_RUNTIME_DIR, TMPDIR, XDG_STATE_HOME and XDG_DATA_HOME to directories that you can \
             write to",
        ),
        _ => None,
    })
}

/// The error and its causes, without those that an outer message already contains.
pub fn error_chain(error: &impl AsRef<dyn Error + Send + Sync>) -> String {
    chain_text(error.as_ref())
}

fn chain_text(error: &(dyn Error + 'static)) -> String {
    chain(error).fold(String::new(), |mut text, cause| {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        text
    })
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// Formats events as `aifo-coder: message key=value ..`.
struct Lines {
    /// The events that are printed.
    shown: Targets,
    /// The target of refusals, which a held terminal does not get: their caller does.
    refusals: &'static str,
}

impl Lines {
    fn is_shown(&self, metadata: &Metadata<'_>) -> bool {
        self.shown.would_enable(metadata.target(), metadata.level())
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    /// The log of a session also gets aifo's notices.
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let is_notice = *metadata.level() <= Level::INFO && metadata.target().starts_with("aifo");
        is_notice || self.is_shown(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = format!("aifo-coder: {}{}", fields.message, fields.rest);
        let level = *event.metadata().level();
        match self.is_shown(event.metadata()) {
            true if event.metadata().target() == self.refusals => {
                screen::print_or_record(level, &line);
            }
            true => screen::print(level, &line),
            false => screen::record(level, &line),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start a session")]
    struct Outer(#[source] io::Error);

    #[test]
    fn errors_of_a_disk_have_a_remedy() {
        let remedy = |kind: io::ErrorKind| remedy(&Outer(kind.into()));
        assert!(remedy(io::ErrorKind::StorageFull).unwrap().starts_with("free space; "));
        assert!(remedy(io::ErrorKind::ReadOnlyFilesystem).unwrap().contains("TMPDIR"));
        assert_eq!(remedy(io::ErrorKind::NotFound), None);
    }
}
