//! Redacts secrets in a log.

use aifo_types::{HIDDEN, is_secret, names_secret, secret_in_line, secret_in_word};
use serde_json::{Map, Value};

/// Redacts known secrets everywhere, and values whose name marks them as secret
/// (`spec/acp-wire.md#secrets`).
///
/// Unknown, unnamed secrets are logged, as is a secret split over several messages.
#[derive(Debug)]
pub(super) struct Redactor {
    /// The longest first, as one may contain another.
    secrets: Vec<String>,
}

impl Redactor {
    pub(super) fn new(mut secrets: Vec<String>) -> Self {
        // Short words occur everywhere.
        secrets.retain(|secret| secret.len() >= SHORTEST);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Redactor { secrets }
    }

    /// Redacts a frame.
    pub(super) fn frame(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.known(text),
            Value::Array(items) => self.items(items),
            Value::Object(members) => self.members(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Redacts a line of text. A value after `NAME=` or `NAME:` is redacted to the end of the line,
    /// as its length is unknown.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.known(&mut text);
        if let Some(at) = secret_in_line(text.as_bytes()) {
            text.truncate(at);
            text.push_str(HIDDEN);
        }
        text
    }

    /// Redacts known secrets.
    fn known(&self, text: &mut String) {
        for secret in &self.secrets {
            if text.contains(secret) {
                *text = text.replace(secret, HIDDEN);
            }
        }
    }

    /// In a command line, an option names the next word.
    fn items(&self, items: &mut [Value]) {
        let mut option = String::new();
        for item in items {
            let before = std::mem::take(&mut option);
            let Value::String(word) = item else {
                self.frame(item);
                continue;
            };
            if is_secret(before.as_bytes(), word.as_bytes()) {
                *word = HIDDEN.to_owned();
                continue;
            }
            if let Some(at) = secret_in_word(word.as_bytes()) {
                word.truncate(at);
                word.push_str(HIDDEN);
            } else if word.starts_with('-') {
                option.clone_from(word);
            }
            self.known(word);
        }
    }

    fn members(&self, members: &mut Map<String, Value>) {
        // A variable or a header: `{"name": "API_KEY", "value": ".."}`.
        let variable = members.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        for (name, value) in members {
            if names_secret(name.as_bytes()) {
                hide(name, value);
            } else if name == "value" && names_secret(variable.as_bytes()) {
                hide(&variable, value);
            } else if name == "headers" {
                self.headers(value);
            } else {
                self.frame(value);
            }
        }
    }

    /// Any header may carry a key.
    fn headers(&self, headers: &mut Value) {
        match headers {
            Value::Object(headers) => headers.values_mut().for_each(|value| hide(HEADER, value)),
            Value::Array(headers) => {
                for header in headers {
                    match header.get_mut("value") {
                        Some(value) => hide(HEADER, value),
                        None => self.frame(header),
                    }
                }
            }
            other => self.frame(other),
        }
    }
}

/// Redacts all values below a secret name, keeping the structure.
fn hide(name: &str, value: &mut Value) {
    let hidden = match value {
        Value::Null | Value::Bool(_) => false,
        Value::Array(items) => return items.iter_mut().for_each(|item| hide(name, item)),
        Value::Object(members) => {
            return members.values_mut().for_each(|member| hide(name, member));
        }
        Value::Number(number) => is_secret(name.as_bytes(), number.to_string().as_bytes()),
        Value::String(text) => is_secret(name.as_bytes(), text.as_bytes()),
    };
    if hidden {
        *value = HIDDEN.into();
    }
}

/// The name that all headers are treated as.
const HEADER: &str = "Authorization";

/// The shortest secret, in bytes.
const SHORTEST: usize = 4;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redactor() -> Redactor {
        Redactor::new(vec!["s3cret".into(), "s3cret-long".into(), String::new(), "abc".into()])
    }

    #[test]
    fn redacted_frames_keep_their_structure() {
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
            (json!({"tokens": {"in": 5, "of": "x"}}), json!({"tokens": {"in": 5, "of": HIDDEN}})),
            (json!({"args": ["--max-tokens", "4096"]}), json!({"args": ["--max-tokens", "4096"]})),
        ];
        for (mut value, expected) in rows {
            redactor().frame(&mut value);
            assert_eq!(value, expected);
        }
    }

    /// Every consumer of the list must redact these names.
    #[test]
    fn the_value_of_every_secret_of_the_page_is_left_out() {
        let page = include_str!("../../../../spec/environment.md");
        let rows = page.split("\n## Secrets\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let mut count = 0;
        for row in rows.lines().filter(|line| line.starts_with("| `")) {
            let secret = row.trim_end_matches(" |").ends_with("| yes");
            for name in row.split('`').skip(1).step_by(2) {
                let mut value = json!([{name: "hush"}, {"name": name, "value": "hush"},
                    ["a", format!("{name}=hush")], ["a", format!("--{name}"), "hush"]]);
                redactor().frame(&mut value);
                for form in value.as_array().unwrap() {
                    assert_eq!(!form.to_string().contains("hush"), secret, "{name}: {form}");
                }
                for sign in ["=", ": ", "\": \""] {
                    let line = redactor().text(&format!("> {name}{sign}hush"));
                    assert_eq!(!line.contains("hush"), secret, "{line}");
                }
                count += 1;
            }
        }
        assert!(count > 30, "only {count} names found");
    }

    #[test]
    fn text_after_a_secret_name_is_redacted() {
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
