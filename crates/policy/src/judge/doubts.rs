//! Rules that are valid and hold for no call, or for other calls than their author means.

use super::rule_text::{RuleText, RunWord};
use super::table::find;

/// A doubt about a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleDoubt {
    /// A subcommand or option that no table lists, and those that one does.
    Unknown {
        /// The tool.
        tool: String,
        /// The word of the rule.
        word: String,
        /// The words of the tool table.
        known: Vec<String>,
    },
    /// No call has the conditions.
    Never(String),
    /// Another rule, by index, has the same conditions and another verdict.
    Contradicts(usize),
}

/// Returns the doubts about a file's rules, each with the index of its rule.
pub fn rule_doubts(rules: &[RuleText]) -> Vec<(usize, RuleDoubt)> {
    let mut doubts = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        doubts.extend(unknown_words(rule).into_iter().map(|doubt| (at, doubt)));
        doubts.extend(never(rule).map(|why| (at, RuleDoubt::Never(why))));
        let earlier = rules.iter().take(at);
        let same = earlier.enumerate().find(|(_, other)| {
            matches!((other.then, rule.then), (Some(a), Some(b)) if a != b)
                && conditions(other) == conditions(rule)
        });
        doubts.extend(same.map(|(other, _)| (at, RuleDoubt::Contradicts(other))));
    }
    doubts
}

/// Returns the parts that decide on a call, in one order.
fn conditions(rule: &RuleText) -> impl PartialEq {
    let sorted = |list: &[String]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    let lists = [
        &rule.with,
        &rule.all,
        &rule.without,
        &rule.outside_of,
        &rule.other_than,
        &rule.into,
        &rule.writes,
    ];
    let run: Vec<_> = rule.run.words().iter().map(|words| sorted(words)).collect();
    let of = |list: &Option<RunWord>| list.as_ref().map(|list| sorted(list.words()));
    let changes = [rule.create, rule.update, rule.delete, rule.force];
    let of_pushes = (of(&rule.push), of(&rule.repository), changes);
    let of_requests = (of(&rule.kind), of(&rule.path));
    let lists = lists.map(|list| sorted(list));
    (of_pushes, of_requests, run, lists, rule.outside, rule.exact)
}

fn unknown_words(rule: &RuleText) -> Vec<RuleDoubt> {
    let mut doubts = Vec::new();
    let words = rule.run.words();
    for tool in words.first().into_iter().flatten() {
        let (known, tool, _) = find(tool.as_bytes());
        let tool = String::from_utf8_lossy(tool).into_owned();
        let mut unknown = |word: &String, known: Vec<String>| {
            if !known.is_empty() {
                let (tool, word) = (tool.clone(), word.clone());
                doubts.push(RuleDoubt::Unknown { tool, word, known });
            }
        };
        let commands = known.table.known_commands();
        for word in words.get(1).into_iter().flatten() {
            let is_known = commands.contains(word) || word.contains(['*', '?', '.', '/', ':']);
            if !is_known {
                unknown(word, commands.clone());
            }
        }
        let options = known.table.known_options();
        for element in rule.with.iter().chain(&rule.all).chain(&rule.without) {
            let name = element.split('=').next().unwrap_or_default();
            let is_known = options.iter().any(|it| it == name) || name.contains(['*', '?']);
            if name.starts_with("--") && name.len() > 2 && !is_known {
                unknown(&name.to_owned(), options.clone());
            }
        }
    }
    doubts
}

fn never(rule: &RuleText) -> Option<String> {
    let is_without = |element: &&String| rule.without.contains(element);
    if let Some(element) = rule.all.iter().find(is_without) {
        return Some(format!("'{element}' is in 'all' and in 'without'"));
    }
    if let ([element], true) = (rule.with.as_slice(), rule.with.iter().all(|it| is_without(&it))) {
        return Some(format!("'{element}' is in 'with' and in 'without'"));
    }
    let has_other = rule.with.iter().all(|element| element.starts_with('-'))
        && !rule.with.is_empty()
        && !rule.with.iter().any(|element| rule.all.contains(element));
    if rule.exact && has_other {
        return Some("an exact rule names its options in 'all', not in 'with'".to_owned());
    }
    None
}
