//! The judge: a verdict on a call by its arguments (`spec/rules.md`).

mod condition;
mod doubts;
mod environment;
mod file;
mod files;
mod flow;
mod glob;
mod import;
mod links;
mod marks;
mod normal;
mod place;
mod printed;
mod rule;
mod script;
mod set;
mod settings;
mod sieve;
mod table;
mod unwrap;
mod words;

use serde::Deserialize;

use self::links::Links;
use self::place::Place;
use self::rule::Rule;
use self::set::RuleSet;
use self::table::{JudgedTools, runs_nothing};
use self::unwrap::Parts;

pub use self::doubts::{RuleDoubt, rule_doubts};
pub use self::environment::with_git_variables;
pub use self::file::{default_rules, example_call};
pub use self::import::{ImportNote, ImportedRules, InvalidImport, import_claude, import_codex};
pub use self::rule::{Examples, InvalidJudgeRule, RuleOrigin, RuleText, Run, RunWord};

/// A call as a frontend received it, before any sidecar is chosen.
#[derive(Clone, Copy, Debug)]
pub struct JudgedCall<'a> {
    /// The tool and its arguments, as the tool would receive them.
    pub argv: &'a [Vec<u8>],
    /// The absolute working directory.
    pub directory: &'a [u8],
    /// The workspace's names, absolute.
    pub workspace: &'a [Vec<u8>],
}

/// The verdict, in ascending strictness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The call runs.
    #[default]
    Allow,
    /// A user must allow the call.
    Ask,
    /// The call does not run.
    Deny,
}

impl Verdict {
    /// Returns the word of files.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        }
    }
}

/// A verdict with its cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that decided, with its source; empty if none matched.
    pub rule: String,
    /// The rule's reason for users and agents; may be empty.
    pub reason: String,
}

/// The rules of a session.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// The user's rules and the default set.
    own: RuleSet,
    /// The workspace's rules, which can only make a verdict stricter.
    workspace: RuleSet,
    /// `None` takes paths as they are written.
    links: Option<Links>,
}

/// A judgement with the calls that were judged, for `policy check`.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The judgement.
    pub judgement: Judgement,
    /// The calls in normal form.
    pub calls: Vec<String>,
    /// True if a part of the call cannot be taken apart.
    pub is_unclear: bool,
}

impl Judge {
    /// Adds rules with their sources, and runs their examples. Errors: the first invalid rule, by index.
    pub fn add(
        &mut self,
        rules: &[(RuleText, String)],
        origin: RuleOrigin,
    ) -> Result<(), (usize, InvalidJudgeRule)> {
        self.own.extend(compile_all(rules, origin)?);
        Ok(())
    }

    /// Adds a workspace's rules, as [`Judge::add`] does.
    pub fn restrict(
        &mut self,
        rules: &[(RuleText, String)],
    ) -> Result<(), (usize, InvalidJudgeRule)> {
        self.workspace.extend(compile_all(rules, RuleOrigin::User)?);
        Ok(())
    }

    /// Adds the default rules.
    pub fn add_defaults(&mut self) {
        let compiled = |(text, source): &(RuleText, String)| {
            // They are part of the program, and a test compiles them.
            Rule::compile(text, source, RuleOrigin::Default)
                .unwrap_or_else(|error| panic!("{source}: {error}"))
        };
        self.own.extend(default_rules().iter().flat_map(compiled).collect());
    }

    /// Follows links in paths below the workspace. `read_link` gets a path relative to the workspace, without links
    /// before its last component, and returns the target if it is a link.
    ///
    /// It is called only for rules on paths. A link that changes after the judgement is not noticed.
    #[must_use]
    pub fn with_links(
        mut self,
        read_link: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        self.links = Some(Links::new(read_link));
        self
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.workspace.is_empty()
    }

