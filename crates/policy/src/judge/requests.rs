//! Rules on the requests of agents (`spec/rules.md#requests`).

use std::os::unix::ffi::OsStrExt;

use super::glob::{Match, matches};
use super::normal::{CallOption, NormalCall};
use super::place::Place;
use super::requested::{AccessRequest, SureCommand, covers_commands, is_file_kind};
use super::rule::Rule;
use super::table::JudgedTools;
use super::unwrap::Parts;
use super::wanted::Wanted;
use super::{Judgement, Verdict};

impl Rule {
    /// Returns whether a call in a command matches.
    pub(super) fn matches_part(&self, wanted: &Wanted, parts: &Parts<'_>) -> Match {
        let tool = self.run.first().map(Vec::as_slice).unwrap_or_default();
        let is_unclear = parts.unclear.iter().any(|unclear| unclear.is_empty() || unclear == tool);
        let each = parts.list.iter().map(|part| {
            let is_program = wanted.directory.is_empty() || wanted.directory == part.call.directory;
            let found = match &wanted.line {
                _ if !is_program => Match::No,
                Some((_, line)) => is_line(line, &part.call),
                None => self.matches(&part.call, &part.place, &part.into),
            };
            if part.is_guess { found.min(Match::Maybe) } else { found }
        });
        each.chain(is_unclear.then_some(Match::Maybe)).max().unwrap_or(Match::No)
    }

    /// Returns whether a rule that asks or denies is about a request, by any of its paths and calls.
    fn applies(&self, wanted: &Wanted, request: &AccessRequest<'_>, parts: &[Parts<'_>]) -> Match {
        let is_path = wanted.paths.is_empty()
            || request.paths.iter().any(|path| wanted.has_path(path, request));
        match wanted.has_kind(request) && is_path {
            false => Match::No,
            true if !wanted.has_run => Match::Yes,
            true => {
                let each = parts.iter().map(|parts| self.matches_part(wanted, parts));
                each.max().unwrap_or(Match::No)
            }
        }
    }

    /// Returns whether a rule covers a whole request, with this command or without any.
    fn covers(
        &self,
        wanted: &Wanted,
        request: &AccessRequest<'_>,
        command: Option<&SureCommand>,
        place: &Place<'_>,
    ) -> bool {
        let has_paths = wanted.paths.is_empty()
            || (!request.paths.is_empty()
                && request.paths.iter().all(|path| wanted.has_path(path, request)));
        let has_command = match (wanted.has_run, command) {
            (true, None) => false,
            (true, Some(command)) => self.matches_surely(wanted, command, place),
            // Paths do not limit what a command does.
            (false, _) if !wanted.paths.is_empty() => {
                request.command.is_none() && is_file_kind(request.kind())
            }
            (false, _) => {
                request.command.is_none() || wanted.is_any_kind() || covers_commands(request.kind())
            }
        };
        wanted.has_kind(request) && has_paths && has_command
    }

    fn matches_surely(&self, wanted: &Wanted, command: &SureCommand, place: &Place<'_>) -> bool {
        if let Some((words, _)) = &wanted.line {
            return command.is_alone && *words == command.words;
        }
        let place = Place { directories: command.directories.clone(), ..place.clone() };
        // zsh looks for the program of `=make`.
        let is_found = command.words.first().is_some_and(|word| word.starts_with(b"="));
        NormalCall::parse(&command.words).is_some_and(|call| {
            !is_found
                && wanted.directory == call.directory
                && self.matches(&call, &place, &[]) == Match::Yes
        })
    }

    fn judgement(&self, verdict: Verdict, reason: String) -> Judgement {
        Judgement { verdict, rule: self.shared.source.clone(), reason, no_network: None }
    }

    /// Returns the judgement by a rule that surely matches, or may.
    fn judged(&self, found: Match) -> Judgement {
        match found {
            Match::Yes => self.judgement(self.shared.then, self.shared.because.clone()),
            _ => self.judgement(
                Verdict::Ask,
                format!(
                    "a part of the command is known only when it runs, and this rule could apply{}",
                    self.because()
                ),
            ),
        }
    }
}

