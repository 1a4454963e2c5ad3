//! Refusals of the network that an exec caused (`spec/network.md#callers`).

use aifo_types::ToolName;

/// The first different refusals, and the number of further ones.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    texts: Vec<String>,
    omitted: u32,
}

/// A call's stderr gets no more lines.
const MAX_LINES: usize = 3;

impl Refusals {
    /// Adds a refusal. One that is kept already counts once.
    pub(super) fn add(&mut self, text: String) {
        if self.texts.contains(&text) {
            return;
        }
        match self.texts.len() < MAX_LINES {
            true => self.texts.push(text),
            false => self.omitted = self.omitted.saturating_add(1),
        }
    }

    /// Returns a line for each.
    pub(super) fn lines(&self, tool: &ToolName) -> impl Iterator<Item = String> + use<> {
        let line = |text: &String| format!("{tool} was refused {text}");
        let more = (self.omitted > 0).then(|| {
            format!("{tool} was refused more {} times; see: aifo-coder net", self.omitted)
        });
        self.texts.iter().map(line).chain(more).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_refused_many_names_has_few_lines() {
        let mut refusals = Refusals::default();
        let tool = ToolName::parse(b"cargo").unwrap();
        assert_eq!(refusals.lines(&tool).count(), 0);
        for number in [1, 1, 2, 3, 4, 4, 5] {
            refusals.add(format!("n{number}.example"));
        }
        let lines: Vec<_> = refusals.lines(&tool).collect();
        let expected = [
            "cargo was refused n1.example",
            "cargo was refused n2.example",
            "cargo was refused n3.example",
            "cargo was refused more 3 times; see: aifo-coder net",
        ];
        assert_eq!(lines, expected);
    }
}
