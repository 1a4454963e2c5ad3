//! Lines that a log leaves out or merges without `--all` (`spec/cli.md#log`).

use std::collections::BTreeMap;

use aifo_host::{LoggedLine, LoggedRecord};

/// Calls that agents made for themselves, by their class.
#[derive(Default)]
pub(crate) struct LeftOut(BTreeMap<&'static str, usize>);

impl LeftOut {
    /// Counts a call that is left out; returns whether it is.
    pub(crate) fn takes(&mut self, record: &LoggedRecord) -> bool {
        let LoggedRecord::Call(call) = record else { return false };
        let Some(class) = call.plumbing() else { return false };
        *self.0.entry(class).or_default() += 1;
        true
    }

    /// Returns the line about them, if there are some.
    pub(crate) fn text(&self) -> Option<String> {
        let count: usize = self.0.values().sum();
        let classes: Vec<_> =
            self.0.iter().map(|(class, count)| format!("{count} {class}")).collect();
        (count > 0).then(|| {
            let calls = if count == 1 { "call" } else { "calls" };
            format!(
                "{count} {calls} of the agent itself left out ({}); see: log --all",
                classes.join(", ")
            )
        })
    }
}

/// Merges calls that are repeated in a row into the last of them; returns how often each was made.
pub(crate) fn merge_repeats(lines: &mut Vec<LoggedLine>) -> Vec<usize> {
    let mut merged: Vec<LoggedLine> = Vec::with_capacity(lines.len());
    let mut times: Vec<usize> = Vec::with_capacity(lines.len());
    for line in lines.drain(..) {
        match (merged.last_mut(), times.last_mut()) {
            (Some(last), Some(count)) if is_repeat(last, &line) => {
                *last = line;
                *count += 1;
            }
            _ => {
                merged.push(line);
                times.push(1);
            }
        }
    }
    *lines = merged;
    times
}

fn is_repeat(last: &LoggedLine, line: &LoggedLine) -> bool {
    match (&last.record, &line.record) {
        (LoggedRecord::Call(a), LoggedRecord::Call(b)) => {
            (&a.tool, &a.argv, &a.kind, &a.reason, &a.limit, &a.no_network)
                == (&b.tool, &b.argv, &b.kind, &b.reason, &b.limit, &b.no_network)
                && (a.ending, a.exit_code) == (b.ending, b.exit_code)
        }
        _ => false,
    }
}
