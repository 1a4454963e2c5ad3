//! The flags of the table of keys: their definitions for clap, and their values.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::Value;

use crate::key::{Flag, FlagGroup, Key, Takes};
use crate::table::{Config, KEYS};

/// The flags of a command line, with their words.
#[derive(Clone, Debug, Default)]
pub struct Flags(BTreeMap<&'static str, Vec<String>>);

impl Flags {
    /// Returns the words of a flag; empty if it is absent.
    pub fn words(&self, long: &str) -> &[String] {
        self.0.get(long).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns their names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }

    /// Adds a flag with its words, unless there are none.
    pub fn with(mut self, long: &'static str, words: Vec<String>) -> Self {
        if !words.is_empty() {
            self.0.insert(long, words);
        }
        self
    }

    /// Adds other flags.
    pub fn and(mut self, other: &Flags) -> Self {
        self.0.extend(other.0.iter().map(|(long, words)| (*long, words.clone())));
        self
    }
}

/// A group of flags, as an argument of a command.
#[derive(Clone, Debug, Default)]
pub struct FlagsOf<G> {
    flags: Flags,
    group: PhantomData<G>,
}

impl<G> FlagsOf<G> {
    /// Returns the flags that are present.
    pub fn flags(&self) -> &Flags {
        &self.flags
    }
}

/// Names a [`FlagGroup`].
pub trait Group {
    const GROUP: FlagGroup;
}

macro_rules! groups {
    ($($group:ident)*) => {
        $(#[derive(Clone, Copy, Debug, Default)]
        /// The group of this name.
        pub struct $group;

        impl Group for $group {
            const GROUP: FlagGroup = FlagGroup::$group;
        })*
    };
}

groups!(Project Session Containers Smart State Permissions Cluster Pod);

impl<G: Group> Args for FlagsOf<G> {
    fn augment_args(command: Command) -> Command {
        rows(G::GROUP).fold(command, |command, (key, flag)| command.arg(argument(key, flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<G: Group> FromArgMatches for FlagsOf<G> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Flags::default();
        for (_, flag) in rows(G::GROUP) {
            let words = match flag.takes {
                Takes::Nothing(word) if matches.get_flag(id(flag)) => vec![word.to_owned()],
                Takes::Nothing(_) => Vec::new(),
                _ => matches.get_many(id(flag)).into_iter().flatten().cloned().collect(),
            };
            flags = flags.with(flag.long, words);
        }
        Ok(FlagsOf { flags, group: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the words that a flag accepts, if it is an enumeration.
pub fn flag_words(long: &str) -> Vec<&'static str> {
    let key = KEYS.iter().find(|key| key.names().flag.is_some_and(|flag| id(flag) == long));
    key.map(|key| key.words()).unwrap_or_default()
}

fn rows(group: FlagGroup) -> impl Iterator<Item = (&'static dyn Key<Config>, Flag)> {
    let flags = KEYS.iter().filter_map(|key| Some((*key, key.names().flag?)));
    flags.filter(move |(_, flag)| flag.group == group)
}

/// The id of a flag is its name without hyphens at the start.
fn id(flag: Flag) -> &'static str {
    flag.long.trim_start_matches('-')
}

fn argument(key: &dyn Key<Config>, flag: Flag) -> Arg {
    let arg = Arg::new(id(flag)).long(id(flag)).help(help(key, flag));
    let arg = match flag.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    match flag.takes {
        Takes::Nothing(_) => arg.action(ArgAction::SetTrue),
        Takes::One(name) => arg.value_name(name),
        Takes::Many(name) => arg.value_name(name).action(ArgAction::Append),
        Takes::List(name) => arg.value_name(name).action(ArgAction::Append).value_delimiter(','),
    }
}

/// The help, with the default and the variables.
fn help(key: &dyn Key<Config>, flag: Flag) -> String {
    let mut help = flag.help.to_owned();
    if let (false, Some(default)) = (matches!(flag.takes, Takes::Nothing(_)), default(key)) {
        help += &format!(" [default: {default}]");
    }
    let variables = key.names().variables;
    if !variables.is_empty() {
        let value = if flag.takes == Takes::Nothing("true") { "=1" } else { "" };
        help += &format!(" [env: {}{value}]", variables.join(", "));
    }
    help
}

/// Returns the default as text; `None` if it is empty.
pub(crate) fn default(key: &dyn Key<Config>) -> Option<String> {
    // Every start defines the flags of all commands, and the built-in tables take longer than a flag.
    static BUILTIN: LazyLock<Config> = LazyLock::new(Config::builtin);
    let entry = key.show(&BUILTIN).into_iter().next()?;
    let text = match &entry.value {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        Value::String(word) => word.clone(),
        _ => entry.shown().trim_matches(['(', ')']).to_owned(),
    };
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::BUILT;

    #[test]
    fn definitions_of_flags_build_the_tables_of_defaults_once() {
        let command = Command::new("all");
        let command = FlagsOf::<Project>::augment_args(command);
        let command = FlagsOf::<Session>::augment_args(command);
        let command = FlagsOf::<Containers>::augment_args(command);
        assert!(command.get_arguments().count() > 20);
        assert!(BUILT.get() <= 1, "{} tables", BUILT.get());
    }
}
