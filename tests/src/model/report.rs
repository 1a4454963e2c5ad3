//! Agents' reports of commands to their model.

use serde::Deserialize;

/// A command of the script and its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The command in the script; for a call, the tool name.
    pub command: String,
    /// The whole report: the output and the agent's own text around it.
    pub output: String,
    /// The exit code in the report; `None` if there is none. opencode and aider never report it,
    /// gemini and claude only on failure.
    pub exit: Option<i32>,
}

impl ToolResult {
    /// The result of a tool call that was reported in parts.
    pub(super) fn from_reports(command: &str, parts: &[&str]) -> Self {
        let last = parts.last().copied().unwrap_or_default();
        let (output, exit) = match Parts::of(last) {
            Some(parts) => (parts.stdout + &parts.stderr, Some(parts.exit)),
            None => (parts.join("\n"), exit(last)),
        };
        ToolResult { command: command.to_owned(), output, exit }
    }

    /// The output that the user of an agent without tools shared. A command without output is not
    /// reported: then the user's next text follows.
    pub(super) fn from_user_text(command: &str, user_text: &str) -> Self {
        let output = if user_text.starts_with("Output from ") { user_text } else { "" };
        ToolResult { command: command.to_owned(), output: output.to_owned(), exit: None }
    }
}

/// The number of codex's session in which a command continues.
pub(super) fn running(report: &str) -> Option<u64> {
    let words = "Process running with session ID ";
    report.lines().find_map(|line| line.strip_prefix(words))?.trim().parse().ok()
}

/// vibe's report, a JSON document.
#[derive(Debug, Deserialize)]
struct Parts {
    stdout: String,
    stderr: String,
    #[serde(rename = "returncode")]
    exit: i32,
}

impl Parts {
    fn of(report: &str) -> Option<Self> {
        serde_json::from_str(report).ok()
    }
}

/// The exit code in a report of any agent.
fn exit(report: &str) -> Option<i32> {
    let exit_code = |line: &str| {
        let line = line.trim_start();
        if line.starts_with(KIMIS_SUCCESS) {
            return Some(0);
        }
        WORDS.iter().find_map(|(start, words)| {
            let rest = line.strip_prefix(start)?;
            number(rest.get(rest.find(words)? + words.len()..)?)
        })
    };
    report.lines().find_map(exit_code)
}

/// The number at the start of a text.
fn number(text: &str) -> Option<i32> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// The start of the line with the exit code, and the text before the number.
const WORDS: [(&str, &str); 6] = [
    // codex
    ("Process exited", "with code"),
    // gemini, qwen
    ("Exit Code:", ""),
    // claude, only on failure
    ("Exit code", ""),
    // openhands
    ("[The command completed", "with exit code"),
    // copilot
    ("<shellId:", "completed with exit code"),
    // kimi
    ("<system>ERROR: Command failed", "with exit code:"),
];

const KIMIS_SUCCESS: &str = "<system>Command executed successfully.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_in_the_words_of_each_agent() {
        let rows = [
            ("Chunk ID: 6205de\nProcess exited with code 3\nOutput:\noops\n", Some(3)),
            ("Output: oops\nError: (none)\nExit Code: 3\nSignal: (none)\n", Some(3)),
            ("<untrusted_context>\nOutput: 9\nProcess Group PGID: 11719\n", None),
            ("Exit code 3\noops", Some(3)),
            ("oops\n[The command completed with exit code -1.]\n", Some(-1)),
            ("oops\n<shellId: 2 completed with exit code 3>", Some(3)),
            ("<system>ERROR: Command failed with exit code: 3.</system>oops\n", Some(3)),
            ("<system>Command executed successfully.</system>fine\n", Some(0)),
            ("marker-42\n", None),
            ("the exit code was 3", None),
            ("Exit code none", None),
        ];
        for (report, exit) in rows {
            let result = ToolResult::from_reports("make", &[report]);
            assert_eq!((result.output.as_str(), result.exit), (report, exit), "{report}");
        }
    }

    #[test]
    fn a_report_in_parts_is_put_together() {
        let report = r#"{"command":"make","returncode":3,"stderr":"oops\n","stdout":"fine\n"}"#;
        let result = ToolResult::from_reports("make", &[report]);
        assert_eq!((result.output.as_str(), result.exit), ("fine\noops\n", Some(3)));
    }
}
