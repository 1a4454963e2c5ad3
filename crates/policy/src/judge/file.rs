//! The default rules, and the commands of examples.

use std::sync::LazyLock;

use serde::Deserialize;

use super::rule::RuleText;

/// The default set.
const TEXT: &str = include_str!("../../rules.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    rule: Vec<RuleText>,
}

static RULES: LazyLock<Vec<(RuleText, String)>> = LazyLock::new(|| {
    // The file is part of the program, and a test reads it.
    let file: RuleFile = toml::from_str(TEXT).unwrap_or_else(|error| panic!("rules.toml: {error}"));
    let names = file.rule.iter().map(|rule| format!("default rule '{}'", rule.run));
    let names: Vec<_> = names.collect();
    file.rule.into_iter().zip(names).collect()
});

/// Returns the default rules with their names.
pub fn default_rules() -> &'static [(RuleText, String)] {
    &RULES
}

/// Splits an example as a shell would, into a call; text that is no simple command is one of `sh`.
/// `None` if it is empty.
pub fn example_call(example: &str) -> Option<Vec<Vec<u8>>> {
    if example.trim().is_empty() {
        return None;
    }
    Some(["sh", "-c", example].map(|word| word.as_bytes().to_vec()).to_vec())
}
