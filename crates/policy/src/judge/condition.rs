//! Conditions of a rule on options and operands.

use super::glob::{Match, matches};
use super::normal::{CallOption, NormalCall};
use super::sieve::Sieve;
use super::table::{Arity, Known, words};

/// An element of `with`, `all` or `without`.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// An option by its synonyms, with a pattern of its value.
    Option {
        names: Vec<Vec<u8>>,
        value: Option<Vec<u8>>,
        /// A pattern of its name.
        pattern: Option<Vec<u8>>,
        /// True if it is only before the subcommand.
        is_global: bool,
    },
    /// A pattern of an operand; `ignores_case` if both are compared in lower case.
    Operand { pattern: Vec<u8>, ignores_case: bool },
}

impl Condition {
    pub(super) fn compile(text: &str, known: Known, run: &[Vec<u8>]) -> Self {
        if !text.starts_with('-') {
            let ignores_case = known.table.ignores_case_after(run.get(1).map(Vec::as_slice));
            let text = if ignores_case { text.to_ascii_lowercase() } else { text.to_owned() };
            return Condition::Operand { pattern: text.into_bytes(), ignores_case };
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.as_bytes().to_vec())),
            None => (text, None),
        };
        let name = name.as_bytes().to_vec();
        if name.contains(&b'*') || name.contains(&b'?') {
            let names = known.table.names_like(&name);
            return Condition::Option { names, value, pattern: Some(name), is_global: false };
        }
        // A rule without a subcommand is for all of them; its options are those of the tool.
        let path = run.iter().skip(1).map(|word| String::from_utf8_lossy(word));
        let path: Vec<_> = path.collect();
        let is_global = !known.table.inherits() && !known.table.is_flat();
        let scopes = (1..=path.len()).rev();
        let scopes = scopes.filter_map(|count| known.table.scope(&path.get(..count)?.join(" ")));
        let mut scopes = scopes.chain([known.table.root()]);
        let found = scopes.find_map(|scope| Some((scope, scope.find(&name)?.1)));
        let is_global = is_global
            && found.as_ref().is_some_and(|(scope, _)| std::ptr::eq(*scope, known.table.root()));
        let names = match found {
            Some((_, row)) => words(row).map(<[u8]>::to_vec).collect(),
            None => vec![name],
        };
        let first = names.first().map(Vec::as_slice).unwrap_or_default();
        let value = value.map(|value| known.table.normal_value(first, value));
        Condition::Option { names, value, pattern: None, is_global }
    }

    /// Returns a set that every call that matches has an element of.
    pub(super) fn sieve(&self) -> Sieve {
        match self {
            Condition::Option { pattern: Some(_), .. } => Sieve::ANY,
            Condition::Option { names, .. } => Sieve::of_option(names),
            Condition::Operand { ignores_case: true, .. } => Sieve::ANY,
            Condition::Operand { pattern, .. } => Sieve::of_pattern(pattern),
        }
    }

    /// Returns whether this condition names an option.
    pub(super) fn names(&self, option: &CallOption) -> bool {
        let Condition::Option { names, pattern, .. } = self else { return false };
        has_name(names, pattern, &option.name)
    }

    /// As [`Condition::matches`], for a rule that allows: an option that may be a value counts less.
    pub(super) fn matches_surely(&self, call: &NormalCall, operands_at: usize) -> Match {
        let found = self.matches(call, operands_at);
        if matches!(self, Condition::Operand { .. }) {
            return found;
        }
        let is_sure = call.options.iter().any(|it| it.is_sure && self.names(it));
        if is_sure { found } else { found.min(Match::Maybe) }
    }

    pub(super) fn matches(&self, call: &NormalCall, operands_at: usize) -> Match {
        let open = if call.is_open { Match::Maybe } else { Match::No };
        match self {
            Condition::Operand { pattern, ignores_case } => {
                let operands = call.operands.iter().skip(operands_at);
                let each = operands.map(|operand| match ignores_case {
                    true => matches(pattern, &operand.word.to_ascii_lowercase()),
                    false => matches(pattern, &operand.word),
                });
                each.max().unwrap_or(Match::No).max(open)
            }
            Condition::Option { names, value, pattern, is_global } => {
                let open = match (*is_global, call.is_open_before) {
                    (true, false) => Match::No,
                    _ => open,
                };
                let each =
                    call.options.iter().map(|it| matches_option((names, pattern), value, it, call));
                let found = each.max().unwrap_or(Match::No).max(open);
                // An expansion, or the name of a file, may be an option.
                if call.may_have_option && (!*is_global || call.is_open_before) {
                    found.max(Match::Maybe)
                } else {
                    found
                }
            }
        }
    }

    /// Returns whether the call does not have it.
    pub(super) fn is_absent(&self, call: &NormalCall, operands_at: usize) -> Match {
        let Condition::Option { names, value, pattern, .. } = self else {
            return match self.matches(call, operands_at) {
                Match::No => Match::Yes,
                Match::Maybe => Match::Maybe,
                Match::Yes => Match::No,
            };
        };
        let negated = call.options.iter().any(|option| {
            option
                .name
                .strip_prefix(b"--no-")
                .is_some_and(|rest| names.iter().any(|name| name.strip_prefix(b"--") == Some(rest)))
        });
        let is_present = call.options.iter().any(|option| {
            let is_off = value.is_none()
                && option.value.as_deref().is_some_and(|value| {
                    !matches!(value, b"true" | b"1" | b"yes") && names_a_flag(option, call)
                });
            option.is_sure
                && !is_off
                && self.names(option)
                && matches_option((names, pattern), value, option, call) == Match::Yes
        });
        if is_present && !negated {
            return Match::No;
        }
        if self.matches(call, operands_at) == Match::No { Match::Yes } else { Match::Maybe }
    }
}

/// Returns whether a value of this option switches it on or off.
fn names_a_flag(option: &CallOption, call: &NormalCall) -> bool {
    let arity = call.known.table.root().find(&option.name).map(|(arity, _)| arity);
    arity != Some(Arity::Value)
}

fn has_name(names: &[Vec<u8>], pattern: &Option<Vec<u8>>, name: &[u8]) -> bool {
    let is_like = |pattern: &Vec<u8>| name != b"--" && matches(pattern, name) == Match::Yes;
    names.iter().any(|it| it == name) || pattern.as_ref().is_some_and(is_like)
}

fn matches_option(
    (names, pattern): (&[Vec<u8>], &Option<Vec<u8>>),
    value: &Option<Vec<u8>>,
    option: &CallOption,
    call: &NormalCall,
) -> Match {
    let by_name = if has_name(names, pattern, &option.name) {
        Match::Yes
    } else if option.has_unknown {
        let is_bundle = option.name.len() == 2;
        let may_be = names.iter().any(|name| matches(name, &option.name) != Match::No);
        if is_bundle || may_be { Match::Maybe } else { Match::No }
    } else if option.is_unknown && option.name.len() > 2 && call.known.table.abbreviates {
        let is_abbreviation = names.iter().any(|name| name.starts_with(&option.name));
        if is_abbreviation { Match::Yes } else { Match::No }
    } else {
        Match::No
    };
    match (value, &option.value) {
        (None, _) => by_name,
        (Some(pattern), Some(value)) => by_name.min(matches(pattern, value)),
        (Some(_), None) => Match::No,
    }
}
