//! The judge: a verdict on a call by its arguments (`spec/rules.md`).

mod condition;
mod doubts;
mod environment;
mod file;
mod files;
mod flow;
mod glob;
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

use crate::asked_call::AskedCall;

pub use self::doubts::{RuleDoubt, rule_doubts};
pub use self::environment::{is_judged_variable, with_variables};
pub use self::file::{default_rules, example_call};
pub use self::rule::{CallNetwork, Examples, InvalidJudgeRule, RuleOrigin, RuleText, Run, RunWord};

/// A call as a frontend received it, before any sidecar is chosen.
#[derive(Clone, Copy, Debug)]
pub struct JudgedCall<'a> {
    /// The tool and its arguments, as the tool would receive them.
    pub argv: &'a [Vec<u8>],
    /// The absolute working directory.
    pub directory: &'a [u8],
    /// The workspace names, absolute.
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
    /// The rule by which the call runs without network, if there is one. It does not depend on the
    /// verdict.
    pub no_network: Option<String>,
}

/// The rules of a session.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// The user's rules and the default set.
    own: RuleSet,
    /// The workspace rules, which can only make a verdict stricter.
    workspace: RuleSet,
    /// The rules with `net = "none"` of all sources. Each has the verdict [`Verdict::Deny`]: a call that
    /// one of them may match has no network.
    no_network: RuleSet,
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
        let compiled = compile_all(rules, origin)?;
        self.own.extend(compiled.rules);
        self.no_network.extend(compiled.no_network);
        Ok(())
    }

    /// Adds a workspace's rules, as [`Judge::add`] does.
    pub fn restrict(
        &mut self,
        rules: &[(RuleText, String)],
    ) -> Result<(), (usize, InvalidJudgeRule)> {
        let compiled = compile_all(rules, RuleOrigin::User)?;
        self.workspace.extend(compiled.rules);
        self.no_network.extend(compiled.no_network);
        Ok(())
    }

    /// Adds the default rules.
    pub fn add_defaults(&mut self) {
        self.own.add_defaults();
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
        self.sets().all(RuleSet::is_empty)
    }

    /// Returns whether a rule can make a verdict on calls of this tool stricter, or take their network. A
    /// rule on the reader of the tool output cannot: a call alone does not show it.
    pub fn concerns(&self, tool: &str) -> bool {
        self.sets().any(|set| set.concerns(tool.as_bytes()))
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

    /// Returns the other calls that a call runs for certain, as if they were called alone, and that a user
    /// must allow then. A user who allows the call allows them.
    pub fn covered(&self, call: &JudgedCall<'_>) -> Vec<AskedCall> {
        let place = self.place(call.directory, call.workspace);
        let is_named = |tool: &[u8]| self.names(tool);
        let mut covered: Vec<AskedCall> = Vec::new();
        for inner in Parts::certain(call.argv, place, JudgedTools::new(&is_named)) {
            let AskedCall { argv, directory, .. } = &inner;
            let is_same = argv == call.argv && directory == call.directory;
            if is_same
                || self.judge(&JudgedCall { argv, directory, ..*call }).verdict != Verdict::Ask
            {
                continue;
            }
            if covered.len() < MAX_COVERED && !covered.contains(&inner) {
                covered.push(inner);
            }
        }
        covered
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
        self.sets().any(|set| set.names(tool))
    }

    fn sets(&self) -> impl Iterator<Item = &RuleSet> {
        [&self.own, &self.workspace, &self.no_network].into_iter()
    }

    fn judge_parts(&self, parts: &Parts<'_>) -> Judgement {
        let mut judgement = self.own.judge(parts);
        if !self.workspace.is_empty() {
            let of_workspace = self.workspace.judge(parts);
            if of_workspace.verdict > judgement.verdict {
                judgement = of_workspace;
            }
        }
        if !self.no_network.is_empty() {
            let judged = self.no_network.judge(parts);
            judgement.no_network = (judged.verdict > Verdict::Allow).then_some(judged.rule);
        }
        judgement
    }
}

/// Returns the absolute paths of the scripts that a call names, whatever the rules: programs by path, and the
/// first operands of interpreters. A path that leads to no file may be among them.
pub fn scripts(call: &JudgedCall<'_>) -> Vec<Vec<u8>> {
    Parts::scripts(call.argv, Place::new(call.directory, call.workspace))
}

/// Maximum number of calls that one answer covers.
const MAX_COVERED: usize = 16;

/// Rules by their effects.
#[derive(Default)]
struct CompiledRules {
    rules: Vec<Rule>,
    no_network: Vec<Rule>,
}

fn compile_all(
    rules: &[(RuleText, String)],
    origin: RuleOrigin,
) -> Result<CompiledRules, (usize, InvalidJudgeRule)> {
    let mut compiled = CompiledRules::default();
    for (at, (text, source)) in rules.iter().enumerate() {
        let add = |verdict, rules: &mut Vec<Rule>| {
            let more = compile(text, verdict, source, origin).map_err(|error| (at, error))?;
            rules.extend(more);
            Ok(())
        };
        if let Some(verdict) = text.then {
            add(verdict, &mut compiled.rules)?;
        }
        match text.net {
            Some(CallNetwork::None) => add(Verdict::Deny, &mut compiled.no_network)?,
            None if text.then.is_none() => return Err((at, InvalidJudgeRule::NoEffect)),
            None => {}
        }
    }
    Ok(compiled)
}

/// Compiles a rule and runs its examples.
fn compile(
    text: &RuleText,
    verdict: Verdict,
    source: &str,
    origin: RuleOrigin,
) -> Result<Vec<Rule>, InvalidJudgeRule> {
    let rules = Rule::compile(text, verdict, source, origin)?;
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
