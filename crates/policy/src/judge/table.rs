//! Tables of tools: their options, subcommands, and the commands that they run.
//!
//! A table is a file of `tools/`; `spec/rules.md#tables` has its keys.

mod judged;
mod known;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

pub(super) use judged::{JudgedTools, runs_nothing};
#[cfg(test)]
pub(super) use known::all_shell_variables;

/// The embedded files, by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/tools.rs"));

static TABLES: LazyLock<HashMap<Vec<u8>, &'static Table>> = LazyLock::new(|| {
    let mut tables = HashMap::new();
    for (file, text) in FILES {
        // The files are part of the program, and every test of the judge reads them.
        let mut parsed: Table =
            toml::from_str(text).unwrap_or_else(|error| panic!("tools/{file}: {error}"));
        parsed.index();
        let table: &'static Table = Box::leak(Box::new(parsed));
        tables.extend(table.names.iter().map(|name| (name.clone().into_bytes(), table)));
    }
    tables
});

/// How a tool reads its arguments.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    /// The tools with these arguments.
    names: Vec<String>,
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
    aliases: HashMap<String, String>,
    /// The subcommands that are not abbreviations.
    commands: Vec<String>,
    /// Options whose value may define an alias, `alias.NAME=..`.
    pub(super) alias_options: Vec<String>,
    /// Options that take such a value from the environment, `alias.NAME=VARIABLE`.
    pub(super) alias_environment: Vec<String>,
    /// The beginnings of variables that may define one.
    pub(super) alias_variables: Vec<String>,
    /// Variables with shell text that the tool runs, each with its `=`.
    pub(super) shell_variables: Vec<String>,
    /// The settings of [`How::Setting`] with shell text; an element that ends with `!` needs a `!` before the text.
    pub(super) shell_settings: Vec<String>,
    /// Settings of `alias_options` that name a file of settings.
    pub(super) setting_files: Vec<String>,
    /// Options that read further options from elsewhere.
    pub(super) opens: Vec<String>,
    /// Options whose value is a path; a `:` after the name ends it, and a `,` separates `source=PATH`.
    pub(super) path_options: Vec<String>,
    /// Options whose value is without case.
    uppercase: Vec<String>,
    /// Subcommands whose operands are without case; `*` for all.
    caseless: Vec<String>,
    /// The option by which the tool saves a file by the name in its URL; `*` if it always does.
    pub(super) saves_urls: String,
    /// Operands are files that the tool writes.
    pub(super) writes_operands: bool,
    /// The commands that it runs are found by the agent PATH, as if they were called without it.
    pub(super) here: bool,
    /// The command or text that it runs is one of the shell itself: its `cd` holds afterwards.
    pub(super) in_shell: bool,
    /// Options with which they are not.
    pub(super) drops: Vec<String>,
    /// The tool runs no command of its operands, whatever they are.
    pub(super) plain: bool,
    /// Patterns of its arguments with which its output is meant for `eval`.
    pub(super) prints_environment: Vec<String>,
    /// Its arguments with which it prints a name without other characters than those of [`super::glob::PLAIN`].
    pub(super) prints_name: Vec<String>,
    /// The tool reads commands from its standard input if it has no operand.
    pub(super) reads_commands: bool,
    /// It also does with operands.
    pub(super) always_reads: bool,
    /// Its commands are not those of a shell.
    pub(super) reads_code: bool,
    /// The first operand is a file with commands.
    pub(super) reads_files: bool,
    options: Scope,
    command: HashMap<String, Scope>,
    pub(super) runs: Vec<Runs>,
}

/// The options at one place of a command line. Each row lists synonyms, separated by spaces.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Scope {
    /// Options without a value.
    flags: Vec<String>,
    /// Options with a value, `--x=v` or `--x v`.
    values: Vec<String>,
    /// Options with a value only as `--x=v`.
    optional: Vec<String>,
    /// The first operand ends the options.
    pub(super) stops: bool,
    /// Options whose value ends the options.
    pub(super) last: Vec<String>,
    /// The subcommand whose options these also are.
    like: String,
    #[serde(skip)]
    index: HashMap<Vec<u8>, (Arity, usize)>,
    #[serde(skip)]
    synonyms: Vec<Vec<Vec<u8>>>,
}

