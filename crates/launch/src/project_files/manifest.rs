//! Parts of a manifest that name commands.

use std::path::Path;

use aifo_policy::ManifestParts;
use serde_json::{Map, Value};

/// Returns these parts with their names. `None` if the text is neither JSON nor TOML, nor of `go.mod`.
pub(super) fn command_parts(
    path: &Path,
    text: &[u8],
    parts: ManifestParts,
) -> Option<Vec<(String, Value)>> {
    let manifest: Value = match serde_json::from_slice(text) {
        _ if path.extension().is_some_and(|it| it.eq_ignore_ascii_case("mod")) => directives(text)?,
        Ok(manifest) => manifest,
        Err(_) => toml::from_slice(text).ok()?,
    };
    let manifest = manifest.as_object()?;
    let named = |key: &str, value: &Value| (key.to_owned(), value.clone());
    Some(match parts {
        ManifestParts::Only(keys) => {
            let find = |key: &&str| {
                let mut steps = key.split('.');
                let first = manifest.get(steps.next()?)?;
                Some(named(key, steps.try_fold(first, |value, step| value.get(step))?))
            };
            keys.iter().filter_map(find).collect()
        }
        ManifestParts::AllBut(data) => {
            let of_key = |(key, value): (&String, &Value)| {
                let prefix = format!("{key}.");
                match value.as_object().filter(|_| data.iter().any(|it| it.starts_with(&prefix))) {
                    None => vec![named(key, value)],
                    Some(table) => {
                        let inner = table.iter();
                        inner
                            .map(|(name, value)| named(&format!("{prefix}{name}"), value))
                            .collect()
                    }
                }
            };
            let all = manifest.iter().flat_map(of_key);
            all.filter(|(key, _)| !data.contains(&key.as_str())).collect()
        }
    })
}

/// Reads the directives of a `go.mod`: `NAME VALUE` in a line, or lines of values in `NAME ( .. )`.
fn directives(text: &[u8]) -> Option<Value> {
    let mut found = Map::new();
    let mut block = None;
    for line in std::str::from_utf8(text).ok()?.lines().map(str::trim) {
        let is_end = |it: char| it.is_whitespace() || it == '(';
        let (name, value) = match block {
            Some(name) => (name, line),
            None => line.split_at(line.find(is_end).unwrap_or(line.len())),
        };
        let value = value.trim_start();
        match value.chars().next() {
            Some('(') => block = Some(name),
            Some(')') => block = None,
            _ => {
                let values = found.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                values.as_array_mut()?.push(value.into());
            }
        }
    }
    Some(Value::Object(found))
}
