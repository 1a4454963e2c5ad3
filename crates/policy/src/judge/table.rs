//! Tables of tools: their options, subcommands, and the commands that they run.
//!
//! A table is a file of `tools/`; `spec/rules.md#tables` has its keys.

mod judged;
mod known;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;

pub(super) use judged::{JudgedTools, runs_nothing};
#[cfg(test)]
pub(super) use known::all_shell_variables;

/// Texts of tables, and their tools by name.
const TEXTS: (&[&str], &[(&str, usize)]) = include!(concat!(env!("OUT_DIR"), "/tools.rs"));

/// Each is parsed when one of its tools is first looked up.
static TABLES: [OnceLock<Table>; TEXTS.0.len()] = [const { OnceLock::new() }; TEXTS.0.len()];

fn listed(tool: &[u8]) -> Option<&'static Table> {
    let found = TEXTS.1.binary_search_by(|(name, _)| by_length(name, tool)).ok()?;
    let at = TEXTS.1.get(found)?.1;
    let text = TEXTS.0.get(at)?;
    Some(TABLES.get(at)?.get_or_init(|| {
        // The files are part of the program, and every test of the judge reads them.
        let mut table: Table =
            toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        table.inherit();
        table
    }))
}

/// The build script's order of names.
pub(super) fn by_length(name: &str, tool: &[u8]) -> Ordering {
    name.len().cmp(&tool.len()).then_with(|| name.as_bytes().cmp(tool))
}

/// Words, separated by spaces.
pub(super) type Row = &'static str;

pub(super) fn words(row: Row) -> impl Iterator<Item = &'static [u8]> {
    row.as_bytes().split(|byte| *byte == b' ')
}

/// How a tool reads its arguments.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    /// The tools with these arguments, for the build script.
    names: Vec<&'static str>,
    /// Long options may be abbreviated.
    pub(super) abbreviates: bool,
    /// `git-push` is `git push`.
    dashed: bool,
    /// The names may have the prefix of GNU tools beside others, as `grm`.
    gnu: bool,
    /// A flag takes a following `true` or `false` as its value.
    pub(super) flags_take_words: bool,
    /// Words with a plus sign before the first operand are options: `+nightly`.
    pub(super) plus: bool,
    /// Options before the subcommand also hold after it.
    inherits: bool,
    /// Options are whole words with one hyphen: `-exec`.
    pub(super) single_dash: bool,
    /// All operands are paths.
    pub(super) paths: bool,
    /// Subcommands may be abbreviated.
    abbreviates_commands: bool,
    /// Other names of subcommands.
    aliases: HashMap<&'static str, &'static str>,
    /// The subcommands that are not abbreviations.
    commands: Vec<&'static str>,
    /// Options whose value may define an alias, `alias.NAME=..`.
    pub(super) alias_options: Vec<&'static str>,
    /// Options that take such a value from the environment, `alias.NAME=VARIABLE`.
    pub(super) alias_environment: Vec<&'static str>,
    /// The beginnings of variables that may define one.
    pub(super) alias_variables: Vec<&'static str>,
    /// Variables with shell text that the tool runs, each with its `=`.
    pub(super) shell_variables: Vec<&'static str>,
    /// The settings of [`How::Setting`] with shell text; an element that ends with `!` needs a `!` before the text.
    pub(super) shell_settings: Vec<&'static str>,
    /// Settings of `alias_options` that name a file of settings.
    pub(super) setting_files: Vec<&'static str>,
    /// Options that read further options from elsewhere.
    pub(super) opens: Vec<&'static str>,
    /// Options whose value is a path; a `:` after the name ends it, and a `,` separates `source=PATH`.
    pub(super) path_options: Vec<&'static str>,
    /// Options whose value is without case.
    uppercase: Vec<&'static str>,
    /// Subcommands whose operands are without case; `*` for all.
    caseless: Vec<&'static str>,
    /// The option by which the tool saves a file by the name in its URL; `*` if it always does.
    pub(super) saves_urls: &'static str,
    /// Operands are files that the tool writes.
    pub(super) writes_operands: bool,
    /// The commands that it runs are found by the agent PATH, as if they were called without it.
    pub(super) here: bool,
    /// The command or text that it runs is one of the shell itself: its `cd` holds afterwards.
    pub(super) in_shell: bool,
    /// Options with which they are not.
    pub(super) drops: Vec<&'static str>,
    /// The tool runs no command of its operands, whatever they are.
    pub(super) plain: bool,
    /// Patterns of its arguments with which its output is meant for `eval`.
    pub(super) prints_environment: Vec<&'static str>,
    /// Its arguments with which it prints a name without other characters than those of [`super::glob::PLAIN`].
    pub(super) prints_name: Vec<&'static str>,
    /// The tool reads commands from its standard input if it has no operand.
    pub(super) reads_commands: bool,
    /// It also does with operands.
    pub(super) always_reads: bool,
    /// Its commands are not those of a shell.
    pub(super) reads_code: bool,
    /// The first operand is a file with commands.
    pub(super) reads_files: bool,
    options: Scope,
    command: HashMap<&'static str, Scope>,
    pub(super) runs: Vec<Runs>,
}

