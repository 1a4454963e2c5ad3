//! Tables of tools: their options, subcommands, and the commands that they run.
//!
//! A table is a file of `tools/`; `spec/rules.md#tables` has its keys.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

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
    /// The tool reads commands from its standard input if it has no operand.
    pub(super) reads_commands: bool,
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
    /// `NAME@VERSION` is NAME.
    pub(super) versions: bool,
    /// The option with the command's directory.
    pub(super) chdir: String,
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
    /// A text of words for the same tool.
    Split,
    /// The words after an option, up to `;` or `+`.
    Until,
    /// The value of an option is the tool, the operands are its arguments.
    Module,
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

/// The table of a tool, or an empty one.
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
        self.command.values_mut().for_each(Scope::index);
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

    /// Returns whether this is a subcommand of the tool's own.
    pub(super) fn has_command(&self, word: &str) -> bool {
        self.commands.iter().any(|known| known == word) || self.command.contains_key(word)
    }
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

    /// Returns the arity of the options that begin with `name`, if it is the same for all.
    pub(super) fn find_abbreviation(&self, name: &[u8]) -> Option<Arity> {
        let mut found = self.index.iter().filter(|(known, _)| known.starts_with(name));
        let (_, (arity, _)) = found.next()?;
        found.all(|(_, (other, _))| other == arity).then_some(*arity)
    }
}
