//! Rules on pushes to a forge (`spec/rules.md#pushes`).

use aifo_policy::{
    Judge, JudgedUpdate, PushChange, RuleDoubt, RuleOrigin, RuleText, Verdict, rule_doubts,
};

fn rules(texts: &[&str]) -> Vec<(RuleText, String)> {
    let parse = |text: &&str| (toml::from_str(text).unwrap(), (*text).to_owned());
    texts.iter().map(parse).collect()
}

fn judge(users: &[&str], workspace: &[&str]) -> Judge {
    let mut judge = Judge::default();
    judge.add(&rules(users), RuleOrigin::User).unwrap();
    judge.restrict(&rules(workspace)).unwrap();
    judge
}

fn verdict(judge: &Judge, name: &str, change: PushChange) -> Verdict {
    judge.judge_push(&JudgedUpdate { repository: "o/r", name, change }).verdict
}

const OWN: &str = "push = 'refs/heads/aifo/*'\ncreate = true\nupdate = true\nthen = 'allow'";

#[test]
fn a_push_is_asked_unless_a_rule_says_otherwise() {
    use PushChange::{Create, Delete, Force, Update};
    let judge = judge(&[OWN], &[]);
    for change in [Create, Update] {
        assert_eq!(verdict(&judge, "refs/heads/aifo/x/y", change), Verdict::Allow);
        assert_eq!(verdict(&judge, "refs/heads/main", change), Verdict::Ask);
        assert_eq!(verdict(&judge, "refs/heads/aifo", change), Verdict::Ask);
    }
    for change in [Delete, Force] {
        assert_eq!(verdict(&judge, "refs/heads/aifo/x", change), Verdict::Ask);
    }
    assert!(!judge.is_empty());
}

#[test]
fn the_narrowest_rule_decides_then_the_stricter() {
    use PushChange::Create;
    let main = "push = ['refs/heads/main', 'refs/tags/*']\ncreate = true\nthen = 'deny'";
    let all = "push = 'refs/*'\ncreate = true\nthen = 'allow'";
    let here = "push = 'refs/*'\nrepository = 'o/*'\ncreate = true\nthen = 'ask'";
    let of = |users: &[&str], name| verdict(&judge(users, &[]), name, Create);
    assert_eq!(of(&[main, all], "refs/tags/v1"), Verdict::Deny);
    assert_eq!(of(&[all, main], "refs/heads/x"), Verdict::Allow);
    assert_eq!(of(&[all, here], "refs/heads/x"), Verdict::Ask);
    let there = here.replace("o/*", "other/*");
    assert_eq!(of(&[all, &there], "refs/heads/x"), Verdict::Allow);
    assert_eq!(of(&[all, &all.replace("allow", "deny")], "refs/heads/x"), Verdict::Deny);
}

#[test]
fn a_workspace_only_tightens() {
    use PushChange::Create;
    let deny = OWN.replace("allow", "deny");
    let tight = judge(&[OWN], &[&deny]);
    assert_eq!(verdict(&tight, "refs/heads/aifo/x", Create), Verdict::Deny);
    let loose = judge(&[&deny], &[&OWN.replace("allow", "ask")]);
    assert_eq!(verdict(&loose, "refs/heads/aifo/x", Create), Verdict::Deny);
}

#[test]
fn invalid_rules_have_a_reason() {
    for (text, expected) in [
        ("push = 'refs/heads/x'\nthen = 'deny'", "none of create"),
        ("push = 'main'\ncreate = true\nthen = 'deny'", "begins with 'refs/'"),
        ("create = true\nthen = 'deny'", "begins with 'refs/'"),
        ("push = 'refs/x'\nrun = 'git push'\ncreate = true\nthen = 'deny'", "a condition of calls"),
        ("push = 'refs/x'\ncreate = true\nnet = 'none'", "a condition of calls"),
        ("push = 'refs/x'\ncreate = true", "neither 'then'"),
    ] {
        let error = Judge::default().add(&rules(&[text]), RuleOrigin::User).unwrap_err().1;
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}

#[test]
fn only_rules_on_the_same_pushes_contradict() {
    let doubts = |texts: &[&str]| {
        let rules: Vec<RuleText> = rules(texts).into_iter().map(|(rule, _)| rule).collect();
        rule_doubts(&rules)
    };
    let deny = OWN.replace("allow", "deny");
    assert_eq!(doubts(&[OWN, &deny.replace("aifo", "main")]), []);
    assert_eq!(doubts(&[OWN, &deny.replace("update", "force")]), []);
    assert_eq!(doubts(&[OWN, &deny]), [(1, RuleDoubt::Contradicts(0))]);
}
