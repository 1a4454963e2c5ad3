//! `net = "none"`: which calls run without network (`spec/rules.md#network`).

use aifo_policy::{InvalidJudgeRule, Judge, JudgedCall, RuleOrigin, RuleText, Verdict};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    rule: Vec<RuleText>,
}

fn rules(toml: &str) -> Vec<(RuleText, String)> {
    let file: File = toml::from_str(toml).unwrap();
    file.rule.into_iter().enumerate().map(|(at, rule)| (rule, format!("rule {at}"))).collect()
}

fn judge(toml: &str) -> Judge {
    let mut judge = Judge::default();
    judge.add(&rules(toml), RuleOrigin::User).unwrap();
    judge
}

/// Returns the verdict on a command, and the rule that takes its network.
fn judged(judge: &Judge, command: &str) -> (Verdict, Option<String>) {
    let argv: Vec<Vec<u8>> =
        shlex::split(command).unwrap().into_iter().map(String::into_bytes).collect();
    let workspace = [b"/workspace".to_vec()];
    let call = JudgedCall { argv: &argv, directory: b"/workspace", workspace: &workspace };
    let judgement = judge.judge(&call);
    assert_eq!(judge.explain(&call).judgement, judgement, "{command}");
    (judgement.verdict, judgement.no_network)
}

const CARGO: &str = r#"
    [[rule]]
    run = ["cargo", ["test", "nextest"]]
    net = "none"
    examples = { yes = ["cargo +nightly test --all", "cargo t"], no = ["cargo build"] }
"#;

#[test]
fn every_spelling_of_a_call_has_no_network() {
    let judge = judge(CARGO);
    for command in [
        "cargo test",
        "cargo t",
        "cargo +nightly --color never test -p x",
        "/usr/bin/cargo test",
        "env RUST_LOG=debug cargo test",
        "timeout 60 nice cargo test",
        "sh -c 'cargo test'",
        "bash -lc 'cd x && cargo test | tee log'",
        "sh -c 'cargo build; cargo test'",
        "xargs -n1 cargo test",
        "find . -name Cargo.toml -execdir cargo test ;",
        "env -S 'cargo test'",
        "sh -c '$(which cargo) test'",
        "sh -c 'eval \"$X\"'",
        "sh -c 'cargo $X'",
        "an-unknown-wrapper cargo test",
    ] {
        let (verdict, rule) = judged(&judge, command);
        assert_eq!((verdict, rule.as_deref()), (Verdict::Allow, Some("rule 0")), "{command}");
    }
    for command in ["cargo build", "cargo fetch", "echo cargo test", "git commit -m 'cargo test'"] {
        assert_eq!(judged(&judge, command), (Verdict::Allow, None), "{command}");
    }
}

#[test]
fn the_network_does_not_depend_on_the_rule_that_decides() {
    let judge = judge(
        r#"
        [[rule]]
        run = "npm"
        net = "none"
        without = ["view"]
        [[rule]]
        run = "npm install"
        then = "ask"
        [[rule]]
        run = "npm run"
        with = ["deploy"]
        then = "deny"
        [[rule]]
        run = "npm view"
        then = "allow"
        "#,
    );
    let none = Some("rule 0".to_owned());
    assert_eq!(judged(&judge, "npm test"), (Verdict::Allow, none.clone()));
    assert_eq!(judged(&judge, "npm i left-pad"), (Verdict::Ask, none.clone()));
    assert_eq!(judged(&judge, "npm run deploy"), (Verdict::Deny, none));
    assert_eq!(judged(&judge, "npm view left-pad"), (Verdict::Allow, None));
}

#[test]
fn a_rule_with_both_has_both_effects() {
    let judge = judge(
        r#"
        [[rule]]
        run = "git push"
        then = "ask"
        [[rule]]
        run = "git push"
        with = ["--dry-run"]
        then = "allow"
        net = "none"
        "#,
    );
    assert_eq!(judged(&judge, "git push"), (Verdict::Ask, None));
    let expected = (Verdict::Allow, Some("rule 1".to_owned()));
    assert_eq!(judged(&judge, "git push --dry-run"), expected);
    // It may be `--dry-run`: not allowed for that, but without network.
    let expected = (Verdict::Ask, Some("rule 1".to_owned()));
    assert_eq!(judged(&judge, "sh -c 'git push $X'"), expected);
}

#[test]
fn a_workspace_may_take_the_network_but_not_give_it() {
    let mut judge = judge("rule = [{ run = \"make\", then = \"ask\" }]");
    judge.restrict(&rules(CARGO)).unwrap();
    assert_eq!(judged(&judge, "cargo test"), (Verdict::Allow, Some("rule 0".to_owned())));
    assert_eq!(judged(&judge, "make"), (Verdict::Ask, None));
    assert!(judge.concerns("cargo") && !judge.concerns("git"));
    // A rule of the user without `net` leaves it.
    judge
        .add(&rules("rule = [{ run = \"cargo test\", then = \"allow\" }]"), RuleOrigin::User)
        .unwrap();
    assert_eq!(judged(&judge, "cargo test"), (Verdict::Allow, Some("rule 0".to_owned())));
}

#[test]
fn invalid_rules() {
    let mut judge = Judge::default();
    let rows = [
        ("rule = [{ run = \"make\" }]", InvalidJudgeRule::NoEffect),
        (
            "rule = [{ run = \"make\", net = \"none\", examples = { yes = [\"cmake\"] } }]",
            InvalidJudgeRule::NotMatched("cmake".to_owned()),
        ),
    ];
    for (toml, expected) in rows {
        assert_eq!(judge.add(&rules(toml), RuleOrigin::User), Err((0, expected)), "{toml}");
    }
    for net in ["\"names\"", "false", "[]"] {
        let toml = format!("rule = [{{ run = \"make\", net = {net} }}]");
        assert!(toml::from_str::<File>(&toml).is_err(), "{net}");
    }
}
