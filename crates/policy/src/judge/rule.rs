//! Rules on arguments (`spec/rules.md#rules`).

mod matching;

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use super::Verdict;
use super::condition::Condition;
use super::sieve::Sieve;
use super::table::find;

/// A rule as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    /// Tool and subcommand.
    pub run: Run,
    /// Options and patterns of operands, one of which the call has.
    #[serde(default)]
    pub with: Vec<String>,
    /// Options and patterns of operands, all of which the call has.
    #[serde(default)]
    pub all: Vec<String>,
    /// Options and patterns of operands, none of which the call has.
    #[serde(default)]
    pub without: Vec<String>,
    /// True for calls with a path outside the workspace.
    #[serde(default)]
    pub outside: bool,
    /// Directories of the workspace; true for calls with a path outside all of them.
    #[serde(default)]
    pub outside_of: Vec<String>,
    /// Patterns of operands; true for calls with an operand that none of them matches.
    #[serde(default)]
    pub other_than: Vec<String>,
    /// Tools, to one of which the output goes.
    #[serde(default)]
    pub into: Vec<String>,
    /// Patterns of files, one of which the call writes.
    #[serde(default)]
    pub writes: Vec<String>,
    /// True for calls without other options and operands.
    #[serde(default)]
    pub exact: bool,
    /// The verdict; `None` in a rule that is only about the network.
    #[serde(default)]
    pub then: Option<Verdict>,
    /// The call network; `None` leaves it to other rules.
    #[serde(default)]
    pub net: Option<CallNetwork>,
    /// The reason for users and agents.
    #[serde(default)]
    pub because: String,
    /// Calls that the rule must match, and calls that it must not match.
    #[serde(default)]
    pub examples: Examples,
}

/// A call network, by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallNetwork {
    /// No network, not even loopback.
    None,
}

impl CallNetwork {
    /// Returns the word of files.
    pub fn as_str(self) -> &'static str {
        match self {
            CallNetwork::None => "none",
        }
    }
}

/// Example commands, quoted as for a shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Examples {
    /// Commands that the rule matches.
    pub yes: Vec<String>,
    /// Commands that it does not match.
    pub no: Vec<String>,
}

/// Tool and subcommand of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"tool subcommand\", or a list of words and lists of words"
)]
pub enum Run {
    /// Words separated by spaces.
    Text(String),
    /// Words, each with its alternatives.
    Words(Vec<RunWord>),
}

/// A word of [`Run`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a word, or a list of words")]
pub enum RunWord {
    /// One word.
    One(String),
    /// One of these words.
    Any(Vec<String>),
}

impl Default for Run {
    fn default() -> Self {
        Run::Text(String::new())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words().into_iter().map(|words| words.join("|"));
        f.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}

impl Examples {
    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.yes.len() + self.no.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Run {
    /// Returns the alternatives of each word.
    pub fn words(&self) -> Vec<Vec<String>> {
        match self {
            Run::Text(text) => text.split_whitespace().map(|word| vec![word.to_owned()]).collect(),
            Run::Words(words) => words
                .iter()
                .map(|word| match word {
                    RunWord::One(word) => vec![word.clone()],
                    RunWord::Any(words) => words.clone(),
                })
                .collect(),
        }
    }
}

/// An invalid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJudgeRule {
    /// `run` has no tool.
    #[error("the rule has no tool")]
    NoTool,
    /// Neither `then` nor `net`.
    #[error("the rule has neither 'then' nor 'net'")]
    NoEffect,
    /// `run` has an option or an empty word.
    #[error("'{0}' is no tool or subcommand")]
    NotWord(String),
    /// More combinations than the limit.
    #[error("the rule has more than {MAX_COMBINATIONS} combinations of words")]
    TooMany,
    /// A condition is empty.
    #[error("a condition of the rule is empty")]
    EmptyCondition,
    /// An example is no command.
    #[error("the example '{0}' is not a command")]
    NotCommand(String),
    /// An example of `yes` does not match.
    #[error("the rule does not match its example '{0}'")]
    NotMatched(String),
    /// An example of `no` matches.
    #[error("the rule matches its counterexample '{0}'")]
    Matched(String),
}

/// Combinations of alternatives in `run` that a rule may have.
const MAX_COMBINATIONS: usize = 256;

/// The origin of a rule, in the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleOrigin {
    /// The user's file.
    User,
    /// The default set.
    Default,
}

