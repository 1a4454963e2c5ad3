//! Rules on arguments in both files.
//!
//! Proves `spec/rules.md#rules`, `spec/rules.md#order`.

use aifo_policy::{Judge, JudgedCall, Verdict};

use super::{of_files, of_user};

fn verdict(judge: &Judge, command: &str) -> Verdict {
    let argv: Vec<Vec<u8>> = command.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let workspace = [b"/w".to_vec()];
    judge.judge(&JudgedCall { argv: &argv, directory: b"/w", workspace: &workspace }).verdict
}

#[test]
fn the_workspace_only_tightens() {
    let user =
        "[[rule]]\nrun = 'git push'\nthen = 'deny'\n[[rule]]\nrun = 'make'\nthen = 'allow'\n";
    let workspace =
        "[[rule]]\nrun = 'git push origin'\nthen = 'ask'\n[[rule]]\nrun = 'make'\nthen = 'ask'\n";
    let config = of_files(user, workspace).unwrap();
    let judge = config.argument_rules.judge(false);
    assert_eq!(verdict(&judge, "git push origin"), Verdict::Deny, "a longer rule does not loosen");
    assert_eq!(verdict(&judge, "make"), Verdict::Ask);
    assert_eq!(verdict(&judge, "ls"), Verdict::Allow);
    assert_eq!(
        of_files("", "\n[[rule]]\nrun = 'make'\nthen = 'allow'").unwrap_err().lines().next(),
        Some(
            "/w/.aifo.toml:2: rule with then = \"allow\" allows calls, which a workspace's file may \
             not do"
        )
    );
}

#[test]
fn a_users_rule_overrides_a_default_rule() {
    let user = "[[rule]]\nrun = 'git push'\nwith = ['--force']\nthen = 'allow'\n";
    let config = of_user(user).unwrap();
    assert_eq!(verdict(&config.argument_rules.judge(true), "git push -f"), Verdict::Allow);
    let builtin = of_user("").unwrap().argument_rules;
    assert_eq!(verdict(&builtin.judge(true), "git push -f"), Verdict::Ask);
    assert_eq!(verdict(&builtin.judge(false), "git push -f"), Verdict::Allow);
}

#[test]
fn the_default_rules_stay_on_for_a_workspace() {
    assert!(of_user("default_rules = false").is_ok_and(|config| !config.default_rules.value));
    let config = of_files("default_rules = false", "default_rules = true").unwrap();
    assert!(config.default_rules.value);
    let error = of_files("", "default_rules = false").unwrap_err();
    assert!(error.starts_with("/w/.aifo.toml:1: default_rules = false removes rules"), "{error}");
}

#[test]
fn errors_have_a_line_and_a_hint() {
    let rows = [
        ("examples = { yes = ['git pull'] }", "the rule does not match its example 'git pull'"),
        (
            "examples = { no = ['git -C x push'] }",
            "the rule matches its counterexample 'git -C x push'",
        ),
        ("examples = { no = [''] }", "the example '' is not a command"),
        ("with = ['']", "a condition of the rule is empty"),
    ];
    for (line, expected) in rows {
        let text = format!("\n[[rule]]\nrun = 'git push'\nthen = 'ask'\n{line}\n");
        let error = of_user(&text).unwrap_err();
        assert!(error.starts_with(&format!("/u.toml:2: {expected}\nhint: ")), "{error}");
    }
    let rows = [
        ("run = ''\nthen = 'ask'", "the rule has no tool"),
        ("run = 'git -f'\nthen = 'ask'", "'-f' is no tool or subcommand"),
        ("run = 'git'", "the rule has neither 'then' nor 'net'"),
        ("run = 'git'\nthen = 'no'", "unknown variant `no`"),
        (
            "run = 'git'\nthen = 'ask'\nwiht = ['x']",
            "there is no key 'wiht'\nhint: did you mean 'with'?",
        ),
    ];
    for (lines, expected) in rows {
        let error = of_user(&format!("[[rule]]\n{lines}\n")).unwrap_err();
        assert!(error.starts_with("/u.toml:") && error.contains(expected), "{error}");
    }
}
