//! The words that a table lists.

use super::{Scope, Table, words};
#[cfg(test)]
use super::{TEXTS, listed};
use crate::judge::glob::{Match, matches};

impl Table {
    /// Returns whether the table has options. Without, a word with one hyphen may be an option.
    pub(in crate::judge) fn lists_options(&self) -> bool {
        !self.command.is_empty() || self.options.rows().next().is_some()
    }

    /// Returns all subcommands, if the table has a list of them.
    pub(in crate::judge) fn known_commands(&self) -> Vec<String> {
        if self.commands.is_empty() {
            return Vec::new();
        }
        let scopes = self.command.keys().filter_map(|words| words.split(' ').next());
        let names = self.commands.iter().chain(self.aliases.keys()).copied();
        names.chain(scopes).map(str::to_owned).collect()
    }

    /// Returns all options.
    pub(in crate::judge) fn known_options(&self) -> Vec<String> {
        let scopes = self.command.values().chain([&self.options]);
        scopes
            .flat_map(Scope::rows)
            .flat_map(|(_, row)| row.split(' '))
            .map(str::to_owned)
            .collect()
    }

    /// Returns the options that are like a pattern, with their synonyms.
    pub(in crate::judge) fn names_like(&self, pattern: &[u8]) -> Vec<Vec<u8>> {
        let scopes = self.command.values().chain([&self.options]);
        let rows = scopes.flat_map(Scope::rows).map(|(_, row)| row);
        let is_like = |name| matches(pattern, name) == Match::Yes;
        rows.filter(|row| words(row).any(is_like)).flat_map(words).map(<[u8]>::to_vec).collect()
    }
}

/// Returns the variables with shell text of all tools.
#[cfg(test)]
pub(in crate::judge) fn all_shell_variables() -> impl Iterator<Item = &'static str> {
    let tables = TEXTS.1.iter().filter_map(|(tool, _)| listed(tool.as_bytes()));
    tables.flat_map(|table| &table.shell_variables).copied()
}
