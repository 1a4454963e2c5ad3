//! Texts of the judge's tables and rules, found by tool. Each is parsed when its tool is first called.
//!
//! Names are ordered by length, then by bytes: most steps of a search compare only lengths.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;

use serde::Deserialize;

use super::{files, of_crate};

type ByName<T> = BTreeMap<(usize, String), T>;

#[derive(Deserialize)]
struct ToolFile {
    names: Vec<String>,
}

/// A rule as far as its tools depend on it.
#[derive(Deserialize)]
struct RuleText {
    run: Run,
    #[serde(default)]
    into: Vec<String>,
    then: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Run {
    Text(String),
    Words(Vec<Word>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    One(String),
    Any(Vec<String>),
}

/// Returns an expression of all texts, and of their tools by name.
pub(super) fn tools() -> Result<String, Box<dyn Error>> {
    let mut texts = Vec::new();
    let mut names: ByName<usize> = BTreeMap::new();
    for path in files("tools")? {
        let text = fs::read_to_string(&path)?;
        let file: ToolFile =
            toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        for name in file.names {
            if names.insert((name.len(), name.clone()), texts.len()).is_some() {
                return Err(format!("'{name}' has two tables").into());
            }
        }
        texts.push(text);
    }
    let names: Vec<_> = names.into_iter().map(|((_, name), at)| (name, at)).collect();
    Ok(format!("(&{texts:?}, &{names:?})\n"))
}

/// Returns an expression of all default rules' texts, and of tools by name: whether a rule makes their calls
/// stricter whatever reads their output, and the rules.
pub(super) fn rules() -> Result<String, Box<dyn Error>> {
    let file = fs::read_to_string(of_crate("rules.toml")?)?;
    let texts: Vec<&str> = file.split("[[rule]]\n").skip(1).collect();
    let mut tools: ByName<(bool, Vec<usize>)> = BTreeMap::new();
    for (at, text) in texts.iter().enumerate() {
        let rule: RuleText =
            toml::from_str(text).map_err(|error| format!("rules.toml: {error}\n{text}"))?;
        let is_strict = rule.into.is_empty() && rule.then != "allow";
        for tool in tools_of(rule.run) {
            if tool == "*" {
                return Err("a default rule names its tools".into());
            }
            let found = tools.entry((tool.len(), tool)).or_default();
            found.0 |= is_strict;
            found.1.push(at);
        }
    }
    let tools = tools.iter().map(|((_, tool), (is_strict, rules))| {
        format!("    ToolRules {{ tool: {tool:?}, is_strict: {is_strict}, texts: &{rules:?} }},\n")
    });
    Ok(format!("(&{texts:?}, &[\n{}])\n", tools.collect::<String>()))
}

fn tools_of(run: Run) -> Vec<String> {
    match run {
        Run::Text(text) => text.split(' ').take(1).map(str::to_owned).collect(),
        Run::Words(words) => match words.into_iter().next() {
            Some(Word::One(tool)) => vec![tool],
            Some(Word::Any(tools)) => tools,
            None => Vec::new(),
        },
    }
}
