//! The default rules, and the commands of examples.

use std::sync::LazyLock;

use super::Verdict;
use super::rule::{Rule, RuleOrigin};
use super::rule_text::RuleText;
use super::table::by_length;

/// A tool that default rules name.
pub(super) struct ToolRules {
    tool: &'static str,
    /// True if a rule asks about its calls or denies them, wherever their output goes.
    pub(super) is_strict: bool,
    /// Indices of texts.
    texts: &'static [usize],
}

/// Texts of rules, and their tools by name.
const DEFAULTS: (&[&str], &[ToolRules]) = include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// The number of tools that default rules name.
pub(super) const TOOLS: usize = DEFAULTS.1.len();

/// Parses the default rules, and returns them with their names.
pub fn default_rules() -> Vec<(RuleText, String)> {
    DEFAULTS.0.iter().map(|text| parse(text)).collect()
}

/// Returns a tool's default rules and their index, less than [`TOOLS`], if it has any.
pub(super) fn defaults_on(tool: &[u8]) -> Option<(usize, &'static ToolRules)> {
    let at = DEFAULTS.1.binary_search_by(|rules| by_length(rules.tool, tool)).ok()?;
    Some((at, DEFAULTS.1.get(at)?))
}

impl ToolRules {
    pub(super) fn compile(&self) -> Vec<Rule> {
        let texts = self.texts.iter().filter_map(|at| DEFAULTS.0.get(*at));
        let mut rules: Vec<Rule> = texts.flat_map(|text| compile(text)).collect();
        let is_own = |name: &Vec<u8>| name == self.tool.as_bytes();
        rules.retain(|rule| rule.run.first().is_some_and(is_own));
        rules
    }
}

/// The first default rule that asks or denies.
pub(super) static ANY_DEFAULT: LazyLock<Option<Rule>> = LazyLock::new(|| {
    let mut rules = DEFAULTS.0.iter().flat_map(|text| compile(text));
    rules.find(|rule| rule.shared.then > Verdict::Allow)
});

fn compile(text: &str) -> Vec<Rule> {
    let (rule, source) = parse(text);
    // The rules are part of the program, and a test compiles them.
    Rule::compile(&rule, rule.then.unwrap_or_default(), &source, RuleOrigin::Default)
        .unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn parse(text: &str) -> (RuleText, String) {
    let rule: RuleText =
        toml::from_str(text).unwrap_or_else(|error| panic!("rules.toml: {error}\n{text}"));
    let source = format!("{} (default)", rule.run);
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
