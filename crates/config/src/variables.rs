//! `[env]` and `--env`: variables that are forwarded to tools or set.

use std::collections::BTreeMap;

use aifo_policy::{Forwarding, InvalidVariable};
use serde_json::json;

use crate::error::ConfigError;
use crate::item::Item;
use crate::key::ConfigEntry;
use crate::source::Sourced;

/// The variables of tools.
#[derive(Clone, Debug)]
pub struct Variables {
    pub forwarding: Forwarding,
    /// Changes to the built-in rules.
    pub rules: Vec<EnvRule>,
}

/// A change of the variables that tools get.
#[derive(Clone, Debug)]
pub struct EnvRule {
    /// The change.
    pub effect: EnvEffect,
    /// Names only: values may be secret.
    pub names: Sourced<Vec<String>>,
}

/// The effect of an [`EnvRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvEffect {
    /// The variables pass.
    Allow,
    /// The variables do not pass.
    Deny,
    /// The variables have values of their own.
    Set,
}

impl Variables {
    pub fn builtin() -> Self {
        Variables { forwarding: Forwarding::builtin(), rules: Vec::new() }
    }

    /// Allows variables by name or prefix; `NAME=VALUE` of a flag sets one.
    pub fn allow(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let words = item.list()?.into_iter();
        let (set, names): (Vec<_>, Vec<_>) =
            words.partition(|word| item.flag_words().is_some() && word.contains('='));
        let allowed = names.iter().try_for_each(|name| self.forwarding.allow(name));
        self.record(EnvEffect::Allow, names, item, allowed)?;
        let pairs = set.iter().filter_map(|word| word.split_once('='));
        self.set_all(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), item)
    }

    /// Denies variables, which the workspace file may do too.
    pub fn deny(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let names = item.list()?;
        let denied = names.iter().try_for_each(|name| self.forwarding.deny(name));
        self.record(EnvEffect::Deny, names, item, denied)
    }

    /// Sets variables of every tool.
    pub fn set(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        self.set_all(item.toml()?, item)
    }

    pub fn show(&self) -> Vec<ConfigEntry> {
        let entry = |EnvRule { effect, names }: &EnvRule| {
            let key = match effect {
                EnvEffect::Allow => "env.allow",
                EnvEffect::Deny => "env.deny",
                EnvEffect::Set => "env.set",
            };
            ConfigEntry::new(key, json!(names.value), &names.source)
        };
        self.rules.iter().map(entry).collect()
    }

    fn set_all(
        &mut self,
        variables: BTreeMap<String, String>,
        item: &Item<'_>,
    ) -> Result<(), ConfigError> {
        let set = variables.iter().try_for_each(|(name, value)| self.forwarding.set(name, value));
        self.record(EnvEffect::Set, variables.into_keys().collect(), item, set)
    }

    fn record(
        &mut self,
        effect: EnvEffect,
        names: Vec<String>,
        item: &Item<'_>,
        done: Result<(), InvalidVariable>,
    ) -> Result<(), ConfigError> {
        done.map_err(|invalid| item.error(invalid.to_string()))?;
        if !names.is_empty() {
            self.rules.push(EnvRule { effect, names: Sourced::new(names, item.source.clone()) });
        }
        Ok(())
    }
}
