//! `[env]` and `--env`: variables that are forwarded to tools or set.

use std::collections::BTreeMap;

use aifo_policy::{Forwarding, InvalidVariable};
use serde_json::json;

use crate::config::error::ConfigError;
use crate::config::item::Item;
use crate::config::key::ConfigEntry;
use crate::config::source::Sourced;

/// The variables of tools.
#[derive(Clone, Debug)]
pub(crate) struct Variables {
    pub(crate) forwarding: Forwarding,
    /// Changes to the built-in rules.
    pub(crate) rules: Vec<EnvRule>,
}

/// A change of the variables that tools get.
#[derive(Clone, Debug)]
pub(crate) struct EnvRule {
    pub(crate) effect: EnvEffect,
    /// Names only: values may be secret.
    pub(crate) names: Sourced<Vec<String>>,
}

/// The effect of an [`EnvRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvEffect {
    Allow,
    Deny,
    Set,
}

impl Variables {
    pub(crate) fn builtin() -> Self {
        Variables { forwarding: Forwarding::builtin(), rules: Vec::new() }
    }

    /// Allows variables by name or prefix; `NAME=VALUE` of a flag sets one.
    pub(crate) fn allow(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let words = item.list()?.into_iter();
        let (set, names): (Vec<_>, Vec<_>) =
            words.partition(|word| item.flag_words().is_some() && word.contains('='));
        let allowed = names.iter().try_for_each(|name| self.forwarding.allow(name));
        self.record(EnvEffect::Allow, names, item, allowed)?;
        let pairs = set.iter().filter_map(|word| word.split_once('='));
        self.set_all(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), item)
    }

    /// Denies variables, which the workspace's file may do too.
    pub(crate) fn deny(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let names = item.list()?;
        let denied = names.iter().try_for_each(|name| self.forwarding.deny(name));
        self.record(EnvEffect::Deny, names, item, denied)
    }

    /// Sets variables of every tool.
    pub(crate) fn set(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        self.set_all(item.toml()?, item)
    }

    pub(crate) fn show(&self) -> Vec<ConfigEntry> {
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
