//! The error message for an agent that failed.

use crate::agent_process::AgentExit;

/// Lines of stderr, and of stdout that is no ACP, in an error message.
const LINES: usize = 20;

/// Returns a text with the cause, the agent's exit status and its last output.
pub fn agent_failure(name: &str, why: &str, end: &AgentExit, non_json: &str) -> String {
    let status = match &end.status {
        Ok(status) => status.to_string(),
        Err(error) => format!("exit status unknown: {error}"),
    };
    // The hint comes last.
    let (why, hint) = why.split_once("\nhint: ").unwrap_or((why, ""));
    let mut text = format!("{name}: {why} ({status})");
    for (stream, output) in [("stderr", end.stderr.as_str()), ("stdout, not ACP", non_json)] {
        let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
        if !last.is_empty() {
            text.push_str(&format!("\n{stream}:"));
            last.iter().for_each(|line| text.push_str(&format!("\n  {line}")));
        }
    }
    if !hint.is_empty() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    text
}