    /// Returns whether a rule can make a verdict on calls of this tool stricter. A rule on the reader of
    /// the tool's output cannot: a call alone does not show it.
    pub fn concerns(&self, tool: &str) -> bool {
        self.own.concerns(tool.as_bytes()) || self.workspace.concerns(tool.as_bytes())
    }

    /// Returns the verdict on a call. No rule means [`Verdict::Allow`].
    pub fn judge(&self, call: &JudgedCall<'_>) -> Judgement {
        if self.is_empty() {
            return Judgement::default();
        }
        let is_named = |tool: &[u8]| self.names(tool);
        let judged = JudgedTools::new(&is_named);
        if runs_nothing(call.argv, judged) {
            return Judgement::default();
        }
        let place = self.place(call.directory, call.workspace);
        self.judge_parts(&Parts::of_call(call.argv, place, judged))
    }

    /// Returns the verdict on shell text, such as that of a permission request.
    pub fn judge_text(&self, text: &str, directory: &[u8], workspace: &[Vec<u8>]) -> Judgement {
        if self.is_empty() {
            return Judgement::default();
        }
        let place = self.place(directory, workspace);
        let is_named = |tool: &[u8]| self.names(tool);
        self.judge_parts(&Parts::of_text(text.as_bytes(), place, JudgedTools::new(&is_named)))
    }

    /// Returns the verdict on a call, and the calls in it.
    pub fn explain(&self, call: &JudgedCall<'_>) -> Explained {
        let place = self.place(call.directory, call.workspace);
        let is_named = |tool: &[u8]| self.names(tool);
        let parts = Parts::of_call(call.argv, place, JudgedTools::new(&is_named));
        Explained {
            judgement: self.judge_parts(&parts),
            calls: parts.list.iter().map(|part| part.call.to_string()).collect(),
            is_unclear: !parts.unclear.is_empty(),
        }
    }

    fn place<'a>(&'a self, directory: &[u8], workspace: &'a [Vec<u8>]) -> Place<'a> {
        Place { links: self.links.as_ref(), ..Place::new(directory, workspace) }
    }

    /// Returns whether a rule may be about calls of a tool.
    fn names(&self, tool: &[u8]) -> bool {
        self.own.names(tool) || self.workspace.names(tool)
    }

    fn judge_parts(&self, parts: &Parts<'_>) -> Judgement {
        let own = self.own.judge(parts);
        if self.workspace.is_empty() {
            return own;
        }
        let of_workspace = self.workspace.judge(parts);
        if of_workspace.verdict > own.verdict { of_workspace } else { own }
    }
}

fn compile_all(
    rules: &[(RuleText, String)],
    origin: RuleOrigin,
) -> Result<Vec<Rule>, (usize, InvalidJudgeRule)> {
    let mut compiled = Vec::new();
    for (at, (text, source)) in rules.iter().enumerate() {
        compiled.extend(compile(text, source, origin).map_err(|error| (at, error))?);
    }
    Ok(compiled)
}

/// Compiles a rule and runs its examples.
fn compile(
    text: &RuleText,
    source: &str,
    origin: RuleOrigin,
) -> Result<Vec<Rule>, InvalidJudgeRule> {
    let rules = Rule::compile(text, source, origin)?;
    let alone = RuleSet::of(rules.clone());
    let matches = |example: &String| {
        let argv =
            example_call(example).ok_or_else(|| InvalidJudgeRule::NotCommand(example.clone()))?;
        let workspace = [b"/workspace".to_vec()];
        let parts =
            Parts::of_call(&argv, Place::new(b"/workspace", &workspace), JudgedTools::default());
        Ok(alone.matches(&parts))
    };
    for example in &text.examples.yes {
        if !matches(example)? {
            return Err(InvalidJudgeRule::NotMatched(example.clone()));
        }
    }
    for example in &text.examples.no {
        if matches(example)? {
            return Err(InvalidJudgeRule::Matched(example.clone()));
        }
    }
    Ok(rules)
}
