//! `[keys]` and `[services]`: where the user's model keys (`spec/keys.md#sources`) and credentials of forges
//! (`spec/forges.md#forges`) come from.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aifo_agents::{ForgeEntry, ForgeSettings, KeyEntry, SecretSource, providers_of_keys};
use aifo_forge::RepositoryPath;
use aifo_provider::{FORGES, ForgeForm, UpstreamUrl};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{ConfigError, suggestion};
use crate::item::Item;
use crate::key::ConfigEntry;
use crate::source::Sourced;

/// The entries by the name of a provider, and by that of a forge.
#[derive(Clone, Debug, Default)]
pub struct Services {
    keys: Vec<(String, Sourced<KeyEntry>)>,
    forges: Vec<(String, Sourced<ForgeEntry>)>,
}

/// An entry of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    env: Option<String>,
    file: Option<PathBuf>,
    command: Option<Vec<String>>,
    expires_secs: Option<u64>,
    url: Option<String>,
    form: Option<String>,
    repositories: Option<Vec<String>>,
}

impl Services {
    /// Sets the entry of a service: a provider of models, else a forge.
    pub fn apply(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        if providers_of_keys().contains(&item.name) {
            return self.apply_key(item);
        }
        let entry = forge_entry(item)?;
        self.forges.retain(|(name, _)| name != item.name);
        self.forges.push((item.name.to_owned(), Sourced::new(entry, item.source.clone())));
        Ok(())
    }

    /// Sets the entry of a provider.
    pub fn apply_key(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let known = providers_of_keys();
        if !known.contains(&item.name) {
            let hint = match suggestion(item.name, known.iter().copied()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("the providers are: {}", known.join(" ")),
            };
            return Err(item.error(format!("unknown provider '{}'", item.name)).hint(hint));
        }
        let entry: Entry = item.toml()?;
        if entry.form.is_some() || entry.repositories.is_some() {
            return Err(item.error("form and repositories are for a forge"));
        }
        let entry = KeyEntry { source: source(&entry, item)?, url: url(&entry, item)? };
        self.keys.retain(|(name, _)| name != item.name);
        self.keys.push((item.name.to_owned(), Sourced::new(entry, item.source.clone())));
        Ok(())
    }

    pub fn entries(&self) -> BTreeMap<String, KeyEntry> {
        self.keys.iter().map(|(name, entry)| (name.clone(), entry.value.clone())).collect()
    }

    pub fn forges(&self) -> ForgeSettings {
        self.forges.iter().map(|(name, entry)| (name.clone(), entry.value.clone())).collect()
    }

    pub fn show_keys(&self) -> Vec<ConfigEntry> {
        let shown = |(name, entry): &(String, Sourced<KeyEntry>)| {
            let value = show(entry.value.source.as_ref(), entry.value.url.as_ref());
            ConfigEntry::new(format!("keys.{name}"), value, &entry.source)
        };
        self.keys.iter().map(shown).collect()
    }

    pub fn show_forges(&self) -> Vec<ConfigEntry> {
        let shown = |(name, entry): &(String, Sourced<ForgeEntry>)| {
            let ForgeEntry { source, url, form, repositories } = &entry.value;
            let mut value = show(source.as_ref(), url.as_ref());
            if let Some(value) = value.as_object_mut() {
                value.insert("form".to_owned(), json!(form.as_str()));
                let paths: Vec<_> = repositories.iter().map(RepositoryPath::as_str).collect();
                value.insert("repositories".to_owned(), json!(paths));
            }
            ConfigEntry::new(format!("services.{name}"), value, &entry.source)
        };
        self.forges.iter().map(shown).collect()
    }
}

fn forge_entry(item: &Item<'_>) -> Result<ForgeEntry, ConfigError> {
    let entry: Entry = item.toml()?;
    let (source, url) = (source(&entry, item)?, url(&entry, item)?);
    let known = FORGES.iter().find(|known| known.name == item.name);
    let form = match (entry.form.as_deref(), known) {
        (Some(word), _) => {
            let found = ForgeForm::ALL.into_iter().find(|form| form.as_str() == word);
            let words = ForgeForm::ALL.map(ForgeForm::as_str).join(", ");
            found.ok_or_else(|| {
                item.error(format!("unknown form '{word}'")).hint(format!("one of {words}"))
            })?
        }
        (None, Some(known)) => known.form,
        (None, None) => ForgeForm::Git,
    };
    if url.is_none() && known.is_none() {
        let names = FORGES.map(|known| known.name).join(" ");
        return Err(item
            .error(format!("'{}' has no url", item.name))
            .hint(format!("add: url = \"https://HOST\"; names without one are: {names}")));
    }
    let parse = |path: &String| {
        RepositoryPath::parse(path).ok_or_else(|| {
            item.error(format!("'{path}' is no repository")).hint("write 'OWNER/NAME'")
        })
    };
    let repositories = entry.repositories.iter().flatten().map(parse).collect::<Result<_, _>>()?;
    Ok(ForgeEntry { source, url, form, repositories })
}

fn source(entry: &Entry, item: &Item<'_>) -> Result<Option<SecretSource>, ConfigError> {
    let Entry { env, file, command, expires_secs, .. } = entry;
    let lifetime = expires_secs.map(Duration::from_secs);
    let source = match (env, file, command) {
        (None, None, None) => None,
        (Some(name), None, None) => Some(SecretSource::Variable(name.clone())),
        (None, Some(path), None) => Some(SecretSource::File(below_home(path.clone(), item)?)),
        (None, None, Some(words)) if words.first().is_some_and(|word| !word.is_empty()) => {
            Some(SecretSource::Command { words: words.clone(), lifetime })
        }
        (None, None, Some(_)) => return Err(item.error("command must start with a program")),
        _ => return Err(item.error("more than one of env, file and command")),
    };
    if lifetime.is_some() && !matches!(source, Some(SecretSource::Command { .. })) {
        return Err(item.error("expires_secs is for a command"));
    }
    Ok(source)
}

fn url(entry: &Entry, item: &Item<'_>) -> Result<Option<UpstreamUrl>, ConfigError> {
    let url = entry.url.as_deref().map(UpstreamUrl::parse).transpose();
    url.map_err(|error| {
        let text = error.to_string();
        let (problem, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        item.error(problem.to_owned()).hint(hint.to_owned())
    })
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

fn show(source: Option<&SecretSource>, url: Option<&UpstreamUrl>) -> Value {
    let mut shown = match source {
        None => json!({}),
        Some(SecretSource::Variable(name)) => json!({"env": name}),
        Some(SecretSource::File(path)) => json!({"file": path}),
        // An argument may be a secret.
        Some(SecretSource::Command { words, lifetime }) => json!({
            "command": words.first(),
            "expires_secs": lifetime.map(|lifetime| lifetime.as_secs()),
        }),
    };
    if let (Some(url), Some(shown)) = (url, shown.as_object_mut()) {
        shown.insert("url".to_owned(), json!(url.to_string()));
    }
    shown
}
