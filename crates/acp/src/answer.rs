//! The answer of a turn.

use serde_json::Value;

/// The answer of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Where other messages than the first begin in the text, in bytes.
    pub messages: Vec<usize>,
    /// All content blocks, adjacent texts joined.
    pub blocks: Vec<Value>,
}

impl Answer {
    pub(crate) fn push_text(&mut self, text: &mut String) {
        if !text.is_empty() {
            self.text.push_str(text);
            // `json!` would copy the text, which may be long.
            let text = Value::String(std::mem::take(text));
            let members = [("type".to_owned(), "text".into()), ("text".to_owned(), text)];
            self.blocks.push(Value::Object(members.into_iter().collect()));
        }
    }

    /// Separates messages in the text and in the blocks by an empty line, unless they meet at white space:
    /// some agents call a tool in mid-sentence.
    pub(crate) fn separate_messages(&mut self) {
        let messages = std::mem::take(&mut self.messages);
        if messages.is_empty() {
            return;
        }
        separate(&mut self.text, messages.iter().copied());
        let mut begin = 0_usize;
        for block in &mut self.blocks {
            let is_text = block.get("type").is_some_and(|kind| kind == "text");
            let Some(Value::String(text)) = block.get_mut("text").filter(|_| is_text) else {
                continue;
            };
            let length = text.len();
            let end = begin.saturating_add(length);
            let from = messages.partition_point(|at| *at < begin);
            let to = messages.partition_point(|at| *at < end);
            let within = messages.get(from..to).unwrap_or_default();
            separate(text, within.iter().map(|at| at.saturating_sub(begin)));
            begin = end;
        }
    }
}

/// Inserts empty lines at these positions, which ascend.
fn separate(text: &mut String, positions: impl Iterator<Item = usize>) {
    let mut separated = String::new();
    let mut begin = 0;
    for at in positions {
        let (Some(before), Some(after)) = (text.get(begin..at), text.get(at..)) else { continue };
        if before.ends_with(|c: char| !c.is_whitespace())
            && after.starts_with(|c: char| !c.is_whitespace())
        {
            separated.extend([before, "\n\n"]);
            begin = at;
        }
    }
    if begin > 0 {
        separated.push_str(text.get(begin..).unwrap_or_default());
        *text = separated;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_separated_unless_at_white_space() {
        let separated = |text: &str, messages: &[usize]| {
            let mut answer = Answer { messages: messages.to_vec(), ..Answer::default() };
            answer.push_text(&mut text.to_owned());
            answer.separate_messages();
            assert_eq!(
                answer.blocks.first().map(|block| &block["text"]),
                Some(&json!(answer.text))
            );
            answer.text
        };
        assert_eq!(separated("ab", &[]), "ab");
        assert_eq!(separated("ab", &[1]), "a\n\nb");
        assert_eq!(separated("a b\nc", &[1, 4]), "a b\nc");
        assert_eq!(separated("abc", &[1, 2]), "a\n\nb\n\nc");
        assert_eq!(separated("äöü", &[0, 2, 2, 3, 4, 6, 9]), "ä\n\nö\n\nü");
    }

    #[test]
    fn messages_are_separated_within_blocks() {
        let mut answer = Answer { messages: vec![1, 2, 3], ..Answer::default() };
        answer.push_text(&mut "ab".to_owned());
        let image = json!({"type": "image", "text": "x"});
        answer.blocks.push(image.clone());
        answer.push_text(&mut "cd".to_owned());
        answer.separate_messages();
        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(answer.text, "a\n\nb\n\nc\n\nd");
        assert_eq!(answer.blocks, [text("a\n\nb"), image, text("c\n\nd")]);
    }
}
