//! Prints YAML with comments: block mappings and sequences, and quoted strings.

/// A value of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// Entries in their order.
    Map(Vec<Entry>),
    List(Vec<Node>),
    Text(String),
    Number(u64),
    Flag(bool),
}

/// An entry of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    key: String,
    value: Node,
    /// Lines before the entry.
    comments: Vec<String>,
}

impl Entry {
    pub(crate) fn new(key: impl Into<String>, value: impl Into<Node>) -> Self {
        Entry { key: key.into(), value: value.into(), comments: Vec::new() }
    }

    /// Adds a comment before the entry. Its line breaks start further comment lines.
    pub(crate) fn comment(mut self, text: impl AsRef<str>) -> Self {
        self.comments.extend(text.as_ref().lines().map(str::to_owned));
        self
    }

    /// Prints the comments, and continues at the same column.
    fn print_comments(&self, indent: usize, text: &mut String) {
        for comment in &self.comments {
            text.push_str("# ");
            text.push_str(&one_line(comment));
            text.push('\n');
            pad(indent, text);
        }
    }
}

/// Returns a mapping.
pub(crate) fn map(entries: impl IntoIterator<Item = Entry>) -> Node {
    Node::Map(entries.into_iter().collect())
}

/// Returns a sequence.
pub(crate) fn list<N: Into<Node>>(items: impl IntoIterator<Item = N>) -> Node {
    Node::List(items.into_iter().map(Into::into).collect())
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Node::Text(text.to_owned())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Node::Text(text)
    }
}

impl From<u64> for Node {
    fn from(number: u64) -> Self {
        Node::Number(number)
    }
}

impl From<bool> for Node {
    fn from(flag: bool) -> Self {
        Node::Flag(flag)
    }
}

impl Node {
    /// Prints a document, with a line feed at its end.
    pub(crate) fn print(&self) -> String {
        let mut text = String::new();
        self.print_lead(0, &mut text);
        self.print_at(0, &mut text);
        text
    }

    /// Prints at the current position, whose line has `indent` columns.
    fn print_at(&self, indent: usize, text: &mut String) {
        match self {
            Node::Map(entries) if !entries.is_empty() => {
                for (index, entry) in entries.iter().enumerate() {
                    if index > 0 {
                        pad(indent, text);
                        entry.print_comments(indent, text);
                    }
                    text.push_str(&scalar(&entry.key));
                    text.push(':');
                    if entry.value.is_block() {
                        text.push('\n');
                        pad(indent + 2, text);
                        entry.value.print_lead(indent + 2, text);
                        entry.value.print_at(indent + 2, text);
                    } else {
                        text.push(' ');
                        entry.value.print_flow(text);
                        text.push('\n');
                    }
                }
            }
            Node::List(items) if self.is_block() => {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        pad(indent, text);
                        item.print_lead(indent, text);
                    }
                    text.push_str("- ");
                    if item.is_short(MAX_FLOW_ITEM) {
                        item.print_flow(text);
                        text.push('\n');
                    } else {
                        item.print_at(indent + 2, text);
                    }
                }
            }
            flow => {
                flow.print_flow(text);
                text.push('\n');
            }
        }
    }

    /// Prints the comments of the first entry, which precede the node.
    fn print_lead(&self, indent: usize, text: &mut String) {
        match self {
            Node::Map(entries) => {
                if let Some(first) = entries.first() {
                    first.print_comments(indent, text);
                }
            }
            Node::List(items) => {
                if let Some(first) = items.first() {
                    first.print_lead(indent, text);
                }
            }
            Node::Text(_) | Node::Number(_) | Node::Flag(_) => {}
        }
    }

    fn print_flow(&self, text: &mut String) {
        match self {
            Node::Map(entries) => {
                text.push('{');
                for (index, entry) in entries.iter().enumerate() {
                    if index > 0 {
                        text.push_str(", ");
                    }
                    text.push_str(&scalar(&entry.key));
                    text.push_str(": ");
                    entry.value.print_flow(text);
                }
                text.push('}');
            }
            Node::List(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        text.push_str(", ");
                    }
                    item.print_flow(text);
                }
                text.push(']');
            }
            Node::Text(value) => text.push_str(&scalar(value)),
            Node::Number(number) => text.push_str(&number.to_string()),
            Node::Flag(flag) => text.push_str(if *flag { "true" } else { "false" }),
        }
    }

    /// Returns whether it is printed on lines of its own. Short ones are not, for a short manifest.
    fn is_block(&self) -> bool {
        match self {
            Node::Map(entries) => !entries.is_empty() && !self.is_short(MAX_FLOW_MAP),
            Node::List(items) => {
                items.iter().any(|item| matches!(item, Node::Map(_) | Node::List(_)))
            }
            Node::Text(_) | Node::Number(_) | Node::Flag(_) => false,
        }
    }

    fn is_short(&self, columns: usize) -> bool {
        let mut text = String::new();
        self.print_flow(&mut text);
        !self.has_comments() && text.len() <= columns
    }

    fn has_comments(&self) -> bool {
        match self {
            Node::Map(entries) => {
                entries.iter().any(|it| !it.comments.is_empty() || it.value.has_comments())
            }
            Node::List(items) => items.iter().any(Node::has_comments),
            Node::Text(_) | Node::Number(_) | Node::Flag(_) => false,
        }
    }
}

/// The longest mapping on the line of its key, and the longest item on a line of its own.
const MAX_FLOW_MAP: usize = 50;
const MAX_FLOW_ITEM: usize = 110;

fn pad(columns: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', columns));
}

/// A comment ends with its line.
fn one_line(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}

/// Returns a text: plain, if no YAML version reads that as something else.
fn scalar(text: &str) -> String {
    let name = text.trim_start_matches(['-', '/']);
    // More than two dashes at the start, or three alone, separate documents.
    let starts_well =
        text.len() - name.len() <= 2 && name.starts_with(|first: char| first.is_ascii_alphabetic());
    let is_plain = starts_well
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        && !["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
            .contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// Returns a text in double quotes, as JSON's.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            // Beside control characters, line ends of YAML 1.1 and the byte order mark.
            '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            control if control.is_control() => {
                text.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_back() {
        let words = [
            "",
            "no",
            "1",
            "a: b",
            "# x",
            "\"\\\n\t\u{1}\u{85}\u{2028}é",
            "- x",
            "{{x}}",
            "*",
            "--a",
            "/b",
            "-c",
            "---",
            "0x1",
            "1e3",
            "Null",
            "~",
        ];
        let document = map([
            Entry::new("words", list(words)).comment("two\nlines\r: of it"),
            Entry::new("on", true),
            Entry::new("1", 5),
            Entry::new("empty", map([])),
            Entry::new("none", list::<Node>([])),
            Entry::new(
                "nested",
                list([
                    map([Entry::new("a", map([Entry::new("b", "c")])).comment("first")]),
                    map([
                        Entry::new("d", list([list(["e"])])).comment("second"),
                        Entry::new("f", 1),
                    ]),
                ]),
            ),
        ]);
        let text = document.print();
        let read: serde_json::Value = serde_yaml::from_str(&text).expect(&text);
        let expected = serde_json::json!({
            "words": words, "on": true, "1": 5, "empty": {}, "none": [],
            "nested": [{"a": {"b": "c"}}, {"d": [["e"]], "f": 1}],
        });
        assert_eq!(read, expected, "{text}");
        assert!(text.starts_with("# two\n# lines : of it\nwords: ["), "{text}");
        assert!(text.contains("--a, /b, -c, \"---\""), "{text}");
    }
}
