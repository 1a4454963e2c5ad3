//! Debug log lines about a turn and its answer (`spec/acp-commands.md#log-lines`).

use std::collections::BTreeMap;

use aifo_acp::{Answer, Counts, Traffic};

/// Characters of an answer that are logged.
const PREFIX: usize = 60;

/// Logs a finished turn.
pub fn log_turn(session: &str, outcome: &str, counts: &Counts, traffic: Traffic) {
    let Traffic { requests, notifications, responses, batches, non_json, too_long } = traffic;
    let updates = listed(&counts.kinds);
    tracing::debug!(
        session,
        outcome,
        updates,
        dropped = counts.dropped,
        requests,
        notifications,
        responses,
        batches,
        noise = non_json,
        too_long,
        "turn"
    );
}

/// Logs an answer: the number of its blocks by type, and the beginning of its text.
pub fn log_answer(session: &str, answer: &Answer) {
    let mut blocks = BTreeMap::new();
    for block in &answer.blocks {
        let kind = block.get("type").and_then(|kind| kind.as_str()).unwrap_or("(none)");
        *blocks.entry(kind.to_owned()).or_insert(0_u64) += 1;
    }
    let bytes = answer.text.len();
    tracing::debug!(
        session,
        blocks = listed(&blocks),
        bytes,
        text = prefix(&answer.text),
        "answer"
    );
}

/// `agent_message_chunk:2,plan:1`
fn listed(counts: &BTreeMap<String, u64>) -> String {
    let pairs: Vec<_> = counts.iter().map(|(name, count)| format!("{name}:{count}")).collect();
    if pairs.is_empty() { "none".to_owned() } else { pairs.join(",") }
}

fn prefix(text: &str) -> String {
    match text.char_indices().nth(PREFIX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}..", text.get(..at).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_beginnings() {
        let counts =
            BTreeMap::from([("plan".to_owned(), 1), ("agent_message_chunk".to_owned(), 2)]);
        assert_eq!(listed(&counts), "agent_message_chunk:2,plan:1");
        assert_eq!(listed(&BTreeMap::new()), "none");
        assert_eq!(prefix("short"), "short");
        assert_eq!(prefix(&"é".repeat(61)), format!("{}..", "é".repeat(60)));
    }
}
