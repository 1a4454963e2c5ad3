//! Compiles the rules of a file, and runs their examples.

use super::Verdict;
use super::file::example_call;
use super::place::Place;
use super::pushes::PushRule;
use super::rule::{Rule, RuleOrigin};
use super::rule_text::{CallNetwork, InvalidJudgeRule, RuleText};
use super::set::RuleSet;
use super::table::JudgedTools;
use super::unwrap::Parts;

/// Rules by their effects.
#[derive(Default)]
pub(super) struct CompiledRules {
    pub(super) rules: Vec<Rule>,
    pub(super) no_network: Vec<Rule>,
    pub(super) requests: Vec<Rule>,
    pub(super) pushes: Vec<PushRule>,
}

pub(super) fn compile_all(
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
        if text.is_on_pushes() {
            compiled.pushes.push(PushRule::compile(text, source).map_err(|error| (at, error))?);
            continue;
        }
        if text.is_on_requests() {
            add(text.then.unwrap_or_default(), &mut compiled.requests)?;
            continue;
        }
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
