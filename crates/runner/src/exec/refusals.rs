//! Refusals of the network that an exec caused (`spec/network.md#callers`).

use std::time::{Duration, Instant};

use aifo_types::ToolName;

/// The first different refusals, and the number of further ones.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    texts: Vec<String>,
    /// How many of them the client has.
    sent: usize,
    /// When the client gets the others though the tool still runs.
    due: Option<Instant>,
    omitted: u32,
}

/// A tool that still runs so long after a refusal probably tries again: its user should know.
const RETRY_TIME: Duration = Duration::from_secs(3);

/// A call's stderr gets no more lines.
const MAX_LINES: usize = 3;

impl Refusals {
    /// Adds a refusal. One that is kept already counts once.
    pub(super) fn add(&mut self, text: String, now: Instant) {
        if self.texts.contains(&text) {
            return;
        }
        if self.texts.len() < MAX_LINES {
            self.texts.push(text);
            self.due = self.due.or(Some(now + RETRY_TIME));
        } else {
            self.omitted = self.omitted.saturating_add(1);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the lines that are due while the tool runs.
    pub(super) fn take_due(&mut self, tool: &ToolName, now: Instant) -> Vec<String> {
        match self.due.is_some_and(|due| due <= now) {
            true => self.take(tool),
            false => Vec::new(),
        }
    }

    /// Returns the lines of a tool that has failed.
    pub(super) fn take_all(&mut self, tool: &ToolName) -> Vec<String> {
        let mut lines = self.take(tool);
        let more = match self.omitted {
            0 => return lines,
            1 => "1 more time".to_owned(),
            count => format!("{count} more times"),
        };
        lines.push(format!("{tool} was refused {more}; see: aifo-coder net"));
        lines
    }

    fn take(&mut self, tool: &ToolName) -> Vec<String> {
        self.due = None;
        let left = self.texts.iter().skip(std::mem::replace(&mut self.sent, self.texts.len()));
        left.map(|text| format!("{tool} was refused {text}")).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_refused_many_names_has_few_lines() {
        let mut refusals = Refusals::default();
        let tool = ToolName::parse(b"cargo").unwrap();
        let now = Instant::now();
        assert_eq!((refusals.take_all(&tool), refusals.poll_timeout()), (vec![], None));
        for number in [1, 1, 2, 3, 4, 4, 5] {
            refusals.add(format!("n{number}.example"), now);
        }
        let expected = [
            "cargo was refused n1.example",
            "cargo was refused n2.example",
            "cargo was refused n3.example",
            "cargo was refused 3 more times; see: aifo-coder net",
        ];
        assert_eq!(refusals.take_all(&tool), expected);
    }

    #[test]
    fn a_tool_that_goes_on_after_a_refusal_has_its_line_while_it_runs() {
        let mut refusals = Refusals::default();
        let tool = ToolName::parse(b"npm").unwrap();
        let now = Instant::now();
        refusals.add("a.example".to_owned(), now);
        let due = refusals.poll_timeout().unwrap();
        assert_eq!(refusals.take_due(&tool, now), [""; 0]);
        assert_eq!(refusals.take_due(&tool, due), ["npm was refused a.example"]);
        assert_eq!(refusals.poll_timeout(), None);
        refusals.add("a.example".to_owned(), due);
        assert_eq!(refusals.take_all(&tool), [""; 0], "each once");
        refusals.add("b.example".to_owned(), due);
        assert_eq!(refusals.take_all(&tool), ["npm was refused b.example"]);
    }
}
