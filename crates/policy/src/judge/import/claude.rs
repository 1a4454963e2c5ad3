//! `permissions` of Claude Code: JSON in `settings.json`.

use serde::Deserialize;

use super::{Draft, ImportNote, ImportedRules, InvalidImport, Verdict, rule_of_words};
use crate::judge::script::is_assignment;
use crate::judge::{RuleText, Run};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Settings {
    permissions: Permissions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Permissions {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
    #[serde(rename = "defaultMode")]
    default_mode: Option<String>,
    #[serde(rename = "additionalDirectories")]
    additional_directories: Vec<String>,
}

/// Imports the rules of a settings file.
pub fn import_claude(text: &str) -> Result<ImportedRules, InvalidImport> {
    let settings: Settings = serde_json::from_str(text)
        .map_err(|error| InvalidImport { line: error.line().max(1), what: error.to_string() })?;
    let permissions = settings.permissions;
    let (mut drafts, mut notes) = (Vec::new(), Vec::new());
    let lists = [
        (&permissions.deny, Verdict::Deny),
        (&permissions.ask, Verdict::Ask),
        (&permissions.allow, Verdict::Allow),
    ];
    for (rules, then) in lists {
        for rule in rules {
            let line = line_of(text, rule);
            let shown = format!("'{rule}'");
            match rule_of(rule, then) {
                Ok(rule) => drafts.push(Draft { line, shown, rule }),
                Err(why) => {
                    let what = format!("{shown} cannot be expressed: {why}");
                    notes.push(ImportNote { line, what });
                }
            }
        }
    }
    let mut other = |key: &str, is_set: bool, why: &str| {
        if is_set {
            let what = format!("'{key}' cannot be expressed: {why}");
            notes.push(ImportNote { line: line_of(text, key), what });
        }
    };
    other("defaultMode", permissions.default_mode.is_some(), "see permissions.default");
    other(
        "additionalDirectories",
        !permissions.additional_directories.is_empty(),
        "see --workspace",
    );
    Ok(ImportedRules::of(drafts, notes))
}

/// Returns the first line that contains a string.
fn line_of(text: &str, string: &str) -> usize {
    let quoted = serde_json::to_string(string).unwrap_or_default();
    let at = text.find(&quoted).unwrap_or_default();
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

fn rule_of(text: &str, then: Verdict) -> Result<RuleText, String> {
    let (tool, pattern) = match text.split_once('(') {
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some(pattern) => (tool, pattern),
            None => return Err("it has no closing parenthesis".to_owned()),
        },
        None => (text, "*"),
    };
    if tool != "Bash" {
        return Err(match tool {
            "Read" | "Edit" | "Write" | "Glob" | "Grep" | "NotebookEdit" | "MultiEdit" => {
                "it is about files; see [permissions]".to_owned()
            }
            "WebFetch" | "WebSearch" => {
                "it is about the network; see net.allow and net.deny".to_owned()
            }
            _ => "it is not about commands".to_owned(),
        });
    }
    if matches!(pattern.trim(), "*" | ":*" | "") {
        let run = Run::Text("*".to_owned());
        return Ok(RuleText { run, then: Some(then), ..RuleText::default() });
    }
    let (head, is_prefix, is_open) = match pattern {
        pattern if pattern.ends_with(":*") => (pattern.trim_end_matches(":*"), true, false),
        pattern if pattern.ends_with(" *") => (pattern.trim_end_matches(" *"), true, false),
        pattern if pattern.ends_with('*') => (pattern, true, true),
        pattern => (pattern, false, false),
    };
    if head.contains(['&', '|', ';', '$', '`', '<', '>', '(', ')', '\n', '\'', '"', '\\']) {
        return Err("it is shell text; each of its commands needs a rule of its own".to_owned());
    }
    let mut words: Vec<String> = head.split_whitespace().map(str::to_owned).collect();
    let assignments = words.iter().take_while(|word| is_assignment(word.as_bytes())).count();
    if assignments > 0 && then == Verdict::Allow {
        return Err("a rule does not know the environment of a call".to_owned());
    }
    words.drain(..assignments);
    let stars: Vec<usize> = (0..words.len())
        .filter(|at| words.get(*at).is_some_and(|word| word.contains('*')))
        .collect();
    let only_last = is_open && stars == [words.len() - 1];
    if only_last && words.len() == 1 {
        return Err("a rule names a whole tool".to_owned());
    }
    if !stars.is_empty() && !only_last {
        return in_the_middle(&words, then);
    }
    let last_is_option = words.last().is_some_and(|word| word.starts_with('-'));
    if only_last && last_is_option {
        if then == Verdict::Allow {
            return Err("the beginning of an option is no option".to_owned());
        }
        return begins_with(&words, then).ok_or("it has no tool".to_owned());
    }
    let mut rule = rule_of_words(&words, then).ok_or("it has no tool")?;
    rule.exact = !is_prefix;
    Ok(rule)
}

/// A command whose last option is followed by any text, `rm -rf*`. Other options may be before it.
fn begins_with(words: &[String], then: Verdict) -> Option<RuleText> {
    let (last, head) = words.split_last()?;
    let name = last.trim_end_matches('*');
    let is_long = name.starts_with("--");
    let known = if is_long { head } else { words };
    let known: Vec<String> = known.iter().map(|it| it.trim_end_matches('*').to_owned()).collect();
    let mut rule = rule_of_words(&known, then)?;
    rule.all.extend(is_long.then(|| last.clone()));
    Some(rule)
}

/// A `*` between words is any text, so the words around it may be anywhere. That is wider, and an
/// allowing rule must not be.
fn in_the_middle(words: &[String], then: Verdict) -> Result<RuleText, String> {
    let is_wider = then == Verdict::Allow;
    if is_wider {
        return Err("text between its parts would be allowed that no rule has seen".to_owned());
    }
    let known: Vec<String> = words.iter().filter(|word| *word != "*").cloned().collect();
    if known.iter().any(|word| word.contains('*')) {
        return Err("a part of a word is any text".to_owned());
    }
    let is_any_tool = words.first().is_some_and(|word| word == "*");
    let (tool, rest) = match is_any_tool {
        true => ("*", known.as_slice()),
        false => (
            known.first().map(String::as_str).unwrap_or_default(),
            known.get(1..).unwrap_or_default(),
        ),
    };
    let at = words.iter().position(|word| word == "*").unwrap_or(words.len());
    let is_run =
        |at_word: usize, word: &String| !is_any_tool && at_word + 1 < at && !word.starts_with('-');
    let run_length = rest.iter().enumerate().take_while(|(i, word)| is_run(*i, word)).count();
    let (run, all) = rest.split_at(run_length);
    let run = std::iter::once(tool.to_owned()).chain(run.iter().cloned());
    let run = Run::Text(run.collect::<Vec<_>>().join(" "));
    Ok(RuleText { run, all: all.to_vec(), then: Some(then), ..RuleText::default() })
}