/// The options at one place of a command line. Each row lists synonyms, separated by spaces.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Scope {
    /// Options without a value.
    flags: Vec<&'static str>,
    /// Options with a value, `--x=v` or `--x v`.
    values: Vec<&'static str>,
    /// Options with a value only as `--x=v`.
    optional: Vec<&'static str>,
    /// The first operand ends the options.
    pub(super) stops: bool,
    /// Options whose value ends the options.
    pub(super) last: Vec<&'static str>,
    /// The subcommand whose options these also are.
    like: &'static str,
}

/// A command that a tool runs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Runs {
    /// The subcommand; empty for the tool itself.
    pub(super) after: &'static str,
    pub(super) how: How,
    /// Operands before the command.
    pub(super) skip: usize,
    /// The option whose value is the command, else the operands are.
    pub(super) option: &'static str,
    /// The option without which the operands are no command.
    pub(super) needs: &'static str,
    /// Operands `NAME=VALUE` before the command are variables.
    pub(super) assignments: bool,
    /// The command gets further arguments from the standard input.
    pub(super) appends: bool,
    /// They are read from there unless the call has this option.
    pub(super) unless: &'static str,
    /// The option whose value stands for such an argument.
    pub(super) replaces: &'static str,
    /// The operand that ends the command.
    pub(super) ends: &'static str,
    /// The text before the command in the option's value.
    pub(super) prefix: &'static str,
    /// `NAME@VERSION` is NAME.
    pub(super) versions: bool,
    /// The option with the command directory.
    pub(super) chdir: &'static str,
    /// The command has other files than the call.
    pub(super) contained: bool,
    /// The tool is an image name, which runs the tool of its name.
    pub(super) image: bool,
}

/// How a command is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum How {
    /// Its words are operands.
    #[default]
    Argv,
    /// A shell's text.
    Shell,
    /// Operands that are joined to a shell's text.
    Joined,
    /// Operands, each a shell's text.
    Each,
    /// The value of an option, joined with the words after it to a shell's text.
    Rest,
    /// A text of words for the same tool.
    Split,
    /// The words after an option, up to `;` or `+`.
    Until,
    /// The value of an option is the tool, the operands are its arguments.
    Module,
    /// Its words are operands for the same tool.
    Same,
    /// The first operand is a package, `SOURCE#NAME`, with the arguments after it.
    Package,
    /// `NAME=TEXT`, or the operands `NAME TEXT`: a setting of `shell_settings`.
    Setting,
    /// `NAME=TEXT` or `alias.NAME TEXT`, a definition that gets further words when it is used.
    Alias,
}

/// Whether an option has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arity {
    Flag,
    Value,
    Optional,
}

/// A tool table, or an empty one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) table: &'static Table,
    /// False for an empty table.
    pub(super) is_listed: bool,
}

static EMPTY: LazyLock<Table> = LazyLock::new(Table::default);

/// Returns the options of a subcommand that no table lists.
pub(super) fn empty_scope() -> &'static Scope {
    &EMPTY.options
}

/// Returns the table of a tool by its base name, the name that rules use, and for `git-push` the
/// subcommand.
pub(super) fn find(base: &[u8]) -> (Known, &[u8], Option<&[u8]>) {
    let known = |table| Known { table, is_listed: true };
    if let Some(table) = listed(base) {
        return (known(table), base, None);
    }
    if let Some(rest) = base.strip_prefix(b"g")
        && let Some(table) = listed(rest).filter(|table| table.gnu)
    {
        return (known(table), rest, None);
    }
    let digits = base.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
    let stem = base.get(..base.len() - digits.count()).unwrap_or_default();
    if stem.len() < base.len()
        && let Some(table) = listed(stem)
    {
        return (known(table), stem, None);
    }
    if let Some(at) = base.iter().position(|byte| *byte == b'-') {
        let (tool, rest) = base.split_at(at);
        if let Some(table) = listed(tool).filter(|table| table.dashed) {
            return (known(table), tool, rest.get(1..));
        }
    }
    (Known { table: &EMPTY, is_listed: false }, base, None)
}

