//! `[[rule]]`: rules on arguments (`spec/rules.md`).

use std::collections::BTreeSet;

use aifo_policy::{
    InvalidJudgeRule, Judge, JudgedCall, RuleDoubt, RuleOrigin, RuleText, RunWord, Verdict,
    example_call, request_words, rule_doubts,
};
use aifo_types::ToolName;
use serde_json::json;
use toml::Spanned;

use crate::error::{ConfigError, suggestion};
use crate::format::Format;
use crate::item::Item;
use crate::key::{ConfigEntry, extends};
use crate::source::Source;

/// The rules of the user's file and the workspace's.
#[derive(Clone, Debug, Default)]
pub struct ArgumentRules {
    judge: Judge,
    list: Vec<(RuleText, Source)>,
}

impl ArgumentRules {
    /// Adds the rules of the user's file.
    pub fn add(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let (rules, sources) = match item.flag_words() {
            Some(words) => {
                words.iter().map(|word| rule_of_word(word, item)).collect::<Result<_, _>>()?
            }
            None => read(item)?,
        };
        let origin = match item.flag_words() {
            Some(_) => RuleOrigin::Flag,
            None => RuleOrigin::User,
        };
        let added = self.judge.add(&rules, origin);
        added.map_err(|(at, error)| invalid(sources.get(at).unwrap_or(&item.source), &error))?;
        self.keep(rules, sources);
        Ok(())
    }

    /// Adds the rules of the workspace file, which can only make a verdict stricter.
    pub fn restrict(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let (rules, sources) = read(item)?;
        let allows = rules.iter().position(|(rule, _)| rule.then == Some(Verdict::Allow));
        if let Some(source) = allows.and_then(|at| sources.get(at)) {
            return Err(extends(item, "with then = \"allow\" allows calls").at(source));
        }
        let added = self.judge.restrict(&rules);
        added.map_err(|(at, error)| invalid(sources.get(at).unwrap_or(&item.source), &error))?;
        self.keep(rules, sources);
        Ok(())
    }

    fn keep(&mut self, rules: NamedRules, sources: Vec<Source>) {
        let rules = rules.into_iter().map(|(rule, _)| rule);
        self.list.extend(rules.zip(sources));
    }

    pub fn show(&self) -> Vec<ConfigEntry> {
        let entry = |(rule, source): &(RuleText, Source)| {
            let mut value = json!({});
            let words = |list: &RunWord| list.words().join("|");
            let lists = [
                ("kind", &rule.kind),
                ("path", &rule.path),
                ("push", &rule.push),
                ("repository", &rule.repository),
            ];
            for (key, list) in lists {
                if let Some(list) = list {
                    value[key] = words(list).into();
                }
            }
            if !rule.run.words().is_empty() {
                value["run"] = rule.run.to_string().into();
            }
            if let Some(then) = rule.then {
                value["then"] = then.as_str().into();
            }
            if let Some(net) = rule.net {
                value["net"] = net.as_str().into();
            }
            ConfigEntry::new("rule", value, source)
        };
        self.list.iter().map(entry).collect()
    }

    /// Returns a warning for each rule that holds for no call, or for other calls than it seems to.
    pub fn warnings(&self) -> Vec<String> {
        let rules: Vec<RuleText> = self.list.iter().map(|(rule, _)| rule.clone()).collect();
        let place = |at: usize| self.list.get(at).map(|(_, it)| it.to_string()).unwrap_or_default();
        let text = |(at, doubt): (usize, RuleDoubt)| {
            let what = match doubt {
                RuleDoubt::Unknown { tool, word, known } => {
                    let meant = typo_of(&word, &known)?;
                    format!("{tool} has no '{word}': did you mean '{meant}'?")
                }
                RuleDoubt::Never(why) => format!("the rule matches no call: {why}"),
                RuleDoubt::Contradicts(other) => {
                    format!(
                        "the rule contradicts that of {}: the stricter one decides",
                        place(other)
                    )
                }
            };
            Some(format!("{}: {what}", place(at)))
        };
        rule_doubts(&rules).into_iter().filter_map(text).collect()
    }

    /// Returns the judge with these rules, and the default ones if `has_defaults`.
    pub fn judge(&self, has_defaults: bool) -> Judge {
        let mut judge = self.judge.clone();
        if has_defaults {
            judge.add_defaults();
        }
        judge
    }

    /// Returns the tools that rules ask about, deny or take the network of. Patterns are none.
    pub fn tools(&self) -> ToolNames {
        let rules = self.list.iter().map(|(rule, _)| rule);
        let rules = rules.filter(|rule| !rule.is_on_requests());
        let strict = rules.filter(|rule| rule.net.is_some() || rule.then > Some(Verdict::Allow));
        let names = strict.filter_map(|rule| rule.run.words().into_iter().next()).flatten();
        let parse = |name: String| ToolName::parse(name.as_bytes()).ok();
        let is_plain = |tool: &ToolName| {
            let name = tool.as_str();
            !name.starts_with("aifo-") && !name.contains(['*', '?'])
        };
        names.filter_map(parse).filter(is_plain).collect()
    }

