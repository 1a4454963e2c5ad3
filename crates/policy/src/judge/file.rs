//! The default rules, and the commands of examples.

use std::sync::OnceLock;

use super::Verdict;
use super::rule::{Rule, RuleOrigin, RuleText};
use super::set::RuleSet;
use super::table::by_length;

/// The tools that default rules name.
pub(super) struct ToolRules {
    tool: &'static str,
    /// True if a rule asks about calls of the tool or denies them, wherever their output goes.
    pub(super) is_strict: bool,
    /// Indices of the texts.
    texts: &'static [usize],
}

/// The texts of the rules, and the tools by name.
const DEFAULTS: (&[&str], &[ToolRules]) = include!(concat!(env!("OUT_DIR"), "/rules.rs"));

static COMPILED: [OnceLock<RuleSet>; DEFAULTS.1.len()] =
    [const { OnceLock::new() }; DEFAULTS.1.len()];

/// Parses the default rules, and returns them with their names.
pub fn default_rules() -> Vec<(RuleText, String)> {
    DEFAULTS.0.iter().map(|text| parse(text)).collect()
}

/// Returns what the default rules are on a tool, without compiling them.
pub(super) fn defaults_on(tool: &[u8]) -> Option<&'static ToolRules> {
    position(tool).and_then(|at| DEFAULTS.1.get(at))
}

/// Returns the default rules of a tool, compiled at the first call of this function.
pub(super) fn compiled_defaults(tool: &[u8]) -> Option<&'static RuleSet> {
    let at = position(tool)?;
    let rules = DEFAULTS.1.get(at)?;
    Some(COMPILED.get(at)?.get_or_init(|| {
        let texts = rules.texts.iter().filter_map(|at| DEFAULTS.0.get(*at));
        let mut set: Vec<Rule> = texts.flat_map(|text| compile(text)).collect();
        set.retain(|rule| rule.run.first().is_some_and(|name| name == tool));
        RuleSet::of(set)
    }))
}

/// Returns the first default rule that asks or denies.
pub(super) fn any_default() -> Option<Rule> {
    let mut rules = DEFAULTS.0.iter().flat_map(|text| compile(text));
    rules.find(|rule| rule.shared.then > Verdict::Allow)
}

fn position(tool: &[u8]) -> Option<usize> {
    DEFAULTS.1.binary_search_by(|rules| by_length(rules.tool, tool)).ok()
}

fn compile(text: &str) -> Vec<Rule> {
    let (rule, source) = parse(text);
    // The rules are part of the program, and a test compiles them.
    Rule::compile(&rule, rule.then.unwrap_or_default(), &source, RuleOrigin::Default)
        .unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn parse(text: &str) -> (RuleText, String) {
    let rule: RuleText =
        toml::from_str(text).unwrap_or_else(|error| panic!("rules.toml: {error}\n{text}"));
    let source = format!("default rule '{}'", rule.run);
    (rule, source)
}

/// Splits an example as a shell would, into a call; text that is no simple command is one of `sh`.
/// `None` if it is empty.
pub fn example_call(example: &str) -> Option<Vec<Vec<u8>>> {
    if example.trim().is_empty() {
        return None;
    }
    Some(["sh", "-c", example].map(|word| word.as_bytes().to_vec()).to_vec())
}
