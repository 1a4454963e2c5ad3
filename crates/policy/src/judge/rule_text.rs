//! Rules as they are written.

use std::fmt;

use serde::Deserialize;

use super::Verdict;

/// A rule as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    /// Tool and subcommand; empty in a rule on requests of any command, or of none.
    #[serde(default)]
    pub run: Run,
    /// The kinds of an agent's requests, one of which a request has; `*` is any. A rule with a kind or a path is
    /// about requests only.
    #[serde(default)]
    pub kind: Option<RunWord>,
    /// Files, and directories with all below them: absolute, or relative to the workspace.
    #[serde(default)]
    pub path: Option<RunWord>,
    /// Patterns of full names of refs. A rule with them is about pushes to a forge only.
    #[serde(default)]
    pub push: Option<RunWord>,
    /// True for pushes that create the ref.
    #[serde(default)]
    pub create: bool,
    /// True for those that move it forward.
    #[serde(default)]
    pub update: bool,
    /// True for those that remove it.
    #[serde(default)]
    pub delete: bool,
    /// True for those that move it otherwise.
    #[serde(default)]
    pub force: bool,
    /// Patterns of repositories, `OWNER/NAME`, to which the push goes.
    #[serde(default)]
    pub repository: Option<RunWord>,
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
    /// True for calls without other options and operands. In a rule on requests `run` may have options then.
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

impl RunWord {
    /// Returns the alternatives.
    pub fn words(&self) -> &[String] {
        match self {
            RunWord::One(word) => std::slice::from_ref(word),
            RunWord::Any(words) => words,
        }
    }
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

impl RuleText {
    /// Returns whether the rule is about requests, not about calls.
    pub fn is_on_requests(&self) -> bool {
        self.kind.is_some() || self.path.is_some()
    }

    /// Returns whether the rule is about pushes, or has a condition of them.
    pub fn is_on_pushes(&self) -> bool {
        let has_change = self.create || self.update || self.delete || self.force;
        self.push.is_some() || self.repository.is_some() || has_change
    }

    /// Returns the lists of conditions on words.
    pub(super) fn lists(&self) -> [&Vec<String>; 7] {
        let [with, all, without] = [&self.with, &self.all, &self.without];
        [with, all, without, &self.outside_of, &self.other_than, &self.into, &self.writes]
    }

    /// Returns whether a command has conditions besides `run` and `exact`.
    pub(super) fn has_conditions(&self) -> bool {
        self.outside || self.lists().iter().any(|list| !list.is_empty())
    }

    /// Returns whether the rule is on requests with exactly one command.
    pub(super) fn is_line(&self) -> bool {
        self.is_on_requests() && self.exact && !self.has_conditions()
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
    /// Returns the words with one alternative of each. Errors: there is no tool, an empty word, or there are too
    /// many.
    pub(super) fn combinations(&self) -> Result<Vec<Vec<String>>, InvalidJudgeRule> {
        let words = self.words();
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for alternatives in &words {
            if alternatives.iter().any(String::is_empty) {
                return Err(InvalidJudgeRule::NotWord(String::new()));
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
        match words.is_empty() || combinations.is_empty() {
            true => Err(InvalidJudgeRule::NoTool),
            false => Ok(combinations),
        }
    }

    /// Returns the alternatives of each word.
    pub fn words(&self) -> Vec<Vec<String>> {
        match self {
            Run::Text(text) => text.split_whitespace().map(|word| vec![word.to_owned()]).collect(),
            Run::Words(words) => words.iter().map(|word| word.words().to_vec()).collect(),
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
    /// A rule allows requests by a path, without a kind.
    #[error("a rule that allows by a path names its kinds")]
    NoKind,
    /// A rule allows requests by a path, with a kind that is not about files.
    #[error("a path alone cannot allow requests of kind '{0}'")]
    NotFileKind(String),
    /// A path that begins with `~`, or has a NUL.
    #[error("invalid path '{0}': expected one that is absolute or relative to the workspace")]
    InvalidPath(String),
    /// A rule on requests with `net`.
    #[error("'net' is for calls, and a rule with a kind or a path is about requests")]
    NetOfRequest,
    /// A rule on pushes is invalid.
    #[error("a rule on pushes is invalid: {0}")]
    Push(&'static str),
    /// A rule on requests without `run` has a condition of commands.
    #[error("the rule has conditions of a command, but no 'run'")]
    NoRun,
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
