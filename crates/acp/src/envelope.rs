//! Whose a message is that is too long to be read: what its first bytes tell.

use serde_json::Value;

use crate::json::parse_json;
use crate::message::Id;

/// The id and the method of a message, as far as they stand in its first bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope {
    /// Whose answer it is, or which request.
    pub id: Option<Id>,
    /// What it asks for or tells.
    pub method: Option<String>,
}

impl Envelope {
    /// Reads the first bytes of one message; what is cut off is not there.
    pub fn read(head: &[u8]) -> Self {
        let mut envelope = Envelope::default();
        let mut depth = 0usize;
        // The key of the outermost object whose value comes next.
        let mut key = None;
        let mut last = None;
        for token in (Tokens { rest: head }) {
            match token {
                [b'{' | b'['] => {
                    depth = depth.saturating_add(1);
                    key = None;
                }
                [b'}' | b']'] => depth = depth.saturating_sub(1),
                [b':'] if depth == 1 => key = last.and_then(text),
                [b','] => key = None,
                value => {
                    match key.take().as_deref() {
                        Some("id") => envelope.id = id(value),
                        Some("method") => envelope.method = text(value),
                        _ => {}
                    }
                    last = Some(value);
                }
            }
        }
        envelope
    }
}

/// The id that a token is.
fn id(token: &[u8]) -> Option<Id> {
    Id::parse(value(token)?)
}

/// What a token in quotes says.
fn text(token: &[u8]) -> Option<String> {
    match value(token)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn value(token: &[u8]) -> Option<Value> {
    parse_json(std::str::from_utf8(token).ok()?, 1).ok()
}

/// The tokens of JSON that may be cut off: punctuation, texts with their quotes, other values.
struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let bytes = self.rest.trim_ascii_start();
        let len = match bytes.first()? {
            b'{' | b'}' | b'[' | b']' | b':' | b',' => 1,
            b'"' => quoted(bytes)?,
            // Without anything behind it, it may be cut off.
            _ => bytes.iter().position(|byte| b"{}[]:,\" \t\r\n".contains(byte))?,
        };
        let (token, rest) = bytes.split_at_checked(len)?;
        self.rest = rest;
        Some(token)
    }
}

/// The length of the text in quotes that `bytes` begin with; `None` where it is cut off.
fn quoted(bytes: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let end = bytes.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    end.checked_add(2)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_first_bytes_tell() {
        let rows = [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"text":"aaa"#, Some(json!(7)), None),
            (
                r#"{"id":"x\"y","method":"fs/write_text_file","params":{"con"#,
                Some(json!("x\"y")),
                Some("fs/write_text_file"),
            ),
            (
                r#" { "method" : "session/update" , "params" : {"id": 3, "method": "no"#,
                None,
                Some("session/update"),
            ),
            (r#"{"params":{"a":[1,{"id":2}]},"id":3,"#, Some(json!(3)), None),
            (r#"{"a":"id","b":"\\","id":-4.5}"#, Some(json!(-4.5)), None),
            (
                r#"{"id":"\ud800","\udc00":1,"method":"m\udbff","#,
                Some(json!("\u{fffd}")),
                Some("m\u{fffd}"),
            ),
            // Cut off within the id, so that nobody knows it.
            (r#"{"id":7"#, None, None),
            (r#"{"id":"ab"#, None, None),
            (r#"{"id":null,"x":1,"#, None, None),
            (r#"[{"id":7,"result":"#, None, None),
            ("xxxxxxxx", None, None),
            ("", None, None),
        ];
        for (head, id, method) in rows {
            let expected =
                Envelope { id: id.and_then(Id::parse), method: method.map(str::to_owned) };
            assert_eq!(Envelope::read(head.as_bytes()), expected, "{head}");
        }
    }

    #[test]
    fn any_bytes_will_do() {
        let head = br#"{"id":"\u00e9","method":"m\xff","params":{}}"#;
        for at in 0..head.len() {
            Envelope::read(&head[..at]);
            Envelope::read(&head[at..]);
        }
        assert_eq!(Envelope::read(b"{\"id\":\"\xff\",").id, None);
    }
}
