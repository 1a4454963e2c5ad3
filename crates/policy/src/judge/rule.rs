//! Rules on arguments (`spec/rules.md#rules`).

mod matching;

use std::sync::Arc;

use super::Verdict;
use super::condition::Condition;
use super::rule_text::{InvalidJudgeRule, RuleText};
use super::sieve::Sieve;
use super::table::{base_name, find};
use super::wanted::Wanted;

/// The origin of a rule, in the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleOrigin {
    /// The command line.
    Flag,
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
    /// Further conditions of a rule on requests.
    pub(super) wanted: Option<Arc<Wanted>>,
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
        let is_option =
            |word: &&String| word.starts_with('-') || word.contains(char::is_whitespace);
        if let Some(word) = words.iter().flatten().find(is_option).filter(|_| !text.is_line()) {
            return Err(InvalidJudgeRule::NotWord(word.clone()));
        }
        let combinations = match words.is_empty() && text.is_on_requests() {
            true => vec![vec!["*".to_owned()]],
            false => text.run.combinations()?,
        };
        if text.lists().into_iter().flatten().any(String::is_empty) {
            return Err(InvalidJudgeRule::EmptyCondition);
        }
        let shared =
            Arc::new(Shared { source: source.to_owned(), then, because: text.because.clone() });
        let lists = text.lists().into_iter().filter(|list| !list.is_empty()).count();
        let more = text.all.len().saturating_sub(1) + usize::from(text.outside);
        // An exact rule is narrower than any other one.
        let conditions = lists + more + if text.exact { 1000 } else { 0 };
        let rule = |words: Vec<String>| {
            let mut run: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
            let mut wanted = None;
            if text.is_on_requests() {
                wanted = Some(Arc::new(Wanted::of(text, &run)?));
                if let Some(program) = run.first_mut() {
                    *program = base_name(program).to_vec();
                }
            }
            let (known, tool, dashed) = find(run.first().map(Vec::as_slice).unwrap_or_default());
            let (tool, dashed) = (tool.to_vec(), dashed.map(<[u8]>::to_vec));
            run.splice(..1, std::iter::once(tool).chain(dashed));
            let compile = |items: &[String]| -> Vec<Condition> {
                items.iter().map(|item| Condition::compile(item, known, &run)).collect()
            };
            let bytes = |items: &[String]| -> Vec<Vec<u8>> {
                items.iter().map(|item| item.clone().into_bytes()).collect()
            };
            Ok(Rule {
                with: compile(&text.with),
                all: compile(&text.all),
                without: compile(&text.without),
                outside: text.outside,
                outside_of: bytes(&text.outside_of),
                other_than: bytes(&text.other_than),
                into: bytes(&text.into),
                writes: bytes(&text.writes),
                exact: text.exact,
                conditions: conditions + wanted.as_ref().map_or(0, |it| it.conditions()),
                origin,
                wanted,
                shared: Arc::clone(&shared),
                run,
            })
        };
        combinations.into_iter().map(rule).collect()
    }

    /// Returns its reason as a further part of a sentence.
    pub(super) fn because(&self) -> String {
        match self.shared.because.as_str() {
            "" => String::new(),
            because => format!(": {because}"),
        }
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
