//! Rules of other programs, as rules of aifo.

mod claude;
mod codex;
mod starlark;

use super::normal::NormalCall;
use super::place::Place;
use super::rule::Rule;
use super::set::RuleSet;
use super::table::JudgedTools;
use super::unwrap::Parts;
use super::{Examples, RuleOrigin, RuleText, Run, RunWord, Verdict, example_call};

pub use self::claude::import_claude;
pub use self::codex::import_codex;

/// The imported rules of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedRules {
    /// `[[rule]]` tables.
    pub toml: String,
    /// What the rules do not express.
    pub notes: Vec<ImportNote>,
}

/// A part of a file that cannot be expressed, or not exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// The line, from 1.
    pub line: usize,
    /// The difference.
    pub what: String,
}

/// A file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {what}")]
pub struct InvalidImport {
    /// The line, from 1.
    pub line: usize,
    /// The cause.
    pub what: String,
}

/// An imported rule, and where it comes from.
#[derive(Clone, Debug)]
struct Draft {
    line: usize,
    /// The rule in its own notation.
    shown: String,
    rule: RuleText,
}

impl ImportedRules {
    /// Renders drafts, without those that a stricter one overrules in the other program.
    fn of(drafts: Vec<Draft>, mut notes: Vec<ImportNote>) -> Self {
        let mut toml = String::new();
        for draft in &drafts {
            let stricter = drafts.iter().find(|other| {
                other.rule.then > draft.rule.then && covers(&other.rule, &draft.rule)
            });
            if let Some(other) = stricter {
                let what = format!(
                    "{} is left out: the stricter {} of line {} overrules it",
                    draft.shown, other.shown, other.line
                );
                notes.push(ImportNote { line: draft.line, what });
                continue;
            }
            let mut draft = draft.clone();
            let stricter = drafts.iter().filter(|it| it.rule.then > draft.rule.then);
            for both in stricter.filter_map(|other| other.rule.and(&draft.rule)) {
                if !toml.contains(&both) {
                    toml += &both;
                }
            }
            notes.extend(draft.keep_examples());
            toml += &draft.rule.to_toml();
        }
        notes.sort_by_key(|note| note.line);
        ImportedRules { toml, notes }
    }
}

impl Draft {
    /// Removes the examples that do not hold here, and returns a note for each.
    fn keep_examples(&mut self) -> Vec<ImportNote> {
        let mut notes = Vec::new();
        let bare = RuleText { examples: Examples::default(), ..self.rule.clone() };
        let then = bare.then.unwrap_or_default();
        let Ok(rules) = Rule::compile(&bare, then, "", RuleOrigin::User) else { return notes };
        let set = RuleSet::of(rules);
        let workspace = [b"/workspace".to_vec()];
        let matches = |example: &String| {
            let argv = example_call(example).unwrap_or_default();
            set.matches(&Parts::of_call(
                &argv,
                Place::new(b"/workspace", &workspace),
                JudgedTools::default(),
            ))
        };
        let mut note = |example: &String, verb: &str| {
            let what = format!("{}: the rule {verb} '{example}' here", self.shown);
            notes.push(ImportNote { line: self.line, what });
        };
        let examples = &mut self.rule.examples;
        examples.yes.retain(|example| {
            let holds = matches(example);
            if !holds {
                note(example, "does not match");
            }
            holds
        });
        examples.no.retain(|example| {
            let holds = !matches(example);
            if !holds {
                note(example, "also matches");
            }
            holds
        });
        notes
    }
}

/// Returns whether every call of `narrow` is one of `wide`.
fn covers(wide: &RuleText, narrow: &RuleText) -> bool {
    let (wide_run, narrow_run) = (wide.run.words(), narrow.run.words());
    let is_any = wide_run.first().is_some_and(|words| words == &["*"]);
    let mut pairs = wide_run.iter().zip(&narrow_run);
    let is_prefix = wide_run.len() <= narrow_run.len()
        && pairs.all(|(wide, narrow)| narrow.iter().all(|word| wide.contains(word)));
    let has_all = wide.all.iter().all(|item| narrow.all.contains(item));
    (is_prefix || is_any && wide_run.len() == 1) && has_all && !wide.exact
}

