//! Selects the allowed keys of JSON, TOML and environment files.

use serde_json::{Map, Value};

use crate::agents::{FileFormat, StateFile};

/// A value that is not among the words of its key, so the whole file has another shape.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownWord;

/// A key that is copied.
#[derive(Clone)]
struct Rule<'a> {
    /// The rest of the path.
    path: Vec<&'a str>,
    /// The allowed words; empty for any value.
    words: Vec<&'a str>,
}

impl FileFormat {
    /// Parses a file into an object; `None` if it is damaged, or a text.
    pub(crate) fn parse(self, bytes: &[u8]) -> Option<Value> {
        let text = std::str::from_utf8(bytes).ok()?;
        let value = match self {
            FileFormat::Json => serde_json::from_str(text).ok()?,
            FileFormat::Toml => of_toml(toml::Value::Table(text.parse().ok()?))?,
            FileFormat::Env => {
                let lines = text.lines().filter_map(|line| line.trim().split_once('='));
                let pairs = lines.map(|(name, value)| (name.trim_end().to_owned(), value.into()));
                Value::Object(pairs.collect())
            }
            FileFormat::Text => return None,
        };
        value.is_object().then_some(value)
    }

    /// Returns the file of an object.
    pub(super) fn render(self, object: &Value) -> Vec<u8> {
        let mut text = String::new();
        match self {
            FileFormat::Json | FileFormat::Text => text = format!("{object:#}\n"),
            FileFormat::Toml => write_toml(&mut text, "", object),
            FileFormat::Env => {
                for (name, value) in object.as_object().into_iter().flatten() {
                    text += &format!("{name}={}\n", value.as_str().unwrap_or_default());
                }
            }
        }
        text.into_bytes()
    }
}

impl StateFile {
    /// Returns true if the whole file is copied, unchanged.
    pub(super) fn is_whole(&self) -> bool {
        self.format == FileFormat::Text || self.keys == ["**"]
    }

    /// Returns the allowed part of an object, without values that are not among their key's words.
    pub(crate) fn select(&self, object: &Value) -> Value {
        let mut dropped = false;
        select(object, &self.rules(), &mut dropped).unwrap_or_else(|| Map::new().into())
    }

    /// Like [`select`](Self::select). Errors: a value is not among its key's words.
    pub(crate) fn select_strictly(&self, object: &Value) -> Result<Value, UnknownWord> {
        let mut dropped = false;
        let selected = select(object, &self.rules(), &mut dropped);
        let selected = selected.unwrap_or_else(|| Map::new().into());
        if dropped { Err(UnknownWord) } else { Ok(selected) }
    }

    /// Replaces the allowed part of an object.
    pub(super) fn replace(&self, object: &Value, selected: &Value) -> Value {
        let mut merged = without(object, &self.rules()).unwrap_or_else(|| Map::new().into());
        merge(&mut merged, selected);
        merged
    }

    fn rules(&self) -> Vec<Rule<'_>> {
        let rule = |key| {
            let (path, words) = match str::split_once(key, '=') {
                Some((path, words)) => (path, words.split('|').collect()),
                None => (key, Vec::new()),
            };
            Rule { path: path.split('.').collect(), words }
        };
        self.keys.iter().map(|key| rule(key.as_str())).collect()
    }
}

impl<'a> Rule<'a> {
    /// Returns the rule for the value of a name, if it applies there.
    fn below(&self, name: &str) -> Option<Rule<'a>> {
        match self.path.split_first()? {
            (&"**", _) => Some(self.clone()),
            (first, rest) if *first == name || *first == "*" => {
                Some(Rule { path: rest.to_vec(), words: self.words.clone() })
            }
            _ => None,
        }
    }

    fn is_everything(&self) -> bool {
        self.path.first() == Some(&"**")
    }
}