/// Returns whether a call is the whole of another one, in any order of its options.
fn is_line(line: &NormalCall, call: &NormalCall) -> Match {
    let options = |call: &NormalCall| -> Vec<CallOption> {
        call.options.iter().filter(|option| option.name != b"--").cloned().collect()
    };
    let (of_line, of_call) = (options(line), options(call));
    if line.tool != call.tool {
        return Match::No;
    }
    if call.is_open {
        return Match::Maybe;
    }
    if line.operands.len() != call.operands.len() || of_line.len() != of_call.len() {
        return Match::No;
    }
    let operands = line.operands.iter().zip(&call.operands);
    let operands = operands.map(|(line, call)| matches(&line.word, &call.word));
    let is_same = |line: &CallOption, call: &CallOption| {
        let value = match (&line.value, &call.value) {
            (Some(line), Some(call)) => matches(line, call),
            (line, call) if line == call => Match::Yes,
            _ => Match::No,
        };
        matches(&line.name, &call.name).min(value)
    };
    let of_one = |line| of_call.iter().map(|call| is_same(line, call)).max().unwrap_or(Match::No);
    of_line.iter().map(of_one).chain(operands).min().unwrap_or(Match::Yes)
}

/// A request for rules that are in the order of [`Rule::rank`].
pub(super) struct Requested<'a> {
    request: &'a AccessRequest<'a>,
    place: Place<'a>,
    /// The calls of its command.
    pub(super) parts: Vec<Parts<'a>>,
}

/// Returns the rules that are on requests: all of them.
fn on_requests(rules: &[Rule]) -> impl Iterator<Item = (&Rule, &Wanted)> {
    rules.iter().filter_map(|rule| Some((rule, rule.wanted.as_deref()?)))
}

impl<'a> Requested<'a> {
    pub(super) fn new(request: &'a AccessRequest<'a>, place: &Place<'a>) -> Self {
        let cwd = request.cwd.as_os_str().as_bytes().to_vec();
        let place = Place { directories: vec![cwd], ..place.clone() };
        let parts = request.command.map(|command| command.parts(&place)).unwrap_or_default();
        Requested { request, place, parts }
    }

    /// Returns the denial, which no other rule lifts; an unsure one is a question.
    pub(super) fn denial(&self, rules: &[Rule]) -> Option<Judgement> {
        let denials = on_requests(rules)
            .filter(|(rule, wanted)| rule.shared.then == Verdict::Deny && !wanted.is_last());
        let judged = denials.filter_map(|(rule, wanted)| {
            let found = rule.applies(wanted, self.request, &self.parts);
            (found != Match::No).then(|| rule.judged(found))
        });
        judged.max_by_key(|judgement| judgement.verdict)
    }

    /// Returns the verdict; `otherwise` if no rule decides.
    pub(super) fn judge(&self, rules: &[Rule], otherwise: Verdict) -> Judgement {
        if rules.is_empty() {
            return Judgement { verdict: otherwise, ..Judgement::default() };
        }
        let mut strictest = self.denial(rules).unwrap_or_default();
        if strictest.verdict == Verdict::Deny {
            return strictest;
        }
        let sure = self.request.command.and_then(|command| command.sure(&self.place));
        let sure = sure.unwrap_or_default();
        for command in &sure {
            let place = Place { directories: command.directories.clone(), ..self.place.clone() };
            let parts = Parts::of_call(&command.words, place, JudgedTools::default());
            let judged = self.decide(rules, Some(command), &[parts], otherwise);
            strictest = strictest.or_stricter(judged);
        }
        if sure.is_empty() {
            strictest = strictest.or_stricter(self.decide(rules, None, &self.parts, otherwise));
        }
        strictest
    }

    /// Returns the judgement on a simple command, or on a request of which none is known.
    fn decide(
        &self,
        rules: &[Rule],
        command: Option<&SureCommand>,
        parts: &[Parts<'_>],
        otherwise: Verdict,
    ) -> Judgement {
        let mut asked: Option<Judgement> = None;
        for (rule, wanted) in on_requests(rules) {
            let covers = || rule.covers(wanted, self.request, command, &self.place);
            // No command alone shows the reader of its output.
            let parts = if rule.reads_output() { &self.parts } else { parts };
            match rule.shared.then {
                Verdict::Allow if covers() => match asked {
                    None => return rule.judged(Match::Yes),
                    Some(_) => break,
                },
                Verdict::Deny if wanted.is_last() => return rule.judged(Match::Yes),
                Verdict::Ask => match rule.applies(wanted, self.request, parts) {
                    Match::No => {}
                    // Only a rule that covers it keeps it from what holds for other requests.
                    Match::Yes if covers() => {
                        return asked.unwrap_or_else(|| rule.judged(Match::Yes));
                    }
                    found => _ = asked.get_or_insert_with(|| rule.judged(found)),
                },
                Verdict::Allow | Verdict::Deny => {}
            }
        }
        let asked = asked.filter(|_| otherwise < Verdict::Deny);
        asked.unwrap_or_else(|| Judgement { verdict: otherwise, ..Judgement::default() })
    }
}
