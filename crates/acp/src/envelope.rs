//! Reads the id and the method of an oversized message from its first bytes.

use serde_json::Value;

use crate::json::parse_json;
use crate::message::Id;

/// The id and the method of a message, as far as its first bytes have them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope {
    /// The request id.
    pub id: Option<Id>,
    /// The method, for a request or a notification.
    pub method: Option<String>,
}

impl Envelope {
    /// Parses the first bytes of one message; truncated values are ignored.
    pub fn read(head: &[u8]) -> Self {
        let mut envelope = Envelope::default();
        let mut depth = 0usize;
        // Key of the outermost object whose value comes next.
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

/// Parses a token as an id.
fn id(token: &[u8]) -> Option<Id> {
    Id::parse(value(token)?)
}

/// Returns the text of a quoted token.
fn text(token: &[u8]) -> Option<String> {
    match value(token)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn value(token: &[u8]) -> Option<Value> {
    parse_json(std::str::from_utf8(token).ok()?, 1).ok()
}

/// Tokens of possibly truncated JSON: punctuation, quoted texts, other values.
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
            // Without a delimiter the token may be truncated.
            _ => bytes.iter().position(|byte| b"{}[]:,\" \t\r\n".contains(byte))?,
        };
        let (token, rest) = bytes.split_at_checked(len)?;
        self.rest = rest;
        Some(token)
    }
}

/// Returns the length of the quoted text at the start of `bytes`; `None` if truncated.
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
    fn first_bytes_have_id_and_method() {
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
            // Truncated within the id.
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
    fn any_bytes_are_accepted() {
        let head = br#"{"id":"\u00e9","method":"m\xff","params":{}}"#;
        for at in 0..head.len() {
            Envelope::read(&head[..at]);
            Envelope::read(&head[at..]);
        }
        assert_eq!(Envelope::read(b"{\"id\":\"\xff\",").id, None);
    }
}
