//! `[permissions]`: rules for an agent's permission requests (`spec/acp.md#rules`).

use std::fmt;
use std::ops::Range;

use aifo_policy::{DefaultVerdict, InvalidRule, PermissionRule, RuleCommand, WithSource};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use toml::Spanned;

use crate::config::error::{ConfigError, suggestion};
use crate::config::file::File;
use crate::config::source::{Source, Sourced};
use crate::config::values::Config;

/// `[permissions]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PermissionEntries {
    pub(crate) allow: Option<Spanned<Vec<Spanned<RuleEntry>>>>,
    pub(crate) ask: Option<Spanned<Vec<Spanned<RuleEntry>>>>,
    deny: Option<Spanned<Vec<Spanned<RuleEntry>>>>,
    pub(crate) default: Option<Spanned<String>>,
}

/// A rule in a file.
#[derive(Debug)]
pub(crate) enum RuleEntry {
    /// A kind of call, or `all`.
    Word(String),
    /// `{ kind = .., command = .., path = .. }`
    Table(RuleTable),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RuleTable {
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

impl Config {
    /// Adds the rules of the user's file.
    pub(crate) fn apply_permissions(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries.permissions;
        self.permissions.allow.extend(rules(file, &entries.allow, RuleEffect::Allow)?);
        self.permissions.ask.extend(rules(file, &entries.ask, RuleEffect::Restrict)?);
        self.narrow_permissions(file)
    }

    /// Adds deny rules and the default, which the workspace's file may do too.
    pub(crate) fn narrow_permissions(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries.permissions;
        self.permissions.deny.extend(rules(file, &entries.deny, RuleEffect::Restrict)?);
        if let Some(Sourced { value: word, source }) = file.sourced(&entries.default) {
            let value = DefaultVerdict::parse(&word).ok_or_else(|| {
                ConfigError::invalid_value(&source, &word, "permissions.default", &["ask", "deny"])
            })?;
            self.permissions.default = WithSource { value, source };
        }
        Ok(())
    }

    /// Adds the allow rules of `--yes-to`.
    pub(crate) fn allow_by_flag(&mut self, rules: &[PermissionRule]) {
        let allowed = rules
            .iter()
            .map(|rule| WithSource { value: rule.clone(), source: Source::Flag("--yes-to") });
        self.permissions.allow.extend(allowed);
    }
}

/// Parses a rule of one word. Errors: the message and the hint.
pub(crate) fn parse_rule_keyword(word: &str) -> Result<PermissionRule, (String, String)> {
    PermissionRule::from_keyword(word).ok_or_else(|| {
        let what = format!("there is no kind of tool call '{word}'");
        let known = || PermissionRule::keywords();
        let hint = match suggestion(word, known()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("known kinds: {}", known().collect::<Vec<_>>().join(", ")),
        };
        (what, hint)
    })
}

/// Returns a rule as JSON.
pub(crate) fn shown(rule: &PermissionRule) -> Value {
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

/// Returns the keys that a workspace's file may not have, with their effect. An ask rule extends
/// permissions if the default is to deny.
pub(crate) fn loosening(
    entries: &PermissionEntries,
) -> impl Iterator<Item = (Range<usize>, String)> {
    let default = entries.default.as_ref().filter(|word| *word.get_ref() == "ask");
    let keys = [
        (entries.allow.as_ref().map(Spanned::span), "allow allows calls"),
        (entries.ask.as_ref().map(Spanned::span), "ask lets calls ask the user"),
        (default.map(Spanned::span), "default = \"ask\" lets calls ask the user"),
    ];
    keys.into_iter().filter_map(|(span, does)| Some((span?, format!("[permissions] {does}"))))
}

fn rules(
    file: &File,
    entry: &Option<Spanned<Vec<Spanned<RuleEntry>>>>,
    effect: RuleEffect,
) -> Result<Vec<WithSource<PermissionRule, Source>>, ConfigError> {
    let entries = entry.iter().flat_map(Spanned::get_ref);
    let rule = |entry: &Spanned<RuleEntry>| {
        let source = file.source(entry.span());
        let value = rule(entry.get_ref(), effect, &source)?;
        Ok(WithSource { value, source })
    };
    entries.map(rule).collect()
}

fn rule(
    entry: &RuleEntry,
    effect: RuleEffect,
    source: &Source,
) -> Result<PermissionRule, ConfigError> {
    let table = match entry {
        RuleEntry::Word(word) => {
            let named = parse_rule_keyword(word);
            return named.map_err(|(what, hint)| ConfigError::new(source, what).hint(hint));
        }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use aifo_policy::{AccessRequest, CallCommand};

    use super::*;

    fn config(user: &str, workspace: &str) -> Result<Config, String> {
        let parse = |path: &str, text: &str| File::parse(Path::new(path), text);
        let mut config = Config::builtin();
        let user = parse("/u.toml", user).and_then(|file| config.apply_user(&file));
        user.map_err(|error| error.to_string())?;
        let tightened = parse("/w/.aifo.toml", workspace).and_then(|file| config.tighten(&file));
        tightened.map(|()| config).map_err(|error| error.to_string())
    }

    fn judge(config: &Config, kind: &str, command: Option<&str>, paths: &[&str]) -> String {
        let (workspace, cwd) = (["/w".into()], Path::new("/w"));
        let command = command.map(CallCommand::from_text);
        let command = command.as_ref();
        let request = AccessRequest { kind, command, paths, workspace: &workspace, cwd };
        config.permissions.judge(&request).to_string()
    }

    #[test]
    fn decisions_name_their_source() {
        let user = "[permissions]\n\
                    allow = ['read',\n  { command = 'cargo test' },\n  { kind = 'edit', path = 'src' }]\n\
                    ask = ['execute']\n\
                    deny = [{ path = '.git' }, 'delete']\n\
                    default = 'deny'\n";
        let mut config = config(user, "[permissions]\ndeny = [{ path = 'secrets' }]").unwrap();
        config.allow_by_flag(&[PermissionRule::from_keyword("fetch").unwrap()]);
        let rows = [
            ("read", None, "a", "allow: \"read\" (/u.toml:2)"),
            ("execute", Some("cargo test"), "", "allow: { command = \"cargo test\" } (/u.toml:3)"),
            ("edit", None, "src/a", "allow: { kind = \"edit\", path = \"src\" } (/u.toml:4)"),
            ("execute", Some("ls"), "", "ask: \"execute\" (/u.toml:5)"),
            ("read", None, ".git/config", "deny: { path = \".git\" } (/u.toml:6)"),
            ("delete", None, "a", "deny: \"delete\" (/u.toml:6)"),
            ("read", None, "secrets/a", "deny: { path = \"secrets\" } (/w/.aifo.toml:2)"),
            ("fetch", None, "", "allow: \"fetch\" (--yes-to)"),
            ("edit", None, "a", "deny: default (/u.toml:7)"),
        ];
        for (kind, command, path, expected) in rows {
            let paths: Vec<&str> = path.split_whitespace().collect();
            assert_eq!(judge(&config, kind, command, &paths), expected);
        }
        let silent = Config::builtin();
        assert_eq!(judge(&silent, "read", None, &[]), "ask: default (built in)");
    }

    #[test]
    fn invalid_rules() {
        let rows = [
            (
                "allow = ['reed']",
                "/u.toml:2: there is no kind of tool call 'reed'\nhint: did you mean 'read'?",
            ),
            (
                "deny = ['brand_new']",
                "hint: known kinds: read, edit, delete, move, search, execute, ",
            ),
            (
                "allow = [{ comand = 'x' }]",
                "/u.toml:2: there is no key 'comand'\nhint: did you mean 'command'?",
            ),
            (
                "allow = [\n  'read',\n  {},\n]",
                "/u.toml:4: a rule needs a kind, a command or a path\n",
            ),
            ("deny = [{ command = ' ' }]", "/u.toml:2: the rule's command is empty\nhint: "),
            (
                "deny = [{ command = 'cd x && make' }]",
                "/u.toml:2: 'cd x && make' is not a single command\nhint: use one program with its",
            ),
            (
                "allow = [{ command = 'rm $X' }]",
                "/u.toml:2: 'rm $X' is not a single command\nhint: ",
            ),
            ("deny = [{ path = '' }]", "/u.toml:2: the rule's path is empty\nhint: "),
            ("deny = [{ path = '~/.ssh' }]", "/u.toml:2: invalid path '~/.ssh': expected one that"),
            (
                "allow = [{ kind = 'execute', path = 'src' }]",
                "/u.toml:2: a path alone cannot allow calls of kind 'execute'\nhint: ",
            ),
            ("allow = [7]", "/u.toml:2: invalid type: integer `7`, expected a kind of tool call"),
            ("allow = 'read'", "/u.toml:2: invalid type"),
            (
                "default = 'allow'",
                "/u.toml:2: invalid value 'allow' for permissions.default: expected ask or deny",
            ),
        ];
        for (text, expected) in rows {
            let error = config(&format!("[permissions]\n{text}"), "").unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let new_kind = config("[permissions]\nallow = [{ kind = 'brand_new' }]", "").unwrap();
        assert!(judge(&new_kind, "brand_new", None, &[]).starts_with("allow: "));
    }

    #[test]
    fn a_workspace_can_only_restrict() {
        let denied = config("[permissions]\nallow = ['all']", "[permissions]\ndeny = ['all']");
        assert!(judge(&denied.unwrap(), "read", None, &[]).starts_with("deny: \"all\""));
        let default = config("", "[permissions]\ndefault = 'deny'").unwrap();
        assert_eq!(judge(&default, "read", None, &[]), "deny: default (/w/.aifo.toml:2)");
        for text in ["allow = ['read']", "ask = ['read']", "default = 'ask'"] {
            let error = config("", &format!("[permissions]\n{text}")).unwrap_err();
            assert!(error.starts_with("/w/.aifo.toml:2: [permissions] "), "{text}: {error}");
            assert!(error.contains("a workspace's file may not do"), "{text}: {error}");
        }
    }
}
