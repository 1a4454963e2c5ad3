//! The words that a table lists.

#[cfg(test)]
use super::TABLES;
use super::Table;
use crate::judge::glob::{Match, matches};

impl Table {
    /// Returns whether the table has options. Without, a word with one hyphen may be an option.
    pub(in crate::judge) fn lists_options(&self) -> bool {
        !self.command.is_empty() || !self.options.synonyms.is_empty()
    }

    /// Returns all subcommands, if the table has a list of them.
    pub(in crate::judge) fn known_commands(&self) -> Vec<String> {
        if self.commands.is_empty() {
            return Vec::new();
        }
        let scopes = self.command.keys().filter_map(|words| words.split(' ').next());
        let names = self.commands.iter().chain(self.aliases.keys()).map(String::as_str);
        names.chain(scopes).map(str::to_owned).collect()
    }

    /// Returns all options.
    pub(in crate::judge) fn known_options(&self) -> Vec<String> {
        let scopes = self.command.values().chain([&self.options]);
        let names = scopes.flat_map(|scope| scope.synonyms.iter().flatten());
        names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// Returns the options that are like a pattern, with their synonyms.
    pub(in crate::judge) fn names_like(&self, pattern: &[u8]) -> Vec<Vec<u8>> {
        let scopes = self.command.values().chain([&self.options]);
        let rows = scopes.flat_map(|scope| &scope.synonyms);
        let is_like = |name: &Vec<u8>| matches(pattern, name) == Match::Yes;
        rows.filter(|row| row.iter().any(is_like)).flatten().cloned().collect()
    }
}

/// Returns the variables with shell text of all tools.
#[cfg(test)]
pub(in crate::judge) fn all_shell_variables() -> impl Iterator<Item = &'static String> {
    TABLES.values().flat_map(|table| &table.shell_variables)
}
