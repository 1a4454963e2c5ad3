//! `[net]` and `--allow-net`: the names that containers reach (`spec/network.md#default-rules`).

use aifo_egress::RuleError;
use aifo_network::{NetworkRules, RuleScope};
use aifo_types::Kind;
use serde_json::json;

use crate::error::ConfigError;
use crate::item::Item;
use crate::key::ConfigEntry;
use crate::kinds::Kinds;
use crate::source::{Source, Sourced};

/// The rules that files and flags add to the default ones, or take away.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredRules {
    /// The lists of files, then those of flags.
    allow: Vec<RuleList>,
    /// The names that the user's and the workspace file take away.
    deny: Vec<Sourced<Vec<String>>>,
}

/// Rules of the same stacks and source.
#[derive(Clone, Debug)]
struct RuleList {
    scope: RuleScope,
    rules: Sourced<Vec<String>>,
}

impl ConfiguredRules {
    /// Allows names for all stacks; a flag may name another one, `KIND=NAME`.
    pub fn allow(&mut self, kinds: &Kinds, item: &Item<'_>) -> Result<(), ConfigError> {
        let Some(words) = item.flag_words() else { return self.add(RuleScope::All, item) };
        for word in words {
            let (scope, rule) = scoped(kinds, item, word)?;
            self.push(scope, vec![rule.to_owned()], item)?;
        }
        Ok(())
    }

    /// Allows names for the tools of the kind that the key has.
    pub fn allow_kind(&mut self, kinds: &Kinds, item: &Item<'_>) -> Result<(), ConfigError> {
        let kind = kinds.named(item.name, &item.source)?;
        self.add(RuleScope::Kind(kind), item)
    }

    /// Allows names for the agent.
    pub fn allow_agent(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        self.add(RuleScope::Agent, item)
    }

    /// Takes names away, which the workspace file may do too.
    pub fn deny(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let list = item.list()?;
        NetworkRules::default().deny(&list).map_err(|error| invalid(item, &error))?;
        self.deny.push(Sourced::new(list, item.source.clone()));
        Ok(())
    }

    /// Adds all lists to the rules of a session. Each was parsed before.
    pub fn add_to(&self, rules: &mut NetworkRules) {
        for list in &self.allow {
            let source = list.rules.source.to_string();
            for rule in &list.rules.value {
                let _ = rules.allow(list.scope.clone(), rule, &source);
            }
        }
        for list in &self.deny {
            let _ = rules.deny(&list.value);
        }
    }

    /// Returns the first flag that allows a name.
    pub fn flag(&self) -> Option<&Source> {
        let mut sources = self.allow.iter().map(|list| &list.rules.source);
        sources.find(|source| matches!(source, Source::Flag(_)))
    }

    pub fn show_allow(&self) -> Vec<ConfigEntry> {
        self.show(|scope| (*scope == RuleScope::All).then(|| "net.allow".to_owned()))
    }

    pub fn show_kinds(&self) -> Vec<ConfigEntry> {
        self.show(|scope| match scope {
            RuleScope::Kind(kind) => Some(format!("net.kind.{kind}.allow")),
            _ => None,
        })
    }

    pub fn show_agent(&self) -> Vec<ConfigEntry> {
        self.show(|scope| (*scope == RuleScope::Agent).then(|| "net.agent.allow".to_owned()))
    }

    pub fn show_deny(&self) -> Vec<ConfigEntry> {
        let lists = self.deny.iter();
        lists.map(|list| ConfigEntry::new("net.deny", json!(list.value), &list.source)).collect()
    }

    fn show(&self, key: impl Fn(&RuleScope) -> Option<String>) -> Vec<ConfigEntry> {
        let lists = self.allow.iter().filter_map(|list| Some((key(&list.scope)?, &list.rules)));
        lists.map(|(key, rules)| ConfigEntry::new(key, json!(rules.value), &rules.source)).collect()
    }

    fn add(&mut self, scope: RuleScope, item: &Item<'_>) -> Result<(), ConfigError> {
        self.push(scope, item.list()?, item)
    }

    fn push(
        &mut self,
        scope: RuleScope,
        list: Vec<String>,
        item: &Item<'_>,
    ) -> Result<(), ConfigError> {
        check(&list, item)?;
        self.allow.push(RuleList { scope, rules: Sourced::new(list, item.source.clone()) });
        Ok(())
    }
}

/// Splits `KIND=NAME` and `agent=NAME`. A rule itself has `=` only in an option.
fn scoped<'a>(
    kinds: &Kinds,
    item: &Item<'_>,
    word: &'a str,
) -> Result<(RuleScope, &'a str), ConfigError> {
    match word.split_once('=') {
        Some((name, rule)) if !name.trim().contains(char::is_whitespace) => {
            let scope = match name.trim() {
                name if name == Kind::agent().as_str() => RuleScope::Agent,
                name => RuleScope::Kind(kinds.named(name, &item.source)?),
            };
            Ok((scope, rule))
        }
        _ => Ok((RuleScope::All, word)),
    }
}

/// Errors: a rule of the list is not valid.
pub(crate) fn check(list: &[String], item: &Item<'_>) -> Result<(), ConfigError> {
    let mut parsed = NetworkRules::default();
    let mut parse = |rule: &String| parsed.allow(RuleScope::All, rule, "");
    list.iter().try_for_each(|rule| parse(rule).map_err(|error| invalid(item, &error)))
}

/// Returns the error with the hint on its own line.
fn invalid(item: &Item<'_>, error: &RuleError) -> ConfigError {
    let text = error.to_string();
    match text.split_once("\nhint: ") {
        Some((problem, hint)) => item.error(problem.to_owned()).hint(hint.to_owned()),
        None => item.error(text),
    }
}
