//! The judge: a verdict on a call by its arguments (`spec/rules.md`).

mod assignment;
mod compile;
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
mod pushes;
mod requested;
mod requests;
mod rule;
mod rule_text;
mod script;
mod set;
mod settings;
mod sieve;
mod table;
mod unwrap;
mod wanted;
mod words;

use std::fmt;
use std::os::unix::ffi::OsStrExt;

use serde::Deserialize;

use self::compile::compile_all;
use self::links::Links;
use self::place::Place;
use self::pushes::PushRule;
use self::requests::Requested;
use self::rule::Rule;
use self::set::RuleSet;
use self::table::{JudgedTools, runs_nothing};
use self::unwrap::Parts;

use crate::asked_call::AskedCall;

pub use self::doubts::{RuleDoubt, rule_doubts};
pub use self::environment::{is_judged_variable, with_variables};
pub use self::file::{default_rules, example_call};
pub use self::pushes::{JudgedUpdate, PushChange};
pub use self::requested::{
    AccessRequest, FILE_KINDS, RequestedCommand, covers_commands, request_words,
};
pub use self::rule::RuleOrigin;
pub use self::rule_text::{CallNetwork, Examples, InvalidJudgeRule, RuleText, Run, RunWord};

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
    /// The user's rules on requests, and the workspace's.
    requests: Vec<Rule>,
    workspace_requests: Vec<Rule>,
    /// The user's rules on pushes, and the workspace's.
    pushes: Vec<PushRule>,
    workspace_pushes: Vec<PushRule>,
    /// `None` takes paths as they are written.
    links: Option<Links>,
}

impl Judgement {
    /// Returns the stricter one; of two with one verdict, that which has a rule.
    #[must_use]
    pub fn or_stricter(self, other: Self) -> Self {
        let is_named = other.verdict == self.verdict && self.rule.is_empty();
        if other.verdict > self.verdict || is_named { other } else { self }
    }
}

/// Formats the judgement with its cause: `deny: /home/me/.config/aifo/config.toml:3`.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judgement { verdict, rule, reason, .. } = self;
        let rule = if rule.is_empty() { "no rule" } else { rule };
        write!(f, "{}: {rule}", verdict.as_str())?;
        if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
    }
}

/// A judgement with the calls that were judged, for explanations.
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
        self.pushes.extend(compiled.pushes);
        self.requests.extend(compiled.requests);
        self.requests.sort_by(|a, b| a.rank().cmp(&b.rank()));
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
        self.workspace_pushes.extend(compiled.pushes);
        self.workspace_requests.extend(compiled.requests);
        self.workspace_requests.sort_by(|a, b| a.rank().cmp(&b.rank()));
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
        self.sets().all(RuleSet::is_empty) && !self.has_push_rules()
    }

    fn has_push_rules(&self) -> bool {
        !self.pushes.is_empty() || !self.workspace_pushes.is_empty()
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

    /// Returns the verdict on the update of a ref by a push. No rule means [`Verdict::Ask`].
    pub fn judge_push(&self, update: &JudgedUpdate<'_>) -> Judgement {
        let asked = Judgement { verdict: Verdict::Ask, ..Judgement::default() };
        let own = PushRule::judge(&self.pushes, update).unwrap_or(asked);
        let of_workspace = PushRule::judge(&self.workspace_pushes, update).unwrap_or_default();
        if of_workspace.verdict > own.verdict { of_workspace } else { own }
    }

    /// Returns the verdict on a request of an agent, by the rules with a kind or a path. No rule means
    /// [`Verdict::Ask`]. Rules on calls are judged apart, by [`Judge::judge`].
    ///
    /// ```
    /// use std::path::{Path, PathBuf};
    /// use aifo_policy::{AccessRequest, Judge, RuleOrigin, RuleText, Verdict};
    ///
    /// let texts = ["kind = 'edit'\nthen = 'allow'", "path = '.git'\nthen = 'deny'"];
    /// let rules = texts.map(|text| (toml::from_str::<RuleText>(text).unwrap(), "a file".to_owned()));
    /// let mut judge = Judge::default();
    /// judge.add(&rules, RuleOrigin::User).unwrap();
    ///
    /// let workspace = [PathBuf::from("/workspace")];
    /// let verdict = |path| {
    ///     let (paths, cwd) = (&[path], Path::new("/workspace"));
    ///     let request = AccessRequest { kind: "edit", command: None, paths, workspace: &workspace, cwd };
    ///     judge.judge_request(&request).verdict
    /// };
    /// assert_eq!(verdict("src/a.rs"), Verdict::Allow);
    /// assert_eq!(verdict("src/../.git/config"), Verdict::Deny);
    /// ```
    pub fn judge_request(&self, request: &AccessRequest<'_>) -> Judgement {
        let names = names_of(request);
        self.judge_requested(&Requested::new(request, &self.place(b"/", &names)))
    }

    fn judge_requested(&self, requested: &Requested<'_>) -> Judgement {
        let own = requested.judge(&self.requests, Verdict::Ask);
        let of_workspace = requested.judge(&self.workspace_requests, Verdict::Allow);
        if of_workspace.verdict > own.verdict { of_workspace } else { own }
    }

    /// Returns why a request is denied by a kind, a path or a command, if it is. Other requests may need an
    /// answer or none.
    pub fn denial(&self, request: &AccessRequest<'_>) -> Option<Judgement> {
        let names = names_of(request);
        let requested = Requested::new(request, &self.place(b"/", &names));
        let sets = [&self.requests, &self.workspace_requests];
        let mut denials = sets.into_iter().filter_map(|set| requested.denial(set));
        denials.find(|judgement| judgement.verdict == Verdict::Deny)
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

    /// Returns the verdict on a request, or a stricter one that rules on calls have on its command, and the calls
    /// in it.
    pub fn explain_request(&self, request: &AccessRequest<'_>) -> Explained {
        let names = names_of(request);
        let requested = Requested::new(request, &self.place(b"/", &names));
        let parts = &requested.parts;
        let of_calls = parts.iter().map(|parts| self.judge_parts(parts));
        let of_calls = of_calls.max_by_key(|judgement| judgement.verdict).unwrap_or_default();
        Explained {
            judgement: self.judge_requested(&requested).or_stricter(of_calls),
            calls: parts
                .iter()
                .flat_map(|parts| &parts.list)
                .map(|part| part.call.to_string())
                .collect(),
            is_unclear: parts.iter().any(|parts| !parts.unclear.is_empty()),
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

/// Returns a request's workspace names.
fn names_of(request: &AccessRequest<'_>) -> Vec<Vec<u8>> {
    request.workspace.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect()
}

/// Maximum number of calls that one answer covers.
const MAX_COVERED: usize = 16;
