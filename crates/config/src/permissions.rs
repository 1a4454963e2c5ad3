//! `[permissions]`: rules for an agent's permission requests (`spec/acp.md#rules`).

use std::fmt;

use aifo_policy::{DefaultVerdict, InvalidRule, PermissionRule, RuleCommand, WithSource};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, json};
use toml::Spanned;

use crate::error::{ConfigError, suggestion};
use crate::format::enumeration;
use crate::item::Item;
use crate::key::{ConfigEntry, extends};
use crate::source::Source;

/// The rules of a list, with their sources.
pub(crate) type Rules = Vec<WithSource<PermissionRule, Source>>;

/// A rule in a file.
#[derive(Debug)]
enum RuleEntry {
    /// A kind of call, or `all`.
    Word(String),
    /// `{ kind = .., command = .., path = .. }`
    Table(RuleTable),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RuleTable {
    kind: Option<String>,
    command: Option<String>,
    path: Option<String>,
}

/// The effect of the list that a rule is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleEffect {
    Allow,
    Restrict,
}

enumeration!(DEFAULT: DefaultVerdict =
    [(DefaultVerdict::Ask, "ask"), (DefaultVerdict::Deny, "deny")]);

/// Adds rules that allow calls; those of a flag are words.
pub(crate) fn add_allow(rules: &mut Rules, item: &Item<'_>) -> Result<(), ConfigError> {
    let Some(words) = item.flag_words() else { return add(rules, item, RuleEffect::Allow) };
    for word in words {
        let value = rule_of_word(word, &item.source)?;
        rules.push(WithSource { value, source: item.source.clone() });
    }
    Ok(())
}

/// Adds rules that deny calls, or let the user decide.
pub(crate) fn add_restricting(rules: &mut Rules, item: &Item<'_>) -> Result<(), ConfigError> {
    add(rules, item, RuleEffect::Restrict)
}

/// Sets the default of the user's file.
pub(crate) fn set_default(
    default: &mut WithSource<DefaultVerdict, Source>,
    item: &Item<'_>,
) -> Result<(), ConfigError> {
    *default = WithSource { value: (DEFAULT.parse)(item)?, source: item.source.clone() };
    Ok(())
}

/// Sets the default of the workspace file. Errors: it is not to deny.
pub(crate) fn restrict_default(
    default: &mut WithSource<DefaultVerdict, Source>,
    item: &Item<'_>,
) -> Result<(), ConfigError> {
    match (DEFAULT.parse)(item)? {
        DefaultVerdict::Ask => Err(extends(item, "= \"ask\" lets calls ask the user")),
        DefaultVerdict::Deny => set_default(default, item),
    }
}

pub(crate) fn show(key: &'static str, rules: &Rules) -> Vec<ConfigEntry> {
    let entry = |rule: &WithSource<PermissionRule, Source>| {
        ConfigEntry::new(key, json!([shown(&rule.value)]), &rule.source)
    };
    rules.iter().map(entry).collect()
}

pub(crate) fn show_default(default: &WithSource<DefaultVerdict, Source>) -> Vec<ConfigEntry> {
    vec![ConfigEntry::new("permissions.default", (DEFAULT.show)(&default.value), &default.source)]
}

fn rule_of_word(word: &str, source: &Source) -> Result<PermissionRule, ConfigError> {
    PermissionRule::from_keyword(word).ok_or_else(|| {
        let error = ConfigError::new(source, format!("there is no kind of tool call '{word}'"));
        let known = || PermissionRule::keywords();
        match suggestion(word, known()) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error.hint(format!("known kinds: {}", known().collect::<Vec<_>>().join(", "))),
        }
    })
}

/// Returns a rule as JSON.
fn shown(rule: &PermissionRule) -> Value {
    match PermissionRule::keywords()
        .find(|word| PermissionRule::from_keyword(word).as_ref() == Some(rule))
    {
        Some(word) => json!(word),
        None => {
            let conditions = [
                ("kind", rule.kind.as_deref()),
                ("command", rule.command.as_ref().map(RuleCommand::as_str)),
                ("path", rule.path.as_deref()),
            ];
            let present = conditions.into_iter().filter_map(|(key, text)| Some((key, text?)));
            present.map(|(key, text)| (key.to_owned(), Value::from(text))).collect()
        }
    }
}

fn add(rules: &mut Rules, item: &Item<'_>, effect: RuleEffect) -> Result<(), ConfigError> {
    for entry in item.toml::<Vec<Spanned<RuleEntry>>>()? {
        let source = item.source_of(entry.span());
        let value = rule(entry.get_ref(), effect, &source)?;
        rules.push(WithSource { value, source });
    }
    Ok(())
}

fn rule(
    entry: &RuleEntry,
    effect: RuleEffect,
    source: &Source,
) -> Result<PermissionRule, ConfigError> {
    let table = match entry {
        RuleEntry::Word(word) => return rule_of_word(word, source),
        RuleEntry::Table(table) => table,
    };
    let RuleTable { kind, command, path } = table;
    let error = |invalid: InvalidRule| {
        let hint = match &invalid {
            InvalidRule::Empty => "to match every call, use \"all\"",
            InvalidRule::EmptyText(_) => "remove it, or give it a value",
            InvalidRule::InvalidPath(_) => "for example: { path = \"src\" }",
            InvalidRule::NotFileKind(_) => "add a command, or remove the path",
            InvalidRule::NotSingleCommand(_) => {
                "use one program with its arguments, and quote special characters of the shell"
            }
        };
        ConfigError::new(source, invalid.to_string()).hint(hint)
    };
    let command = command.as_ref().map(|text| match RuleCommand::parse(text) {
        Some(command) => Ok(command),
        None if text.trim().is_empty() => Err(error(InvalidRule::EmptyText("command"))),
        None => Err(error(InvalidRule::NotSingleCommand(text.clone()))),
    });
    let rule =
        PermissionRule { kind: kind.clone(), command: command.transpose()?, path: path.clone() };
    let checked = match effect {
        RuleEffect::Allow => rule.check_for_allow(),
        RuleEffect::Restrict => rule.check(),
    };
    checked.map(|()| rule).map_err(error)
}

impl<'de> Deserialize<'de> for RuleEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrTable)
    }
}

/// Not an untagged enum, whose errors would have neither keys nor hints.
struct WordOrTable;

impl<'de> Visitor<'de> for WordOrTable {
    type Value = RuleEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a kind of tool call, or a table with a kind, a command or a path")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<RuleEntry, E> {
        Ok(RuleEntry::Word(word.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RuleEntry, A::Error> {
        RuleTable::deserialize(MapAccessDeserializer::new(map)).map(RuleEntry::Table)
    }
}
