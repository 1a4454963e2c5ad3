//! Conditions of rules on requests.

use super::Verdict;
use super::normal::NormalCall;
use super::requested::{AccessRequest, is_file_kind};
use super::rule_text::{InvalidJudgeRule, RuleText};
use super::table::base_name;

/// Conditions that only rules on requests have.
#[derive(Debug)]
pub(super) struct Wanted {
    /// `*` is any; empty if the rule has only paths.
    pub(super) kinds: Vec<String>,
    pub(super) paths: Vec<String>,
    /// False for requests with any command, or without one.
    pub(super) has_run: bool,
    /// The directory before the program name; empty for a name alone.
    pub(super) directory: Vec<u8>,
    /// The whole command in words, if the rule is for one alone.
    pub(super) line: Option<(Vec<Vec<u8>>, NormalCall)>,
}

impl Wanted {
    /// Errors: the rule has a condition that can never hold, or allows more than its author means.
    pub(super) fn of(text: &RuleText, words: &[Vec<u8>]) -> Result<Self, InvalidJudgeRule> {
        let has_run = !text.run.words().is_empty();
        let lists = [&text.kind, &text.path];
        let [kinds, paths] = lists.map(|it| it.as_ref().map(|it| it.words().to_vec()));
        let is_blank =
            |list: &Vec<String>| list.is_empty() || list.iter().any(|it| it.trim().is_empty());
        if [&kinds, &paths].into_iter().flatten().any(is_blank) {
            return Err(InvalidJudgeRule::EmptyCondition);
        }
        let (kinds, paths) = (kinds.unwrap_or_default(), paths.unwrap_or_default());
        let is_invalid = |path: &&String| path.starts_with('~') || path.contains('\0');
        let is_other = |kind: &&String| *kind != "*" && !is_file_kind(kind);
        let other = kinds.iter().find(is_other).filter(|_| !has_run && !paths.is_empty());
        let allows = text.then == Some(Verdict::Allow);
        match (paths.iter().find(is_invalid), other) {
            _ if text.net.is_some() => Err(InvalidJudgeRule::NetOfRequest),
            _ if text.then.is_none() => Err(InvalidJudgeRule::NoEffect),
            (Some(path), _) => Err(InvalidJudgeRule::InvalidPath(path.clone())),
            _ if !has_run && (text.has_conditions() || text.exact || !text.examples.is_empty()) => {
                Err(InvalidJudgeRule::NoRun)
            }
            _ if allows && kinds.is_empty() => Err(InvalidJudgeRule::NoKind),
            (None, Some(kind)) if allows => Err(InvalidJudgeRule::NotFileKind(kind.clone())),
            _ => {
                let program = words.first().map(Vec::as_slice).unwrap_or_default();
                let directory = program.strip_suffix(base_name(program)).unwrap_or_default();
                let line = NormalCall::parse(words).filter(|_| text.is_line());
                let line = line.map(|call| (words.to_vec(), call));
                Ok(Wanted { kinds, paths, has_run, directory: directory.to_vec(), line })
            }
        }
    }

    pub(super) fn is_any_kind(&self) -> bool {
        self.kinds.iter().any(|kind| kind == "*")
    }

    pub(super) fn has_kind(&self, request: &AccessRequest<'_>) -> bool {
        self.kinds.is_empty()
            || self.is_any_kind()
            || self.kinds.iter().any(|it| it == request.kind())
    }

    /// Returns whether the rule is only what holds for requests that no other rule decides.
    pub(super) fn is_last(&self) -> bool {
        self.is_any_kind() && self.paths.is_empty() && !self.has_run
    }

    /// Returns the number of conditions.
    pub(super) fn conditions(&self) -> usize {
        let names_kind = !self.kinds.is_empty() && !self.is_any_kind();
        usize::from(names_kind) + usize::from(!self.paths.is_empty())
    }

    pub(super) fn has_path(&self, path: &str, request: &AccessRequest<'_>) -> bool {
        self.paths.iter().any(|rule| request.is_below(path, rule))
    }
}
