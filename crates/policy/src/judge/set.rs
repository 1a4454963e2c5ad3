//! Rules in their order, found by tool and subcommand.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use super::file::{ANY_DEFAULT, TOOLS, defaults_on};
use super::glob::{Match, is_unknown};
use super::normal::NormalCall;
use super::rule::Rule;
use super::sieve::Sieve;
use super::unwrap::{Part, Parts};
use super::{Judgement, RuleOrigin, Verdict};

/// Default rules by tool. Those of a tool are compiled when it is first called.
static DEFAULTS: [OnceLock<RuleSet>; TOOLS] = [const { OnceLock::new() }; TOOLS];

/// Rules of one source.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleSet {
    /// In the order of [`Rule::rank`].
    rules: Vec<Rule>,
    /// Those of `rules`.
    sieves: Vec<Sieve>,
    by_tool: HashMap<Vec<u8>, OfTool>,
    /// True if default rules are part of the set.
    has_defaults: bool,
}

/// The indices of a tool's rules.
#[derive(Clone, Debug, Default)]
struct OfTool {
    all: Vec<usize>,
    /// Those without a subcommand.
    bare: Vec<usize>,
    /// Those with this first word, and those without a subcommand.
    by_word: HashMap<Vec<u8>, Vec<usize>>,
}

impl RuleSet {
    pub(super) fn of(rules: Vec<Rule>) -> Self {
        let mut set = RuleSet::default();
        set.extend(rules);
        set
    }

    pub(super) fn add_defaults(&mut self) {
        self.has_defaults = true;
    }

    pub(super) fn extend(&mut self, rules: Vec<Rule>) {
        self.rules.extend(rules);
        self.rules.sort_by(|a, b| a.rank().cmp(&b.rank()));
        self.sieves = self.rules.iter().map(Rule::sieve).collect();
        self.by_tool.clear();
        let any: Vec<usize> = self.indices(|tool| tool == b"*");
        for (at, rule) in self.rules.iter().enumerate() {
            let Some(tool) = rule.run.first() else { continue };
            match self.by_tool.get_mut(tool) {
                Some(found) => found.all.push(at),
                None => {
                    self.by_tool
                        .insert(tool.clone(), OfTool { all: vec![at], ..OfTool::default() });
                }
            }
        }
        for (tool, found) in &mut self.by_tool {
            if tool != b"*" {
                found.all.extend(&any);
                found.all.sort_unstable();
            }
            for at in &found.all {
                match self.rules.get(*at).and_then(|rule| rule.run.get(1)) {
                    Some(word) if !word.iter().any(|byte| matches!(byte, b'*' | b'?')) => {
                        found.by_word.entry(word.clone()).or_default().push(*at);
                    }
                    _ => found.bare.push(*at),
                }
            }
            for list in found.by_word.values_mut() {
                list.extend(&found.bare);
                list.sort_unstable();
            }
        }
    }

    fn indices(&self, is_of: impl Fn(&[u8]) -> bool) -> Vec<usize> {
        let found = self.rules.iter().enumerate();
        let found = found.filter(|(_, rule)| rule.run.first().is_some_and(|tool| is_of(tool)));
        found.map(|(at, _)| at).collect()
    }

    /// Returns whether a rule is on the tool, or on all.
    pub(super) fn names(&self, tool: &[u8]) -> bool {
        self.by_tool.contains_key(tool)
            || self.by_tool.contains_key(b"*".as_slice())
            || (self.has_defaults && defaults_on(tool).is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty() && !self.has_defaults
    }

    /// Returns whether a rule asks about calls of a tool, or denies them.
    pub(super) fn concerns(&self, tool: &[u8]) -> bool {
        let is_of = |name: &[u8]| name == b"*" || name == tool;
        let mut strict = self.rules.iter().filter(|rule| rule.shared.then > Verdict::Allow);
        strict.any(|rule| !rule.reads_output() && rule.run.first().is_some_and(|it| is_of(it)))
            || (self.has_defaults && defaults_on(tool).is_some_and(|(_, rules)| rules.is_strict))
    }

    /// Returns a tool's default rules, if they are part of the set.
    fn defaults(&self, tool: &[u8]) -> Option<&'static RuleSet> {
        if !self.has_defaults {
            return None;
        }
        let (at, rules) = defaults_on(tool)?;
        Some(DEFAULTS.get(at)?.get_or_init(|| RuleSet::of(rules.compile())))
    }

    /// Returns whether any rule matches, for examples.
    pub(super) fn matches(&self, parts: &Parts<'_>) -> bool {
        self.rules.iter().any(|rule| match &rule.wanted {
            Some(wanted) => rule.matches_part(wanted, parts) == Match::Yes,
            None => parts
                .list
                .iter()
                .any(|part| rule.matches(&part.call, &part.place, &part.into) == Match::Yes),
        })
    }

    /// Returns the strictest judgement on all parts.
    pub(super) fn judge(&self, parts: &Parts<'_>) -> Judgement {
        let mut found = Judgement::default();
        for part in &parts.list {
            let judged = self.judge_part(part);
            if judged.verdict > found.verdict || found.rule.is_empty() {
                found = judged;
            }
        }
        if found.verdict < Verdict::Ask
            && let Some(rule) = parts.unclear.iter().find_map(|tool| self.possible(tool))
        {
            found.verdict = Verdict::Ask;
            found.rule = rule.shared.source.clone();
            found.reason = format!(
                "a part of the command is known only when it runs, and this rule could apply{}",
                rule.because()
            );
        }
        found
    }