impl Table {
    /// Gives subcommands the options of those that they are like.
    fn inherit(&mut self) {
        let others: HashMap<&str, [Vec<Row>; 4]> = self
            .command
            .iter()
            .map(|(name, it)| {
                (*name, [&it.flags, &it.values, &it.optional, &it.last].map(Vec::clone))
            })
            .collect();
        for scope in self.command.values_mut().filter(|scope| !scope.like.is_empty()) {
            let Some([flags, values, optional, last]) = others.get(scope.like).cloned() else {
                panic!("there is no subcommand '{}'", scope.like);
            };
            scope.flags.extend(flags);
            scope.values.extend(values);
            scope.optional.extend(optional);
            scope.last.extend(last);
        }
    }

    /// Returns whether the tool has no subcommands, so that its options hold after operands.
    pub(super) fn is_flat(&self) -> bool {
        self.command.is_empty() && self.commands.is_empty() && self.aliases.is_empty()
    }

    /// Returns whether the value of an option is without case.
    fn ignores_case(&self, option: &[u8]) -> bool {
        self.uppercase.iter().any(|name| name.as_bytes() == option)
    }

    /// Returns whether the operands of a subcommand are without case.
    pub(super) fn ignores_case_after(&self, command: Option<&[u8]>) -> bool {
        self.caseless.iter().any(|it| *it == "*" || command == Some(it.as_bytes()))
    }

    /// Returns an option's value in the form that rules are compared with.
    pub(super) fn normal_value(&self, option: &[u8], value: Vec<u8>) -> Vec<u8> {
        let has_key = self.alias_options.iter().any(|name| name.as_bytes() == option);
        let mut value = value;
        if self.ignores_case(option) {
            value.make_ascii_uppercase();
        } else if has_key {
            let key = value.split_mut(|byte| *byte == b'=').next().unwrap_or_default();
            key.make_ascii_lowercase();
        }
        value
    }

    /// Returns the options before any subcommand.
    pub(super) fn root(&self) -> &Scope {
        &self.options
    }

    /// Returns the options of a subcommand's words, if it has its own.
    pub(super) fn scope(&self, words: &str) -> Option<&Scope> {
        self.command.get(words)
    }

    /// Returns whether options before the subcommand hold after it.
    pub(super) fn inherits(&self) -> bool {
        self.inherits
    }

    /// Returns the name of a subcommand that may be an alias.
    pub(super) fn resolve<'a>(&'a self, word: &'a str) -> &'a str {
        self.aliases.get(word).copied().unwrap_or(word)
    }

    /// Returns whether `word` may abbreviate a subcommand.
    pub(super) fn may_abbreviate(&self, word: &str) -> bool {
        self.abbreviates_commands
            && !self.commands.contains(&word)
            && !self.aliases.contains_key(word)
    }

    /// Returns whether the tool may have a subcommand; a table without a list may have all.
    pub(super) fn may_have(&self, word: &str) -> bool {
        self.commands.is_empty() || self.has_command(word) || self.may_abbreviate_one(word)
    }

    fn may_abbreviate_one(&self, word: &str) -> bool {
        self.abbreviates_commands && self.commands.iter().any(|known| known.starts_with(word))
    }

    /// Returns whether this is a subcommand of the tool's own.
    pub(super) fn has_command(&self, word: &str) -> bool {
        self.commands.contains(&word) || self.command.contains_key(word)
    }
}

/// Returns the part of a program's path that names the tool.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

impl Scope {
    /// Returns all options.
    pub(super) fn rows(&self) -> impl DoubleEndedIterator<Item = (Arity, Row)> {
        let flags = self.flags.iter().map(|row| (Arity::Flag, *row));
        let values = self.values.iter().map(|row| (Arity::Value, *row));
        let optional = self.optional.iter().map(|row| (Arity::Optional, *row));
        flags.chain(values).chain(optional)
    }

    /// Returns an option's arity and synonyms.
    pub(super) fn find(&self, name: &[u8]) -> Option<(Arity, Row)> {
        self.rows().rev().find(|(_, row)| words(row).any(|word| word == name))
    }

    /// Returns the arity of the options that begin with `name`, if it is the same for all, and the name of the
    /// option if there is only one.
    pub(super) fn find_abbreviation(&self, name: &[u8]) -> Option<(Arity, Option<&[u8]>)> {
        let is_longer = |row| words(row).any(|word| word.starts_with(name));
        let mut found = self.rows().filter(|(_, row)| is_longer(row));
        let (arity, first) = found.next()?;
        let mut is_one = true;
        for (other, _) in found {
            is_one = false;
            if other != arity {
                return None;
            }
        }
        Some((arity, words(first).next().filter(|_| is_one)))
    }
}
