//! What an agent that has failed said, for people.

use aifo_acp_io::PeerEnd;
use anyhow::anyhow;

/// What is told of what an agent said, of each kind.
const LINES: usize = 20;

/// The failure of an agent, with how it ended and the last that it said.
pub(crate) fn agent_failure(name: &str, why: &str, end: &PeerEnd, stray: &str) -> anyhow::Error {
    let status = match &end.status {
        Ok(status) => status.to_string(),
        Err(error) => format!("how it ended is unknown: {error}"),
    };
    // What would help stands last.
    let (why, hint) = why.split_once("\nhint: ").unwrap_or((why, ""));
    let mut text = format!("{name}: {why} ({status})");
    for (what, said) in [("on stderr", end.stderr.as_str()), ("instead of messages", stray)] {
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
        if !last.is_empty() {
            text.push_str(&format!("\nit said {what}:"));
            last.iter().for_each(|line| text.push_str(&format!("\n  {line}")));
        }
    }
    if !hint.is_empty() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    anyhow!(text)
}
