//! The judge with the default rules: spellings of judged calls, harmless calls, and the order of rules.

use aifo_policy::{Judge, JudgedCall, Judgement, RuleOrigin, Verdict, default_rules};

fn judge() -> Judge {
    let mut judge = Judge::default();
    judge.add_defaults();
    judge
}

fn judged(judge: &Judge, argv: &[Vec<u8>]) -> Judgement {
    let workspace = [b"/home/me/project".to_vec()];
    judge.judge(&JudgedCall { argv, directory: b"/home/me/project", workspace: &workspace })
}

/// Returns the calls of a data file with their lines. A `␤` is a newline.
fn calls(text: &str) -> Vec<(String, Vec<Vec<u8>>)> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let call = |line: &str| {
        let words = shlex::split(line).unwrap_or_else(|| panic!("{line}"));
        let words = words.into_iter().map(|word| word.replace('␤', "\n").into_bytes());
        (line.to_owned(), words.collect())
    };
    lines.map(call).collect()
}

#[test]
fn every_example_of_a_default_rule_holds() {
    let mut judge = Judge::default();
    judge.add(default_rules(), RuleOrigin::Default).unwrap();
}

#[test]
fn no_spelling_of_a_judged_call_passes() {
    let judge = judge();
    let calls = calls(include_str!("judged.txt"));
    assert!(calls.len() >= 250, "{}", calls.len());
    let passed: Vec<_> = calls
        .iter()
        .filter(|(_, argv)| judged(&judge, argv).verdict == Verdict::Allow)
        .map(|(line, _)| line)
        .collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn no_harmless_call_is_asked() {
    let judge = judge();
    let calls = calls(include_str!("harmless.txt"));
    assert!(calls.len() >= 200, "{}", calls.len());
    let asked: Vec<_> = calls
        .iter()
        .filter_map(|(line, argv)| {
            let found = judged(&judge, argv);
            (found.verdict > Verdict::Allow)
                .then(|| format!("{line}: {} {}", found.rule, found.reason))
        })
        .collect();
    assert!(asked.is_empty(), "{asked:#?}");
}