/// A rule for one combination of its words.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// Tool and subcommand. The tool `*` is any.
    pub(super) run: Vec<Vec<u8>>,
    with: Vec<Condition>,
    all: Vec<Condition>,
    without: Vec<Condition>,
    outside: bool,
    outside_of: Vec<Vec<u8>>,
    other_than: Vec<Vec<u8>>,
    into: Vec<Vec<u8>>,
    writes: Vec<Vec<u8>>,
    exact: bool,
    conditions: usize,
    pub(super) origin: RuleOrigin,
    pub(super) shared: Arc<Shared>,
}

/// The parts of a rule that all combinations share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) source: String,
    pub(super) then: Verdict,
    pub(super) because: String,
}

impl Rule {
    /// Compiles a rule with this verdict. Examples are not run.
    pub(super) fn compile(
        text: &RuleText,
        then: Verdict,
        source: &str,
        origin: RuleOrigin,
    ) -> Result<Vec<Rule>, InvalidJudgeRule> {
        let words = text.run.words();
        if words.is_empty() {
            return Err(InvalidJudgeRule::NoTool);
        }
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for alternatives in &words {
            let invalid = |word: &&String| {
                word.is_empty() || word.starts_with('-') || word.contains(char::is_whitespace)
            };
            if let Some(word) = alternatives.iter().find(invalid) {
                return Err(InvalidJudgeRule::NotWord(word.clone()));
            }
            if combinations.len() * alternatives.len().max(1) > MAX_COMBINATIONS {
                return Err(InvalidJudgeRule::TooMany);
            }
            let longer = |head: &Vec<String>| {
                let head = head.clone();
                alternatives.iter().map(move |word| [head.clone(), vec![word.clone()]].concat())
            };
            combinations = combinations.iter().flat_map(longer).collect();
        }
        if combinations.is_empty() {
            return Err(InvalidJudgeRule::NoTool);
        }
        let mut items = text
            .with
            .iter()
            .chain(&text.all)
            .chain(&text.without)
            .chain(&text.outside_of)
            .chain(&text.other_than)
            .chain(&text.into)
            .chain(&text.writes);
        if items.any(String::is_empty) {
            return Err(InvalidJudgeRule::EmptyCondition);
        }
        let shared =
            Arc::new(Shared { source: source.to_owned(), then, because: text.because.clone() });
        let conditions = [
            usize::from(!text.with.is_empty()),
            text.all.len(),
            usize::from(!text.without.is_empty()),
            usize::from(text.outside),
            usize::from(!text.outside_of.is_empty()),
            usize::from(!text.other_than.is_empty()),
            usize::from(!text.into.is_empty()),
            usize::from(!text.writes.is_empty()),
            // An exact rule is narrower than any other one.
            if text.exact { 1000 } else { 0 },
        ];
        let rule = |words: Vec<String>| {
            let mut run: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
            let (known, tool, dashed) = find(run.first().map(Vec::as_slice).unwrap_or_default());
            let (tool, dashed) = (tool.to_vec(), dashed.map(<[u8]>::to_vec));
            run.splice(..1, std::iter::once(tool).chain(dashed));
            let compile = |items: &[String]| -> Vec<Condition> {
                items.iter().map(|item| Condition::compile(item, known, &run)).collect()
            };
            let bytes = |items: &[String]| -> Vec<Vec<u8>> {
                items.iter().map(|item| item.clone().into_bytes()).collect()
            };
            Rule {
                with: compile(&text.with),
                all: compile(&text.all),
                without: compile(&text.without),
                outside: text.outside,
                outside_of: bytes(&text.outside_of),
                other_than: bytes(&text.other_than),
                into: bytes(&text.into),
                writes: bytes(&text.writes),
                exact: text.exact,
                conditions: conditions.iter().sum(),
                origin,
                shared: Arc::clone(&shared),
                run,
            }
        };
        Ok(combinations.into_iter().map(rule).collect())
    }

    /// Returns whether the rule is on the tools that read the output.
    pub(super) fn reads_output(&self) -> bool {
        !self.into.is_empty()
    }

    /// Returns a set that every call that matches has an element of.
    pub(super) fn sieve(&self) -> Sieve {
        match (self.with.is_empty(), self.all.first()) {
            (false, _) => self.with.iter().map(Condition::sieve).fold(Sieve::NONE, Sieve::and),
            (true, Some(first)) => first.sieve(),
            (true, None) => Sieve::ANY,
        }
    }

    /// Returns the order of rules: the first that matches decides.
    pub(super) fn rank(&self) -> impl Ord + '_ {
        let is_any = self.run.first().is_some_and(|tool| tool == b"*");
        let length = self.run.len() - usize::from(is_any);
        (
            std::cmp::Reverse((length, self.conditions)),
            self.origin,
            std::cmp::Reverse(self.shared.then),
            (&self.shared.because, &self.shared.source, &self.run),
        )
    }
}
