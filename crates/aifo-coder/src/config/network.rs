//! `[net]` and `--allow-net`: the names that containers reach (`spec/network.md#rules`).

use aifo_launch::{NetRules, RuleError};
use serde_json::json;

use crate::config::error::ConfigError;
use crate::config::item::Item;
use crate::config::key::ConfigEntry;
use crate::config::source::{Source, Sourced};

/// The rules of a network by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkRules {
    /// The file's list, then those of flags.
    allow: Vec<Sourced<Vec<String>>>,
    /// The names that the user's and the workspace's file take away.
    deny: Vec<Sourced<Vec<String>>>,
}

impl NetworkRules {
    /// Allows names: a file's list replaces those before, a flag adds to it.
    pub(crate) fn allow(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let list = item.list()?;
        NetRules::parse(&list).map_err(|error| invalid(item, &error))?;
        if item.flag_words().is_none() {
            self.allow.clear();
        }
        self.allow.push(Sourced::new(list, item.source.clone()));
        Ok(())
    }

    /// Takes names away, which the workspace's file may do too.
    pub(crate) fn deny(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let list = item.list()?;
        NetRules::default().take_away(&list).map_err(|error| invalid(item, &error))?;
        self.deny.push(Sourced::new(list, item.source.clone()));
        Ok(())
    }

    /// Returns all rules together.
    pub(crate) fn rules(&self) -> Result<NetRules, RuleError> {
        let all = |lists: &[Sourced<Vec<String>>]| -> Vec<String> {
            lists.iter().flat_map(|list| &list.value).cloned().collect()
        };
        NetRules::parse(&all(&self.allow))?.take_away(&all(&self.deny))
    }

    /// Returns the first flag that allows a name.
    pub(crate) fn flag(&self) -> Option<&Sourced<Vec<String>>> {
        self.allow.iter().find(|list| matches!(list.source, Source::Flag(_)))
    }

    pub(crate) fn show_allow(&self) -> Vec<ConfigEntry> {
        entries("net.allow", &self.allow)
    }

    pub(crate) fn show_deny(&self) -> Vec<ConfigEntry> {
        entries("net.deny", &self.deny)
    }
}

fn entries(key: &'static str, lists: &[Sourced<Vec<String>>]) -> Vec<ConfigEntry> {
    lists.iter().map(|list| ConfigEntry::new(key, json!(list.value), &list.source)).collect()
}

/// Returns the error with the hint on its own line.
fn invalid(item: &Item<'_>, error: &RuleError) -> ConfigError {
    let text = error.to_string();
    match text.split_once("\nhint: ") {
        Some((problem, hint)) => item.error(problem.to_owned()).hint(hint.to_owned()),
        None => item.error(text),
    }
}