/// A command that a tool runs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Runs {
    /// The subcommand; empty for the tool itself.
    pub(super) after: String,
    pub(super) how: How,
    /// Operands before the command.
    pub(super) skip: usize,
    /// The option whose value is the command, else the operands are.
    pub(super) option: String,
    /// The option without which the operands are no command.
    pub(super) needs: String,
    /// Operands `NAME=VALUE` before the command are variables.
    pub(super) assignments: bool,
    /// The command gets further arguments from the standard input.
    pub(super) appends: bool,
    /// They are read from there unless the call has this option.
    pub(super) unless: String,
    /// The option whose value stands for such an argument.
    pub(super) replaces: String,
    /// The operand that ends the command.
    pub(super) ends: String,
    /// The text before the command in the option's value.
    pub(super) prefix: String,
    /// `NAME@VERSION` is NAME.
    pub(super) versions: bool,
    /// The option with the command directory.
    pub(super) chdir: String,
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
    let listed = |table| Known { table, is_listed: true };
    if let Some(table) = TABLES.get(base) {
        return (listed(*table), base, None);
    }
    if let Some(rest) = base.strip_prefix(b"g")
        && let Some(table) = TABLES.get(rest).filter(|table| table.gnu)
    {
        return (listed(*table), rest, None);
    }
    let digits = base.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
    let stem = base.get(..base.len() - digits.count()).unwrap_or_default();
    if let Some(table) = TABLES.get(stem) {
        return (listed(*table), stem, None);
    }
    if let Some(at) = base.iter().position(|byte| *byte == b'-') {
        let (tool, rest) = base.split_at(at);
        if let Some(table) = TABLES.get(tool).filter(|table| table.dashed) {
            return (listed(*table), tool, rest.get(1..));
        }
    }
    (Known { table: &EMPTY, is_listed: false }, base, None)
}

impl Table {
    fn index(&mut self) {
        self.options.index();
        let others: HashMap<String, [Vec<String>; 4]> = self
            .command
            .iter()
            .map(|(name, it)| {
                (name.clone(), [&it.flags, &it.values, &it.optional, &it.last].map(Vec::clone))
            })
            .collect();
        for scope in self.command.values_mut().filter(|scope| !scope.like.is_empty()) {
            let Some([flags, values, optional, last]) = others.get(&scope.like).cloned() else {
                panic!("there is no subcommand '{}'", scope.like);
            };
            scope.flags.extend(flags);
            scope.values.extend(values);
            scope.optional.extend(optional);
            scope.last.extend(last);
        }
        self.command.values_mut().for_each(Scope::index);
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
        self.caseless.iter().any(|it| it == "*" || command == Some(it.as_bytes()))
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
        self.aliases.get(word).map_or(word, String::as_str)
    }

    /// Returns whether `word` may abbreviate a subcommand.
    pub(super) fn may_abbreviate(&self, word: &str) -> bool {
        self.abbreviates_commands
            && !self.commands.iter().any(|known| known == word)
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
        self.commands.iter().any(|known| known == word) || self.command.contains_key(word)
    }
}

/// Returns the part of a program's path that names the tool.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

impl Scope {
    fn index(&mut self) {
        let kinds = [
            (&self.flags, Arity::Flag),
            (&self.values, Arity::Value),
            (&self.optional, Arity::Optional),
        ];
        for (rows, arity) in kinds {
            for row in rows {
                let names: Vec<Vec<u8>> = row.split(' ').map(|it| it.as_bytes().to_vec()).collect();
                for name in &names {
                    self.index.insert(name.clone(), (arity, self.synonyms.len()));
                }
                self.synonyms.push(names);
            }
        }
    }

    /// Returns an option's arity and synonyms.
    pub(super) fn find(&self, name: &[u8]) -> Option<(Arity, &[Vec<u8>])> {
        let (arity, row) = self.index.get(name)?;
        Some((*arity, self.synonyms.get(*row)?))
    }

    /// Returns the arity of the options that begin with `name`, if it is the same for all, and the name of the
    /// option if there is only one.
    pub(super) fn find_abbreviation(&self, name: &[u8]) -> Option<(Arity, Option<&[u8]>)> {
        let mut found = self.index.iter().filter(|(known, _)| known.starts_with(name));
        let (_, (arity, first)) = found.next()?;
        let mut is_one = true;
        for (_, (other, row)) in found {
            is_one &= row == first;
            if other != arity {
                return None;
            }
        }
        let only = self.synonyms.get(*first).and_then(|names| names.first()).filter(|_| is_one);
        Some((*arity, only.map(Vec::as_slice)))
    }
}
