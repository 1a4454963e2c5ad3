//! Matches a rule with a call.

use super::Rule;
use crate::judge::Verdict;
use crate::judge::condition::Condition;
use crate::judge::glob::{Match, matches};
use crate::judge::normal::{CallOption, NormalCall};
use crate::judge::place::Place;
use crate::judge::table::find;

impl Rule {
    /// Returns whether the rule matches a call.
    pub(in crate::judge) fn matches(
        &self,
        call: &NormalCall,
        place: &Place<'_>,
        into: &[Vec<u8>],
    ) -> Match {
        let (mut found, operands_at) = self.matches_run(call);
        if found == Match::No {
            return Match::No;
        }
        let matches_one = |item: &Condition| match self.shared.then {
            Verdict::Allow => item.matches_surely(call, operands_at),
            _ => item.matches(call, operands_at),
        };
        let is_any = |conditions: &[Condition]| {
            let each = conditions.iter().map(matches_one);
            each.max().unwrap_or(Match::No)
        };
        let mut unsure = 0;
        if !self.with.is_empty() {
            let one = is_any(&self.with);
            unsure += usize::from(one == Match::Maybe);
            found = found.min(one);
        }
        for condition in &self.all {
            let one = matches_one(condition);
            unsure += usize::from(one == Match::Maybe);
            found = found.min(one);
        }
        // One unknown word cannot be several elements.
        if unsure > 1 && !call.is_open && unsure > call.unknown_words() {
            return Match::No;
        }
        if !self.without.is_empty() && found != Match::No {
            let absent = self.without.iter().map(|item| item.is_absent(call, operands_at));
            found = found.min(absent.min().unwrap_or(Match::Yes));
        }
        if !self.into.is_empty() {
            let is_into = |tool: &Vec<u8>| {
                let (_, name, _) = find(tool);
                self.into.iter().any(|it| find(it.as_slice()).1 == name)
            };
            let goes = if into.iter().any(is_into) { Match::Yes } else { Match::No };
            found = found.min(goes);
        }
        if !self.writes.is_empty() && found != Match::No {
            found = found.min(self.writes_file(call, place));
        }
        if self.outside && found != Match::No {
            found = found.min(self.is_outside(call, place, operands_at));
        }
        if !self.outside_of.is_empty() && found != Match::No {
            found = found.min(self.is_outside_of(call, place, operands_at));
        }
        if !self.other_than.is_empty() && found != Match::No {
            found = found.min(self.has_other(call, operands_at));
        }
        if self.exact && found != Match::No {
            found = found.min(self.is_exact(call, operands_at));
        }
        found
    }

    /// Matches tool and subcommand, and returns the index of the first operand after them.
    fn matches_run(&self, call: &NormalCall) -> (Match, usize) {
        let Some((tool, words)) = self.run.split_first() else { return (Match::No, 0) };
        let mut found = if tool == b"*" { Match::Yes } else { matches(tool, &call.tool) };
        let mut at = 0;
        for word in words {
            loop {
                if found == Match::No {
                    return (Match::No, at);
                }
                let Some(operand) = call.operands.get(at) else {
                    let rest = if call.is_open { Match::Maybe } else { Match::No };
                    return (found.min(rest), at);
                };
                at += 1;
                match matches_word(word, &operand.word, call) {
                    Match::No if operand.may_be_value => {}
                    one => {
                        found = found.min(one);
                        break;
                    }
                }
            }
        }
        (found, at)
    }

    fn writes_file(&self, call: &NormalCall, place: &Place<'_>) -> Match {
        if place.is_contained {
            return Match::No;
        }
        let files = call.paths().into_iter().chain(call.writes.iter().map(Vec::as_slice));
        let files = files.chain(call.saved_urls());
        let each = files.flat_map(|file| place.absolute(file)).map(|file| {
            let matched = self.writes.iter().map(|pattern| matches(pattern, &file));
            matched.max().unwrap_or(Match::No)
        });
        let found = each.max().unwrap_or(Match::No);
        if call.is_open { found.max(Match::Maybe) } else { found }
    }

    fn is_outside(&self, call: &NormalCall, place: &Place<'_>, operands_at: usize) -> Match {
        if !call.known.table.path_options.is_empty() {
            let each = call.paths().into_iter().map(|path| place.is_outside(path, false));
            let found = each.max().unwrap_or(Match::No);
            return if call.is_open { found.max(Match::Maybe) } else { found };
        }
        let are_paths = call.known.table.paths;
        let looks_like_path = |word: &[u8]| {
            word.contains(&b'/') || word == b".." || matches!(word.first(), Some(b'~' | 0))
        };
        let operands = call.operands.iter().skip(operands_at).map(|operand| &operand.word);
        let paths = operands.filter(|word| are_paths || looks_like_path(word));
        let outside = paths.map(|path| place.is_outside(path, true)).max().unwrap_or(Match::No);
        if call.is_open { outside.max(Match::Maybe) } else { outside }
    }

    fn is_outside_of(&self, call: &NormalCall, place: &Place<'_>, operands_at: usize) -> Match {
        let operands = call.operands.iter().skip(operands_at);
        let each = operands.map(|operand| place.is_outside_of(&operand.word, &self.outside_of));
        let outside = each.max().unwrap_or(Match::No);
        if call.is_open { outside.max(Match::Maybe) } else { outside }
    }

    /// Returns whether an operand matches none of the patterns of `other_than`.
    fn has_other(&self, call: &NormalCall, operands_at: usize) -> Match {
        let is_other = |word: &[u8]| {
            let matched = self.other_than.iter().map(|pattern| matches(pattern, word));
            match matched.max().unwrap_or(Match::No) {
                Match::No => Match::Yes,
                Match::Maybe => Match::Maybe,
                Match::Yes => Match::No,
            }
        };
        let operands = call.operands.iter().skip(operands_at);
        let found = operands.map(|operand| is_other(&operand.word)).max().unwrap_or(Match::No);
        if call.is_open { found.max(Match::Maybe) } else { found }
    }

    fn is_exact(&self, call: &NormalCall, operands_at: usize) -> Match {
        let is_named = |option: &CallOption| {
            option.name == b"--" || self.all.iter().any(|it| it.names(option))
        };
        let named = self.all.iter().filter(|it| matches!(it, Condition::Operand { .. })).count();
        let is_exact = call.options.iter().all(is_named)
            && call.operands.len() == operands_at + named
            && !call.is_open;
        if is_exact { Match::Yes } else { Match::No }
    }
}

/// Matches a subcommand's word with an operand.
fn matches_word(word: &[u8], operand: &[u8], call: &NormalCall) -> Match {
    let found = matches(word, operand);
    if found == Match::No
        && word.starts_with(operand)
        && let Ok(text) = std::str::from_utf8(operand)
        && call.known.table.may_abbreviate(text)
    {
        return Match::Yes;
    }
    found
}
