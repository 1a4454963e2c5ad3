//! `prefix_rule` of codex: Starlark in `~/.codex/rules/*.rules`.

use super::starlark::{StarlarkCall, StarlarkFile, Value};
use super::{Draft, ImportNote, ImportedRules, InvalidImport, Verdict, command, rule_of_words};
use crate::judge::{RuleText, Run, RunWord};

/// Combinations of alternatives that a pattern may have.
const MAX_COMBINATIONS: usize = 64;

/// Imports the rules of a codex file.
pub fn import_codex(text: &str) -> Result<ImportedRules, InvalidImport> {
    let file = StarlarkFile::parse(text);
    let (mut drafts, mut notes) = (Vec::new(), Vec::new());
    for line in file.skipped {
        let what = "this statement cannot be expressed: only rules of literals can".to_owned();
        notes.push(ImportNote { line, what });
    }
    for call in file.calls {
        let what = match call.function.as_str() {
            "prefix_rule" => match rules_of(&call) {
                Ok(rules) => {
                    let shown = format!("the rule '{}'", shown(&rules));
                    let draft = |rule| Draft { line: call.line, shown: shown.clone(), rule };
                    drafts.extend(rules.into_iter().map(draft));
                    continue;
                }
                Err(what) => what,
            },
            "network_rule" => {
                "network_rule cannot be expressed: use net.allow or net.deny".to_owned()
            }
            "host_executable" => {
                "host_executable cannot be expressed: a tool is judged by its base name".to_owned()
            }
            other => format!("'{other}' cannot be expressed"),
        };
        notes.push(ImportNote { line: call.line, what });
    }
    if drafts.is_empty() && notes.is_empty() && !text.trim().is_empty() && !is_comment(text) {
        return Err(InvalidImport { line: 1, what: "there is no rule".to_owned() });
    }
    Ok(ImportedRules::of(drafts, notes))
}

fn is_comment(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

fn shown(rules: &[RuleText]) -> String {
    rules.first().map(|rule| rule.run.to_string()).unwrap_or_default()
}

fn rules_of(call: &StarlarkCall) -> Result<Vec<RuleText>, String> {
    let known = ["pattern", "decision", "justification", "match", "not_match"];
    if let Some(other) = call.arguments.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("the argument '{other}' of prefix_rule cannot be expressed"));
    }
    let then = match call.arguments.get("decision") {
        None => Verdict::Allow,
        Some(Value::Text(word)) => match word.as_str() {
            "allow" => Verdict::Allow,
            "prompt" => Verdict::Ask,
            "forbidden" => Verdict::Deny,
            other => return Err(format!("there is no decision '{other}'")),
        },
        Some(_) => return Err("the decision is no text".to_owned()),
    };
    let pattern = match call.arguments.get("pattern") {
        Some(Value::List(items)) if !items.is_empty() => items,
        _ => return Err("the rule has no pattern".to_owned()),
    };
    let words: Vec<Vec<String>> = pattern
        .iter()
        .map(alternatives)
        .collect::<Option<_>>()
        .ok_or("the pattern has an element that is no text")?;
    let mut examples = crate::judge::Examples::default();
    for (key, list) in [("match", &mut examples.yes), ("not_match", &mut examples.no)] {
        let Some(value) = call.arguments.get(key) else { continue };
        *list = examples_of(value)
            .ok_or_else(|| format!("'{key}' has an element that is no command"))?;
    }
    let because = match call.arguments.get("justification") {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let is_plain = words.iter().flatten().all(|word| is_run_word(word));
    let mut rules = if is_plain {
        let words = words.into_iter().map(|mut words| match words.len() {
            1 => RunWord::One(words.remove(0)),
            _ => RunWord::Any(words),
        });
        vec![RuleText { run: Run::Words(words.collect()), then: Some(then), ..RuleText::default() }]
    } else {
        let combinations = combinations(&words).ok_or("the pattern has too many combinations")?;
        let rules = combinations.iter().map(|words| rule_of_words(words, then));
        rules.collect::<Option<_>>().ok_or("the pattern has no tool")?
    };
    let is_one = rules.len() == 1;
    for rule in &mut rules {
        rule.because.clone_from(&because);
        rule.examples.no.clone_from(&examples.no);
        // Each combination matches only some of the examples.
        if is_one {
            rule.examples.yes.clone_from(&examples.yes);
        }
    }
    Ok(rules)
}

fn is_run_word(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('-') && !word.contains([' ', '\t', '\n', '*', '?', '/'])
}

fn alternatives(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Text(word) => Some(vec![word.clone()]),
        Value::List(words) if !words.is_empty() => words
            .iter()
            .map(|word| match word {
                Value::Text(word) => Some(word.clone()),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

fn combinations(words: &[Vec<String>]) -> Option<Vec<Vec<String>>> {
    let mut found: Vec<Vec<String>> = vec![Vec::new()];
    for alternatives in words {
        if found.len() * alternatives.len() > MAX_COMBINATIONS {
            return None;
        }
        let longer = found.iter().flat_map(|head| {
            alternatives
                .iter()
                .map(move |word| [head.as_slice(), std::slice::from_ref(word)].concat())
        });
        found = longer.collect();
    }
    Some(found)
}

/// Returns examples as commands; each is a text or a list of words.
fn examples_of(value: &Value) -> Option<Vec<String>> {
    let Value::List(items) = value else { return None };
    let example = |item: &Value| match item {
        Value::Text(text) => Some(text.clone()),
        Value::List(_) => alternatives(item).map(|words| command(&words)),
        Value::Other => None,
    };
    items.iter().map(example).collect()
}
