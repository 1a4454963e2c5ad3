//! One call of a log, formatted as a line.

use aifo_terminal::clock::{Moment, duration};
use aifo_terminal::paint::Paint;
use aifo_types::{CallEnding, LoggedCall, escape_line};

/// Returns a line with time, ending, duration, peak memory, kind, call, then the exceeded limit or the
/// reason. A call that was made several `times` in a row has the number.
pub(crate) fn line(
    logged: &LoggedCall,
    times: usize,
    changed: Option<&str>,
    is_complete: bool,
    paint: Paint,
) -> String {
    let ending = format!("{:<9}", logged.ending_text());
    let ending = if logged.has_failed() { paint.bad(ending) } else { paint.good(ending) };
    let (wall, memory) = match logged.ending {
        CallEnding::Refused => (String::new(), String::new()),
        _ => (text_of(logged.wall_ms, duration), text_of(logged.max_rss_kib, memory)),
    };
    let time = paint.faint(Moment::from_unix_ms(logged.time));
    let kind = escape_line(logged.kind.as_deref().unwrap_or("-"));
    let mut command = escape_line(&logged.command());
    if !is_complete && command.chars().count() > MAX_COMMAND {
        command = command.chars().take(MAX_COMMAND).collect::<String>() + "..";
    }
    let mut line = format!("{time}  {ending}  {wall:>12}  {memory:>9}  {kind:<8}  {command}");
    if times > 1 {
        line += &paint.faint(format!("  # {times} times"));
    }
    if let Some(changed) = changed {
        line += &paint.faint(format!("  # {changed}"));
    }
    if let Some(limit) = &logged.limit {
        line += &paint.faint(format!("  # limit on {}", escape_line(limit)));
    }
    if let Some(rule) = &logged.no_network {
        line += &paint.faint(format!("  # without network, by rule '{}'", escape_line(rule)));
    }
    if let Some(reason) = &logged.reason {
        line += &paint.faint(format!("  # {}", on_one_line(reason)));
    }
    line + "\n"
}

/// Returns a reason, which may have a line with a hint, on one line.
pub(crate) fn on_one_line(reason: &str) -> String {
    escape_line(&reason.replace('\n', "; "))
}

/// The longest command that is printed without `--all`, in characters.
const MAX_COMMAND: usize = 120;

/// Formats a known number.
fn text_of(number: Option<u64>, format: fn(u64) -> String) -> String {
    number.map(format).unwrap_or_default()
}

/// Formats kibibytes as mebibytes, or as kibibytes below one.
fn memory(kib: u64) -> String {
    if kib < 1024 { format!("{kib} KiB") } else { format!("{} MiB", kib / 1024) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str, argv: &str, ending: CallEnding, exit_code: u8) -> LoggedCall {
        LoggedCall {
            time: 0,
            exec_id: String::new(),
            tool: tool.to_owned(),
            argv: argv.to_owned(),
            kind: None,
            exit_code,
            ending,
            limit: None,
            no_network: None,
            reason: None,
            wall_ms: Some(5),
            max_rss_kib: Some(900),
        }
    }

    #[test]
    fn a_line_for_each_ending() {
        let rows = [
            (
                LoggedCall {
                    time: 951_782_400_000,
                    kind: Some("rust".to_owned()),
                    wall_ms: Some(1234),
                    max_rss_kib: Some(90_000),
                    ..call("cargo", "test --all", CallEnding::Exited, 0)
                },
                "2000-02-29 00:00:00Z  exit 0           1.23 s     87 MiB  rust      cargo test --all\n",
            ),
            (
                LoggedCall {
                    kind: Some("c-cpp".to_owned()),
                    ..call("make", "", CallEnding::Signaled, 137)
                },
                "1970-01-01 00:00:00Z  signal 9           5 ms    900 KiB  c-cpp     make\n",
            ),
            (
                LoggedCall {
                    reason: Some("forbidden: tool 'ls'\u{1b}".to_owned()),
                    ..call("ls", "-l", CallEnding::Refused, 86)
                },
                "1970-01-01 00:00:00Z  refused                             -         ls -l  \
                 # forbidden: tool 'ls'\\u{1b}\n",
            ),
            (
                LoggedCall {
                    limit: Some("memory".to_owned()),
                    ..call("x", "y", CallEnding::Signaled, 137)
                },
                "  x y  # limit on memory\n",
            ),
            (
                LoggedCall {
                    wall_ms: None,
                    max_rss_kib: None,
                    ..call("git", "x", CallEnding::InPlace, 0)
                },
                "00Z  in place                            -         git x\n",
            ),
            (call("x", "", CallEnding::Unknown, 0), "  unknown  "),
            (call("x", "", CallEnding::Timeout, 124), "  timeout  "),
            (call("x", "", CallEnding::Exited, 1), "  exit 1   "),
        ];
        for (call, expected) in rows {
            let line = line(&call, 1, None, true, Paint::Plain);
            assert!(line.contains(expected), "{line}");
        }
    }

    #[test]
    fn repeats_are_counted_and_long_commands_are_cut() {
        let long = call("echo", &"x".repeat(200), CallEnding::Exited, 0);
        let line = line(&long, 3, Some("2 files, +1 -0"), false, Paint::Plain);
        assert!(
            line.ends_with(&format!("{}..  # 3 times  # 2 files, +1 -0\n", "x".repeat(115))),
            "{line}"
        );
    }

    #[test]
    fn colours_only_when_painted() {
        let line = line(&call("x", "", CallEnding::Exited, 1), 1, None, true, Paint::Colours);
        assert!(line.contains("\x1b[31mexit 1"), "{line:?}");
    }
}