    /// Returns the number of rules and of their examples.
    pub fn count(&self) -> (usize, usize) {
        let examples = self.list.iter().map(|(rule, _)| rule.examples.len());
        (self.list.len(), examples.sum())
    }
}

/// Rules with their sources as text.
type NamedRules = Vec<(RuleText, String)>;

/// Returns the rules of a list, and their sources.
fn read(item: &Item<'_>) -> Result<(NamedRules, Vec<Source>), ConfigError> {
    let entries = item.toml::<Vec<Spanned<RuleText>>>()?;
    let sources: Vec<_> = entries.iter().map(|entry| item.source_of(entry.span())).collect();
    let rules = entries.into_iter().map(Spanned::into_inner);
    Ok((rules.zip(sources.iter().map(Source::to_string)).collect(), sources))
}

/// Returns the rule that a word of `--yes-to` stands for, and its source.
fn rule_of_word(word: &str, item: &Item<'_>) -> Result<((RuleText, String), Source), ConfigError> {
    if !request_words().any(|kind| kind == word) {
        let error = item.error(format!("there is no kind of request '{word}'"));
        return Err(match suggestion(word, request_words()) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error
                .hint(format!("known kinds: {}", request_words().collect::<Vec<_>>().join(", "))),
        });
    }
    let kind = if word == "all" { "*" } else { word };
    let rule = RuleText {
        kind: Some(RunWord::One(kind.to_owned())),
        then: Some(Verdict::Allow),
        ..RuleText::default()
    };
    Ok(((rule, item.source.to_string()), item.source.clone()))
}

pub(crate) type ToolNames = BTreeSet<ToolName>;

pub(crate) const TOOL_NAMES: Format<ToolNames> = Format::new(
    |item| item.list()?.iter().map(|name| tool_name(item, name)).collect(),
    |names| names.iter().map(|name| name.as_str()).collect::<Vec<_>>().into(),
);

/// The tools that run in place, by default those that agents have in their images. A shim of another one would hide that the agent
/// does not have it.
pub(crate) fn default_in_place() -> ToolNames {
    let names = ["git", "gh", "curl"].into_iter();
    names.filter_map(|name| ToolName::parse(name.as_bytes()).ok()).collect()
}

fn tool_name(item: &Item<'_>, name: &str) -> Result<ToolName, ConfigError> {
    let invalid = |why: String| item.error(why).hint("for example: in_place = [\"git\", \"rm\"]");
    if name.starts_with("aifo-") {
        return Err(invalid(format!("'{name}' is reserved")));
    }
    ToolName::parse(name.as_bytes()).map_err(|error| invalid(format!("'{name}': {error}")))
}

/// Returns the word of which another one is probably a misspelling. Tools have subcommands that no table lists.
fn typo_of<'a>(word: &str, known: &'a [String]) -> Option<&'a str> {
    let is_near = |candidate: &&String| {
        let limit = if candidate.len() > 5 { 2 } else { 1 };
        strsim::damerau_levenshtein(word, candidate) <= limit
    };
    known.iter().find(is_near).map(String::as_str)
}

/// Returns the calls of an example, as the judge reads them.
fn reading(example: &str) -> String {
    let argv = example_call(example).unwrap_or_default();
    let workspace = [b"/workspace".to_vec()];
    let call = JudgedCall { argv: &argv, directory: b"/workspace", workspace: &workspace };
    // The first one is the shell's.
    Judge::default().explain(&call).calls.into_iter().skip(1).collect::<Vec<_>>().join("', '")
}

fn invalid(source: &Source, error: &InvalidJudgeRule) -> ConfigError {
    let hint = match error {
        InvalidJudgeRule::Push(_) => {
            "for example: push = \"refs/heads/mine/*\", create = true".to_owned()
        }
        InvalidJudgeRule::NoKind => "for example: kind = [\"read\", \"edit\"]".to_owned(),
        InvalidJudgeRule::NotFileKind(_) => "name kinds of files, or add 'run'".to_owned(),
        InvalidJudgeRule::InvalidPath(_) => "for example: path = \"src\"".to_owned(),
        InvalidJudgeRule::NetOfRequest => "write a rule with 'run' and 'net' alone".to_owned(),
        InvalidJudgeRule::NoRun => "add 'run', or remove the conditions".to_owned(),
        InvalidJudgeRule::NoTool => "for example: run = \"git push\"".to_owned(),
        InvalidJudgeRule::NoEffect => "for example: then = \"ask\", or net = \"none\"".to_owned(),
        InvalidJudgeRule::NotWord(_) => "options belong in 'with', 'all' or 'without'".to_owned(),
        InvalidJudgeRule::TooMany => "split the rule".to_owned(),
        InvalidJudgeRule::EmptyCondition => "remove the empty text".to_owned(),
        InvalidJudgeRule::NotCommand(_) => "quote the command as for a shell".to_owned(),
        InvalidJudgeRule::NotMatched(example) | InvalidJudgeRule::Matched(example) => {
            format!("the example is read as '{}'", reading(example))
        }
    };
    ConfigError::new(source, error.to_string()).hint(hint)
}
