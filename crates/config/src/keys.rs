//! `[keys]`: where the user's model keys come from (`spec/keys.md#sources`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aifo_agents::{KeyEntry, SecretSource, providers_of_keys};
use aifo_provider::UpstreamUrl;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{ConfigError, suggestion};
use crate::item::Item;
use crate::key::ConfigEntry;
use crate::source::Sourced;

/// The entries by the provider name.
#[derive(Clone, Debug, Default)]
pub struct ModelKeySources(Vec<(String, Sourced<KeyEntry>)>);

/// An entry of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    env: Option<String>,
    file: Option<PathBuf>,
    command: Option<Vec<String>>,
    expires_secs: Option<u64>,
    url: Option<String>,
}

impl ModelKeySources {
    /// Sets the entry of a provider.
    pub fn apply(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let known = providers_of_keys();
        if !known.contains(&item.name) {
            let hint = match suggestion(item.name, known.iter().copied()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("the providers are: {}", known.join(" ")),
            };
            return Err(item.error(format!("unknown provider '{}'", item.name)).hint(hint));
        }
        let entry = entry(item)?;
        self.0.retain(|(name, _)| name != item.name);
        self.0.push((item.name.to_owned(), Sourced::new(entry, item.source.clone())));
        Ok(())
    }

    pub fn entries(&self) -> BTreeMap<String, KeyEntry> {
        self.0.iter().map(|(name, entry)| (name.clone(), entry.value.clone())).collect()
    }

    pub fn show(&self) -> Vec<ConfigEntry> {
        let shown = |(name, entry): &(String, Sourced<KeyEntry>)| {
            ConfigEntry::new(format!("keys.{name}"), show(&entry.value), &entry.source)
        };
        self.0.iter().map(shown).collect()
    }
}

fn entry(item: &Item<'_>) -> Result<KeyEntry, ConfigError> {
    let Entry { env, file, command, expires_secs, url } = item.toml()?;
    let lifetime = expires_secs.map(Duration::from_secs);
    let source = match (env, file, command) {
        (None, None, None) => None,
        (Some(name), None, None) => Some(SecretSource::Variable(name)),
        (None, Some(path), None) => Some(SecretSource::File(below_home(path, item)?)),
        (None, None, Some(words)) if words.first().is_some_and(|word| !word.is_empty()) => {
            Some(SecretSource::Command { words, lifetime })
        }
        (None, None, Some(_)) => return Err(item.error("command must start with a program")),
        _ => return Err(item.error("more than one of env, file and command")),
    };
    if lifetime.is_some() && !matches!(source, Some(SecretSource::Command { .. })) {
        return Err(item.error("expires_secs is for a command"));
    }
    let url = url.map(|url| UpstreamUrl::parse(&url)).transpose();
    let url = url.map_err(|error| {
        let text = error.to_string();
        let (problem, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        item.error(problem.to_owned()).hint(hint.to_owned())
    })?;
    Ok(KeyEntry { source, url })
}

/// Returns an absolute path; `~/` is the user's home.
fn below_home(path: PathBuf, item: &Item<'_>) -> Result<PathBuf, ConfigError> {
    if let Ok(below) = path.strip_prefix("~") {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute());
        return home.map(|home| home.join(below)).ok_or_else(|| item.error("HOME is not set"));
    }
    match path.is_absolute() {
        true => Ok(path),
        false => Err(item
            .error(format!("'{}' is not absolute", path.display()))
            .hint("write '/path' or '~/path'")),
    }
}

fn show(entry: &KeyEntry) -> Value {
    let mut shown = match &entry.source {
        None => json!({}),
        Some(SecretSource::Variable(name)) => json!({"env": name}),
        Some(SecretSource::File(path)) => json!({"file": path}),
        // An argument may be a secret.
        Some(SecretSource::Command { words, lifetime }) => json!({
            "command": words.first(),
            "expires_secs": lifetime.map(|lifetime| lifetime.as_secs()),
        }),
    };
    if let (Some(url), Some(shown)) = (&entry.url, shown.as_object_mut()) {
        shown.insert("url".to_owned(), json!(url.to_string()));
    }
    shown
}