/// Turns the words of a command's beginning into a rule's `run` and `all`.
fn rule_of_words(words: &[String], then: Verdict) -> Option<RuleText> {
    let argv: Vec<Vec<u8>> = words.iter().map(|word| word.clone().into_bytes()).collect();
    let call = NormalCall::parse(&argv)?;
    let is_tool = |word: &&String| !word.is_empty() && !word.contains(char::is_whitespace);
    words.first().filter(is_tool)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut run = vec![RunWord::One(text(&call.tool))];
    let mut all = Vec::new();
    for option in &call.options {
        all.push(match &option.value {
            Some(value) => format!("{}={}", text(&option.name), text(value)),
            None => text(&option.name),
        });
    }
    let mut all_words = true;
    for operand in &call.operands {
        let word = text(&operand.word);
        let is_word = !word.is_empty()
            && !word.starts_with('-')
            && !word.contains(char::is_whitespace)
            && !operand.may_be_value
            && all_words;
        // A word after one that is none may be anywhere.
        all_words = is_word;
        match is_word {
            true => run.push(RunWord::One(word)),
            false => all.push(word),
        }
    }
    Some(RuleText { run: Run::Words(run), all, then: Some(then), ..RuleText::default() })
}

impl RuleText {
    /// Returns the rule for the calls that this one and a looser, narrower one match: here the narrower one would
    /// decide, and in other programs the stricter one does.
    fn and(&self, looser: &RuleText) -> Option<String> {
        let (own, narrow) = (self.run.words(), looser.run.words());
        let is_any = own.first().is_some_and(|words| words == &["*"]);
        let own_length = if is_any { 0 } else { own.len() };
        let shared: Vec<Vec<String>> = narrow
            .iter()
            .enumerate()
            .map(|(at, words)| match own.get(at).filter(|_| !is_any) {
                Some(other) => words.iter().filter(|it| other.contains(it)).cloned().collect(),
                None => words.clone(),
            })
            .collect();
        let decides = narrow.len() > own_length
            || (narrow.len() == own_length && looser.all.len() > self.all.len());
        let may_be_both = own_length <= narrow.len() && !shared.iter().any(Vec::is_empty);
        if !decides || !may_be_both || looser.exact || self.exact {
            return None;
        }
        let mut all = looser.all.clone();
        all.extend(self.all.iter().filter(|it| !looser.all.contains(it)).cloned());
        let run = shared.into_iter().map(|mut words| match words.len() {
            1 => RunWord::One(words.remove(0)),
            _ => RunWord::Any(words),
        });
        let run = Run::Words(run.collect());
        let because = self.because.clone();
        let both = RuleText { run, all, then: self.then, because, ..RuleText::default() };
        Some(both.to_toml())
    }

    /// Renders the rule as a `[[rule]]` table.
    pub fn to_toml(&self) -> String {
        let mut toml = "[[rule]]\n".to_owned();
        let words = self.run.words();
        let is_plain = words.iter().all(|word| word.len() == 1);
        let run = match is_plain {
            true => quoted(&words.concat().join(" ")),
            false => {
                let words = words.iter().map(|word| match word.as_slice() {
                    [one] => quoted(one),
                    words => list(words),
                });
                format!("[{}]", words.collect::<Vec<_>>().join(", "))
            }
        };
        toml += &format!("run = {run}\n");
        let lists = [
            ("with", &self.with),
            ("all", &self.all),
            ("without", &self.without),
            ("outside_of", &self.outside_of),
            ("other_than", &self.other_than),
            ("into", &self.into),
        ];
        for (key, items) in lists {
            if !items.is_empty() {
                toml += &format!("{key} = {}\n", list(items));
            }
        }
        for (key, is_set) in [("outside", self.outside), ("exact", self.exact)] {
            if is_set {
                toml += &format!("{key} = true\n");
            }
        }
        if let Some(then) = self.then {
            toml += &format!("then = {}\n", quoted(then.as_str()));
        }
        if let Some(net) = self.net {
            toml += &format!("net = {}\n", quoted(net.as_str()));
        }
        if !self.because.is_empty() {
            toml += &format!("because = {}\n", quoted(&self.because));
        }
        let examples = [("yes", &self.examples.yes), ("no", &self.examples.no)];
        let examples: Vec<_> = examples
            .iter()
            .filter(|(_, items)| !items.is_empty())
            .map(|(key, items)| format!("{key} = {}", list(items)))
            .collect();
        if !examples.is_empty() {
            toml += &format!("examples = {{ {} }}\n", examples.join(", "));
        }
        toml + "\n"
    }
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "))
}

/// Returns a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            char if char.is_control() => quoted += &format!("\\u{:04X}", u32::from(char)),
            char => quoted.push(char),
        }
    }
    quoted + "\""
}

/// Quotes words for a shell.
fn command(words: &[String]) -> String {
    let quote = |word: &String| {
        let is_plain = |char: char| char.is_alphanumeric() || "-_./:=@%+,".contains(char);
        match !word.is_empty() && word.chars().all(is_plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}
