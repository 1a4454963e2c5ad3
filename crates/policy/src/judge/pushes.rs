//! Rules on pushes to a forge (`spec/rules.md#pushes`).

use super::glob::{Match, matches};
use super::rule_text::{InvalidJudgeRule, RuleText};
use super::{Judgement, Verdict};

/// A ref that a push updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedUpdate<'a> {
    /// The repository, `OWNER/NAME`.
    pub repository: &'a str,
    /// The full name of the ref.
    pub name: &'a str,
    /// What happens to it.
    pub change: PushChange,
}

/// Its change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushChange {
    /// It is new.
    Create,
    /// It moves forward.
    Update,
    /// It is removed.
    Delete,
    /// It moves, and may lose commits.
    Force,
}

/// A rule on pushes.
#[derive(Clone, Debug)]
pub(super) struct PushRule {
    names: Vec<String>,
    changes: Vec<PushChange>,
    /// Empty for any.
    repositories: Vec<String>,
    then: Verdict,
    because: String,
    source: String,
}

impl PushRule {
    /// Compiles a rule with a `push`.
    pub(super) fn compile(text: &RuleText, source: &str) -> Result<PushRule, InvalidJudgeRule> {
        let RuleText { push, then, because, repository, .. } = text;
        let words = |list: &Option<super::RunWord>| {
            list.as_ref().map(|list| list.words().to_vec()).unwrap_or_default()
        };
        let changes = [
            (text.create, PushChange::Create),
            (text.update, PushChange::Update),
            (text.delete, PushChange::Delete),
            (text.force, PushChange::Force),
        ];
        let changes: Vec<_> = changes
            .into_iter()
            .filter(|(is_meant, _)| *is_meant)
            .map(|(_, change)| change)
            .collect();
        let names = words(push);
        let has_other = text.kind.is_some()
            || text.path.is_some()
            || text.net.is_some()
            || text.exact
            || !text.run.words().is_empty()
            || !text.examples.is_empty()
            || text.has_conditions();
        if has_other {
            return Err(InvalidJudgeRule::Push("it has a condition of calls or requests"));
        }
        if changes.is_empty() {
            return Err(InvalidJudgeRule::Push("none of create, update, delete and force is true"));
        }
        if names.is_empty() || !names.iter().all(|name| name.starts_with("refs/")) {
            return Err(InvalidJudgeRule::Push("a name of a ref begins with 'refs/'"));
        }
        let Some(then) = *then else { return Err(InvalidJudgeRule::NoEffect) };
        let (because, source) = (because.clone(), source.to_owned());
        Ok(PushRule { names, changes, repositories: words(repository), then, because, source })
    }

    /// Returns how narrowly the rule matches, if it does: by its longest pattern, then by a repository, then by its
    /// strictness.
    fn rank(&self, update: &JudgedUpdate<'_>) -> Option<(usize, bool, Verdict)> {
        let is_match = |pattern: &&String, word: &str| {
            matches(pattern.as_bytes(), word.as_bytes()) == Match::Yes
        };
        let names = self.names.iter().filter(|pattern| is_match(pattern, update.name));
        let longest = names.map(String::len).max()?;
        let is_here = self.repositories.is_empty()
            || self.repositories.iter().any(|pattern| is_match(&pattern, update.repository));
        (is_here && self.changes.contains(&update.change)).then_some((
            longest,
            !self.repositories.is_empty(),
            self.then,
        ))
    }

    /// Returns the judgement of the narrowest rule, if one matches.
    pub(super) fn judge(rules: &[PushRule], update: &JudgedUpdate<'_>) -> Option<Judgement> {
        let ranked = rules.iter().filter_map(|rule| Some((rule.rank(update)?, rule)));
        let ((.., verdict), rule) = ranked.max_by_key(|(rank, _)| *rank)?;
        let (rule, reason) = (rule.source.clone(), rule.because.clone());
        Some(Judgement { verdict, rule, reason, no_network: None })
    }
}