fn select(value: &Value, rules: &[Rule<'_>], dropped: &mut bool) -> Option<Value> {
    if rules.iter().any(Rule::is_everything) {
        return Some(value.clone());
    }
    if let Some(rule) = rules.iter().find(|rule| rule.path.is_empty())
        && is_plain(value)
        && !value.is_null()
    {
        let is_known = value.as_str().is_some_and(|word| rule.words.contains(&word));
        if rule.words.is_empty() || is_known {
            return Some(value.clone());
        }
        *dropped = true;
        return None;
    }
    match value {
        Value::Null => None,
        Value::Object(object) => {
            let picked = object.iter().filter_map(|(name, value)| {
                let below: Vec<_> = rules.iter().filter_map(|rule| rule.below(name)).collect();
                Some((name.clone(), select(value, &below, dropped)?))
            });
            let picked: Map<_, _> = picked.collect();
            (!picked.is_empty()).then_some(Value::Object(picked))
        }
        Value::Array(list) => {
            let below: Vec<_> = rules.iter().filter_map(|rule| rule.below("*")).collect();
            let objects = list.iter().filter(|item| item.is_object());
            let picked: Vec<_> = objects.filter_map(|item| select(item, &below, dropped)).collect();
            (!picked.is_empty()).then_some(Value::Array(picked))
        }
        _ => None,
    }
}

/// Returns the rest of a value without the allowed part.
fn without(value: &Value, rules: &[Rule<'_>]) -> Option<Value> {
    let is_allowed =
        |rule: &Rule<'_>| rule.is_everything() || (rule.path.is_empty() && is_plain(value));
    if rules.iter().any(is_allowed) {
        return None;
    }
    let Value::Object(object) = value else { return Some(value.clone()) };
    let rest = object.iter().filter_map(|(name, value)| {
        let below: Vec<_> = rules.iter().filter_map(|rule| rule.below(name)).collect();
        Some((name.clone(), without(value, &below)?))
    });
    Some(Value::Object(rest.collect()))
}

fn merge(target: &mut Value, source: &Value) {
    match (target, source) {
        (Value::Object(target), Value::Object(source)) => {
            for (name, value) in source {
                merge(target.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        (target, source) => *target = source.clone(),
    }
}

/// Returns whether a value is no table and no list that contains one.
fn is_plain(value: &Value) -> bool {
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    match value {
        Value::Array(list) => list.iter().all(is_scalar),
        value => is_scalar(value),
    }
}

/// Converts TOML. `None` for dates and numbers that JSON does not have.
fn of_toml(value: toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)?.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(_) => return None,
        toml::Value::Array(list) => list.into_iter().filter_map(of_toml).collect(),
        toml::Value::Table(table) => {
            let pairs = table.into_iter().filter_map(|(name, value)| Some((name, of_toml(value)?)));
            Value::Object(pairs.collect())
        }
    })
}

/// Writes plain values before tables, which would otherwise contain them.
fn write_toml(text: &mut String, path: &str, table: &Value) {
    let Some(table) = table.as_object() else { return };
    let (tables, plain): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_object());
    for (name, value) in plain {
        if let Some(value) = toml_value(value) {
            *text += &format!("{} = {value}\n", quoted(name));
        }
    }
    for (name, value) in tables {
        let path = if path.is_empty() { quoted(name) } else { format!("{path}.{}", quoted(name)) };
        *text += &format!("\n[{path}]\n");
        write_toml(text, &path, value);
    }
}

/// Returns a value on one line; `None` for null.
fn toml_value(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            format!("[{}]", list.iter().filter_map(toml_value).collect::<Vec<_>>().join(", "))
        }
        Value::Object(table) => {
            let pair = |(name, value): (&String, &Value)| {
                Some(format!("{} = {}", quoted(name), toml_value(value)?))
            };
            format!("{{{}}}", table.iter().filter_map(pair).collect::<Vec<_>>().join(", "))
        }
    })
}

/// Returns a basic string of TOML. JSON's differs only in DEL, which TOML escapes.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file(keys: &[&str]) -> StateFile {
        StateFile {
            from: "x".into(),
            to: "x".into(),
            format: FileFormat::Json,
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    #[test]
    fn only_listed_keys_with_plain_values_are_selected() {
        let object = json!({
            "model": "m", "list": ["a", 1], "mcp": {"x": {"command": "evil"}},
            "providers": {"p": {"url": "u", "auth": {"command": "evil"}}},
            "models": [{"name": "n", "hook": "evil"}, "evil", {"hook": "evil"}],
            "tricky": {"command": "evil"}, "nested": [["evil"]],
        });
        let rows: &[(&[&str], Value)] = &[
            (&["model"], json!({"model": "m"})),
            (&["list", "absent"], json!({"list": ["a", 1]})),
            (&["providers.*.url"], json!({"providers": {"p": {"url": "u"}}})),
            (&["providers.*.*"], json!({"providers": {"p": {"url": "u"}}})),
            (&["models.*.name"], json!({"models": [{"name": "n"}]})),
            // A table or a nested list in place of a plain value.
            (&["tricky", "nested", "providers", "models"], json!({})),
            (&["tricky.**"], json!({"tricky": {"command": "evil"}})),
            (&["model=m|n"], json!({"model": "m"})),
            (&["model=n", "list=a"], json!({})),
        ];
        for (keys, expected) in rows {
            assert_eq!(file(keys).select(&object), *expected, "{keys:?}");
        }
        assert_eq!(file(&["model=n"]).select_strictly(&object), Err(UnknownWord));
        assert_eq!(file(&["**"]).select_strictly(&object).as_ref(), Ok(&object));
    }

    #[test]
    fn the_allowed_part_is_replaced() {
        let file = file(&["token", "users.*.token"]);
        let target = json!({"token": 1, "hook": 2, "users": {"a": {"token": 3, "b": 4}}});
        let source = json!({"users": {"c": {"token": 5}}});
        let expected = json!({"hook": 2, "users": {"a": {"b": 4}, "c": {"token": 5}}});
        assert_eq!(file.replace(&target, &source), expected);
        assert_eq!(file.replace(&json!({}), &source), source);
    }

    #[test]
    fn files_are_parsed_and_rendered() {
        let text = "a = 1\nb = \"x\\\"\\u007f\\n\"\nl = [1, { c = true }]\nd = 2020-01-01\n\
                    [t]\nf = 1.5\n[t.\"q.r\"]\ng = 1\n";
        let object = FileFormat::Toml.parse(text.as_bytes()).unwrap();
        let expected = json!({
            "a": 1, "b": "x\"\u{7f}\n", "l": [1, {"c": true}], "t": {"f": 1.5, "q.r": {"g": 1}},
        });
        assert_eq!(object, expected);
        assert_eq!(FileFormat::Toml.parse(&FileFormat::Toml.render(&object)), Some(object));

        let object = FileFormat::Env.parse(b"# no\nA=1\nB = \"x=y\"\n\nrest\n").unwrap();
        assert_eq!(object, json!({"A": "1", "B": " \"x=y\""}));
        assert_eq!(FileFormat::Env.render(&object), b"A=1\nB= \"x=y\"\n");

        let damaged: [&[u8]; 5] = [b"", b"{\"a\":", b"[]", b"\"x\"", b"{\"a\": \xff}"];
        for bytes in damaged {
            assert_eq!(FileFormat::Json.parse(bytes), None, "{bytes:?}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(FileFormat::Json.parse(deep.as_bytes()), None);
        assert_eq!(FileFormat::Toml.parse(format!("a = {deep}").as_bytes()), None);
    }
}
