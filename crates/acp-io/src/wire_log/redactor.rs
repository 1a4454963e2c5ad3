//! What of a connection may not stand in a log.

use aifo_types::{HIDDEN, names_secret};
use serde_json::{Map, Value};

/// Takes secrets out of what is logged (`spec/acp-wire.md#secrets`): those that are known, wherever they
/// stand, and what stands under a name that says so.
///
/// What nobody knows, and what nothing names, stays: a secret in the middle of an answer, or one
/// that comes in several pieces.
#[derive(Debug)]
pub(super) struct Redactor {
    /// The longest first, as one may be a part of another.
    secrets: Vec<String>,
}

impl Redactor {
    pub(super) fn new(mut secrets: Vec<String>) -> Self {
        // Of a word of three letters every line is full.
        secrets.retain(|secret| secret.len() >= SHORTEST);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Redactor { secrets }
    }

    /// Takes them out of a frame.
    pub(super) fn frame(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.known(text),
            Value::Array(items) => self.items(items),
            Value::Object(members) => self.members(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Takes them out of a line of text: what follows `NAME=` or `NAME:` goes to the line's end, as
    /// nobody knows how long it is.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.known(&mut text);
        let is_sign = |(_, byte): &(usize, u8)| matches!(byte, b'=' | b':');
        let named = text.bytes().enumerate().filter(is_sign).find(|(at, _)| {
            let before = text.get(..*at).unwrap_or_default().trim_end_matches(['"', '\'', ' ']);
            let is_end = |char: char| !char.is_ascii_alphanumeric() && !"-_.".contains(char);
            let name = before.rsplit(is_end).next().unwrap_or_default();
            names_secret(name.as_bytes())
        });
        if let Some((at, _)) = named {
            text.truncate(at.saturating_add(1));
            text.push_str(HIDDEN);
        }
        text
    }

    /// Takes out those that are known.
    fn known(&self, text: &mut String) {
        for secret in &self.secrets {
            if text.contains(secret) {
                *text = text.replace(secret, HIDDEN);
            }
        }
    }

    /// Among words of a command line an option tells what the next one is.
    fn items(&self, items: &mut [Value]) {
        let mut hide_next = false;
        for item in items {
            let Value::String(word) = item else {
                hide_next = false;
                self.frame(item);
                continue;
            };
            if std::mem::take(&mut hide_next) {
                *word = HIDDEN.to_owned();
                continue;
            }
            match word.split_once('=') {
                Some((name, _)) if names_secret(name.as_bytes()) => {
                    *word = format!("{name}={HIDDEN}");
                }
                Some(_) => self.known(word),
                None => {
                    hide_next = word.starts_with('-') && names_secret(word.as_bytes());
                    self.known(word);
                }
            }
        }
    }

    fn members(&self, members: &mut Map<String, Value>) {
        // A variable or a header: `{"name": "API_KEY", "value": ".."}`.
        let name = members.get("name").and_then(Value::as_str).unwrap_or_default();
        let is_secret = names_secret(name.as_bytes());
        for (name, value) in members {
            if names_secret(name.as_bytes()) || (is_secret && name == "value") {
                hide(value);
            } else if name == "headers" {
                self.headers(value);
            } else {
                self.frame(value);
            }
        }
    }

    /// Any header may carry a key, whatever it is called.
    fn headers(&self, headers: &mut Value) {
        match headers {
            Value::Object(headers) => headers.values_mut().for_each(hide),
            Value::Array(headers) => {
                for header in headers {
                    match header.get_mut("value") {
                        Some(value) => hide(value),
                        None => self.frame(header),
                    }
                }
            }
            other => self.frame(other),
        }
    }
}

/// Takes out everything of a value but its form.
fn hide(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Object(members) => members.values_mut().for_each(hide),
        Value::Number(_) | Value::String(_) => *value = HIDDEN.into(),
    }
}

/// A secret that is shorter than this is none, in bytes.
const SHORTEST: usize = 4;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redactor() -> Redactor {
        Redactor::new(vec!["s3cret".into(), "s3cret-long".into(), String::new(), "abc".into()])
    }

    #[test]
    fn frames_keep_their_form() {
        let rows = [
            (json!({"token": "x", "totalTokens": 7}), json!({"token": HIDDEN, "totalTokens": 7})),
            (
                json!({"apiKey": {"a": [1, "x", null, true]}}),
                json!({"apiKey": {"a": [HIDDEN, HIDDEN, null, true]}}),
            ),
            (
                json!({"env": [{"name": "API_KEY", "value": "x"}, {"name": "HOME", "value": "/"}]}),
                json!({"env": [{"name": "API_KEY", "value": HIDDEN}, {"name": "HOME", "value": "/"}]}),
            ),
            (
                json!({"mcpServers": [{"name": "m", "headers": [{"name": "X-Any", "value": "x"}]}]}),
                json!({"mcpServers": [{"name": "m", "headers": [{"name": "X-Any", "value": HIDDEN}]}]}),
            ),
            (json!({"headers": {"X-Any": "x"}}), json!({"headers": {"X-Any": HIDDEN}})),
            (json!({"headers": ["a", "abc"]}), json!({"headers": ["a", "abc"]})),
            (
                json!({"args": ["--token", "x", "y", "--api-key=x", "PASSWORD=x", "a=b"]}),
                json!({"args": ["--token", HIDDEN, "y", "--api-key=[redacted]",
                    "PASSWORD=[redacted]", "a=b"]}),
            ),
            (json!(["a s3cret-longer", "abc"]), json!(["a [redacted]er", "abc"])),
            (json!("token: 5"), json!("token: 5")),
        ];
        for (mut value, expected) in rows {
            redactor().frame(&mut value);
            assert_eq!(value, expected);
        }
    }

    #[test]
    fn lines_lose_what_follows_a_name() {
        let rows = [
            ("plain: text = x", "plain: text = x"),
            ("with s3cret in it", "with [redacted] in it"),
            ("API_KEY=x y", "API_KEY=[redacted]"),
            ("> Authorization: Bearer x", "> Authorization:[redacted]"),
            (r#"{"a": 1, "apiKey" : "x", "#, r#"{"a": 1, "apiKey" :[redacted]"#),
            ("https://host/?q=1&access_token=x", "https://host/?q=1&access_token=[redacted]"),
            ("é=ü: token = x", "é=ü: token =[redacted]"),
        ];
        for (text, expected) in rows {
            assert_eq!(redactor().text(text), expected);
        }
    }
}