    /// Returns a rule that could apply to some call of a tool, or of any if `tool` is empty.
    fn possible(&self, tool: &[u8]) -> Option<&Rule> {
        let is_of = |rule: &&Rule| {
            let is_tool = |name: &Vec<u8>| name == tool || name == b"*";
            rule.shared.then > Verdict::Allow
                && (tool.is_empty() || rule.run.first().is_some_and(is_tool))
        };
        if tool.is_empty() && self.has_defaults {
            return self.rules.iter().find(is_of).or(ANY_DEFAULT.as_ref());
        }
        let defaults = self.defaults(tool).map(|set| set.rules.iter());
        merged(self.rules.iter(), defaults.into_iter().flatten()).find(is_of)
    }

    fn judge_part(&self, part: &Part<'_>) -> Judgement {
        let mut unsure: Option<&Rule> = None;
        let mut decisive: Option<&Rule> = None;
        let sieve = Sieve::of_call(&part.call);
        let defaults = self.defaults(&part.call.tool).map(|set| set.candidates(&part.call, sieve));
        let own = self.candidates(&part.call, sieve);
        for rule in merged(own, defaults.into_iter().flatten()) {
            let found = rule.matches(&part.call, &part.place, &part.into);
            let found = if part.is_guess { found.min(Match::Maybe) } else { found };
            match found {
                Match::No => {}
                Match::Maybe if decisive.is_some() && rule.origin == RuleOrigin::Default => {}
                Match::Maybe => {
                    let is_stricter = unsure.is_none_or(|it| it.shared.then < rule.shared.then);
                    if rule.shared.then > Verdict::Allow && is_stricter {
                        unsure = Some(rule);
                    }
                }
                // A default rule does not make a user's verdict looser.
                Match::Yes => match decisive {
                    None if rule.origin == RuleOrigin::User => {
                        decisive = Some(rule);
                        break;
                    }
                    None => decisive = Some(rule),
                    Some(_) if rule.origin == RuleOrigin::Default => {}
                    Some(default) => {
                        if rule.shared.then > default.shared.then {
                            decisive = Some(rule);
                        }
                        break;
                    }
                },
            }
        }
        let verdict = decisive.map_or(Verdict::Allow, |rule| rule.shared.then);
        match (unsure, decisive) {
            (Some(rule), _) if verdict < Verdict::Ask => Judgement {
                verdict: Verdict::Ask,
                rule: rule.shared.source.clone(),
                reason: format!(
                    "a part of the command is known only when it runs, and this rule could \
                     apply{}",
                    rule.because()
                ),
                no_network: None,
            },
            (_, Some(rule)) => Judgement {
                verdict,
                rule: rule.shared.source.clone(),
                reason: rule.shared.because.clone(),
                no_network: None,
            },
            (_, None) => Judgement::default(),
        }
    }

    /// Returns the rules that may match a call, in order.
    fn candidates<'a>(
        &'a self,
        call: &NormalCall,
        sieve: Sieve,
    ) -> impl Iterator<Item = &'a Rule> + use<'a> {
        self.indices_of(call).iter().filter_map(move |at| {
            let is_needed = self.sieves.get(*at).is_some_and(|needed| needed.meets(sieve));
            if is_needed { self.rules.get(*at) } else { None }
        })
    }

    fn indices_of(&self, call: &NormalCall) -> &[usize] {
        let any = || self.by_tool.get(b"*".as_slice());
        let Some(found) = self.by_tool.get(&call.tool).or_else(any) else { return &[] };
        let Some(first) = call.operands.first() else {
            return if call.is_open { &found.all } else { &found.bare };
        };
        let text = std::str::from_utf8(&first.word).unwrap_or_default();
        let is_certain = !first.may_be_value
            && !call.is_open
            && !first.word.iter().any(|byte| is_unknown(*byte))
            && !call.known.table.may_abbreviate(text);
        match is_certain {
            true => found.by_word.get(&first.word).map_or(&found.bare, |list| list),
            false => &found.all,
        }
    }
}

/// Merges rules that are in the order of [`Rule::rank`].
fn merged<'a>(
    own: impl Iterator<Item = &'a Rule>,
    defaults: impl Iterator<Item = &'a Rule>,
) -> impl Iterator<Item = &'a Rule> {
    let (mut own, mut defaults) = (own.peekable(), defaults.peekable());
    std::iter::from_fn(move || match (own.peek(), defaults.peek()) {
        (Some(a), Some(b)) if b.rank() < a.rank() => defaults.next(),
        (None, _) => defaults.next(),
        _ => own.next(),
    })
}

impl fmt::Display for NormalCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.tool))?;
        for operand in &self.operands {
            write!(f, " {}", shown(&operand.word))?;
        }
        for option in &self.options {
            write!(f, " {}", shown(&option.name))?;
            if let Some(value) = &option.value {
                write!(f, "={}", shown(value))?;
            }
        }
        if self.is_open { f.write_str(" ...") } else { Ok(()) }
    }
}

/// Returns a word as text, with `?` for unknown parts.
fn shown(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(word).replace(['\0', '\u{1}', '\u{3}'], "?");
    match text.is_empty() || text.contains(|char: char| char.is_whitespace() || char.is_control()) {
        true => format!("{text:?}"),
        false => text,
    }
}
