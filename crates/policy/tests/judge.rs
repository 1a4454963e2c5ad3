//! The judge with the default rules: spellings of judged calls, harmless calls, and the order of rules.
//!
//! Proves `spec/rules.md#normal-form`.

use aifo_policy::{AskedCall, Judge, JudgedCall, Judgement, RuleOrigin, Verdict, default_rules};

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
    judge.add(&default_rules(), RuleOrigin::Default).unwrap();
}

#[test]
fn no_spelling_of_a_judged_call_passes() {
    assert_asked(include_str!("judged.txt"), 250);
}

#[test]
fn no_published_class_of_attack_passes() {
    assert_asked(include_str!("attacks.txt"), 1000);
}

/// A row: a call that a user has allowed, and the calls that this covers, with their directories below the
/// workspace.
#[test]
fn an_allowed_call_covers_the_judged_calls_that_it_surely_runs() {
    const F: &str = "git push -f";
    let rows: [(&str, &[(&str, &str)]); 40] = [
        ("env git push -f", &[(F, "")]),
        ("env A=1 B=2 git push -f", &[(F, "")]),
        ("env -C sub git push -f", &[(F, "/sub")]),
        ("timeout -s KILL 5 git push -f", &[(F, "")]),
        ("nice -n 5 nohup stdbuf -oL git push -f", &[(F, "")]),
        ("sh -c 'git push -f'", &[(F, "")]),
        ("bash -lc 'cd sub && git push -f && echo done'", &[(F, "/sub")]),
        (
            "bash -c 'make; git push -f a; git push -f b'",
            &[("git push -f a", ""), ("git push -f b", "")],
        ),
        ("sh -c 'git push -f; git push -f'", &[(F, "")]),
        ("env nice sh -c 'timeout 3 git push \"-f\"'", &[(F, "")]),
        ("sh -c 'git push -f origin \"a b\"'", &[("git push -f origin 'a b'", "")]),
        // No other call, and none that is allowed alone.
        (F, &[]),
        ("sh -c 'git status && git push'", &[]),
        ("env -C sub git status", &[]),
        // The agent PATH does not find it.
        ("env -i git push -f", &[]),
        ("env -u PATH git push -f", &[]),
        ("env -S 'git push -f'", &[]),
        ("env PATH=/usr/bin git push -f", &[]),
        ("sh -c 'PATH=/usr/bin; git push -f'", &[]),
        ("sh -c 'exec -c git push -f'", &[]),
        // As another user, on another machine, in another root, or by a tool that may not run it.
        ("sudo git push -f", &[]),
        ("ssh host git push -f", &[]),
        ("ssh host 'git push -f'", &[]),
        ("docker run x git push -f", &[]),
        ("chroot /x git push -f", &[]),
        ("env ssh host git push -f", &[("ssh host git push -f", "")]),
        ("sh -c 'ssh host git push -f'", &[("ssh host git push -f", "")]),
        ("mystery git push -f", &[]),
        ("tmux new git push -f", &[]),
        ("npx git push -f", &[]),
        // Its words or its directory are not known.
        ("sh -c 'git push -f $X'", &[]),
        ("sh -c 'git push -f \"$X\"'", &[]),
        ("sh -c 'git push -f *'", &[]),
        ("sh -c 'cd $X; git push -f'", &[]),
        ("sh -c 'cd sub; git push -f'", &[]),
        ("xargs git push -f", &[]),
        ("find . -exec git push -f {} +", &[]),
        ("git -c alias.x='!git push -f' x", &[]),
        ("git -c alias.x='push -f' x", &[]),
        ("env GIT_EDITOR='git push -f' git commit", &[]),
    ];
    let judge = judge();
    let workspace = [b"/home/me/project".to_vec()];
    let bytes = |line: &str| -> Vec<Vec<u8>> {
        let words = shlex::split(line).unwrap_or_else(|| panic!("{line}"));
        words.into_iter().map(String::into_bytes).collect()
    };
    for (line, expected) in rows {
        let argv = bytes(line);
        let call =
            JudgedCall { argv: &argv, directory: b"/home/me/project", workspace: &workspace };
        let covered = judge.covered(&call);
        let expected: Vec<_> = expected
            .iter()
            .map(|(line, sub)| {
                AskedCall::new(bytes(line), format!("/home/me/project{sub}").into_bytes())
            })
            .collect();
        assert_eq!(covered, expected, "{line}");
    }
    let many =
        format!("sh -c '{}'", (0..100).map(|n| format!("git push -f {n};")).collect::<String>());
    let argv = bytes(&many);
    let call = JudgedCall { argv: &argv, directory: b"/home/me/project", workspace: &workspace };
    assert_eq!(judge.covered(&call).len(), 16);
}

#[test]
fn no_spelling_by_options_wrappers_and_settings_passes() {
    assert_asked(include_str!("spellings.txt"), 800);
}

#[test]
fn no_call_of_pipelines_and_transcripts_is_asked() {
    assert_allowed(include_str!("calls.txt"), 400);
}

#[test]
fn no_harmless_call_is_asked() {
    assert_allowed(include_str!("harmless.txt"), 200);
}

#[test]
fn no_call_of_daily_work_is_asked() {
    assert_allowed(include_str!("daily.txt"), 600);
}

#[track_caller]
fn assert_asked(text: &str, least: usize) {
    let judge = judge();
    let calls = calls(text);
    assert!(calls.len() >= least, "{}", calls.len());
    let passed: Vec<_> = calls
        .iter()
        .filter(|(_, argv)| judged(&judge, argv).verdict == Verdict::Allow)
        .map(|(line, _)| line)
        .collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[track_caller]
fn assert_allowed(text: &str, least: usize) {
    let judge = judge();
    let calls = calls(text);
    assert!(calls.len() >= least, "{}", calls.len());
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

/// The workspace has `out -> /etc`, `up -> ../other`, `in -> src`, `back -> /home/me/project/src`, `tmp -> /tmp/x`,
/// `loop -> loop` and `deep/out -> ../out`.
fn with_links() -> Judge {
    judge().with_links(|path| {
        let target: &[u8] = match path {
            b"out" => b"/etc",
            b"up" => b"../other",
            b"in" => b"src",
            b"back" => b"/home/me/project/src",
            b"tmp" => b"/tmp/x",
            b"loop" => b"loop",
            b"deep/out" => b"../out",
            _ => return None,
        };
        Some(target.to_vec())
    })
}

#[test]
fn links_in_paths_lead_where_they_point() {
    let judge = with_links();
    let rows = [
        ("rm -rf out/", Verdict::Ask),
        ("rm -rf out/.", Verdict::Ask),
        ("rm -rf out/x", Verdict::Ask),
        ("rm -rf ./out//x", Verdict::Ask),
        ("rm -rf src/../out/x", Verdict::Ask),
        ("rm -rf out/../x", Verdict::Ask),
        ("rm -rf up/x", Verdict::Ask),
        ("rm -rf deep/out/x", Verdict::Ask),
        ("rm -rf in/../../x", Verdict::Ask),
        ("rm -rf loop/x", Verdict::Ask),
        ("rm -rf /home/me/project/out/x", Verdict::Ask),
        ("sh -c 'cd out && rm -rf x'", Verdict::Ask),
        ("sh -c 'cd deep; rm -rf out/x'", Verdict::Ask),
        ("find out/ -delete", Verdict::Ask),
        ("docker run -v ./out:/x y", Verdict::Ask),
        ("env rm -rf out/x", Verdict::Ask),
        ("rm -rf in/..", Verdict::Ask),
        ("rm out", Verdict::Allow),
        ("rm -rf up", Verdict::Allow),
        ("rm -rf in/x", Verdict::Allow),
        ("rm -rf back/x", Verdict::Allow),
        ("rm -rf tmp/y", Verdict::Allow),
        ("rm -rf src/x", Verdict::Allow),
        ("docker run -v ./in:/x y", Verdict::Allow),
    ];
    for (line, expected) in rows {
        let argv: Vec<Vec<u8>> =
            shlex::split(line).unwrap().into_iter().map(String::into_bytes).collect();
        assert_eq!(judged(&judge, &argv).verdict, expected, "{line}");
    }
}

/// A time that grows with the square of the length would be minutes here.
#[test]
fn long_calls_take_little_time() {
    let judge = judge();
    let start = std::time::Instant::now();
    let texts =
        ["-v $X ", "cd x; ", ". x; ", "{a,b} ", "x | ", "x > y; sh y; ", "$(x) ", "D=a; $D; "];
    for text in texts.map(|text| text.repeat(50_000 / text.len())) {
        let text = format!("printf x; {text}");
        judged(&judge, &[b"sh".to_vec(), b"-c".to_vec(), text.into_bytes()]);
    }
    let nested = format!("{}ls{}", "x() { ".repeat(2000), "; }".repeat(2000));
    let called = format!("f() {{ sh <<E\n{}E\n}}; {}", "ls\n".repeat(9000), "f; ".repeat(1000));
    let moved = format!("trap ls EXIT; eval :; {}", "cd a; eval 'a=x'; ".repeat(3000));
    for text in [nested, called, moved] {
        judged(&judge, &[b"sh".to_vec(), b"-c".to_vec(), text.into_bytes()]);
    }
    for word in ["git", "env", "-v", "--x", "xargs", "{}"] {
        let argv: Vec<Vec<u8>> =
            ["wrapper", "xargs", "-I{}"].map(|it| it.as_bytes().to_vec()).into();
        let words = std::iter::repeat_n(word.as_bytes().to_vec(), 20_000);
        judged(&judge, &argv.into_iter().chain(words).collect::<Vec<_>>());
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Returns the verdict with the default rules and those of a user's file.
#[track_caller]
fn verdict_with(rules: &str, line: &str) -> Verdict {
    #[derive(serde::Deserialize)]
    struct File {
        rule: Vec<aifo_policy::RuleText>,
    }
    let file: File = toml::from_str(rules).unwrap();
    let rules: Vec<_> = file.rule.into_iter().map(|rule| (rule, "file".to_owned())).collect();
    let mut judge = judge();
    judge.add(&rules, RuleOrigin::User).unwrap();
    let argv = ["sh", "-c", line].map(|word| word.as_bytes().to_vec());
    judged(&judge, &argv).verdict
}

#[test]
fn a_default_rule_does_not_make_a_users_verdict_looser() {
    let deny = "[[rule]]\nrun = \"git push\"\nthen = \"deny\"";
    assert_eq!(verdict_with(deny, "git push -f"), Verdict::Deny);
    assert_eq!(verdict_with(deny, "git push"), Verdict::Deny);
    let tool = "[[rule]]\nrun = \"npm\"\nthen = \"deny\"";
    assert_eq!(verdict_with(tool, "npm publish"), Verdict::Deny);
    assert_eq!(verdict_with(tool, "npm publish --dry-run"), Verdict::Deny);
    let allow = "[[rule]]\nrun = \"git push\"\nwith = [\"--force\"]\nthen = \"allow\"";
    assert_eq!(verdict_with(allow, "git push -f"), Verdict::Allow);
    let wide = "[[rule]]\nrun = \"git\"\nthen = \"allow\"";
    assert_eq!(verdict_with(wide, "git push -f"), Verdict::Ask);
}

#[test]
fn a_condition_is_the_end_of_options_or_a_pattern_of_one() {
    let rule = |condition: &str| {
        format!("[[rule]]\nrun = \"git checkout\"\nwith = [\"{condition}\"]\nthen = \"deny\"")
    };
    assert_eq!(verdict_with(&rule("--"), "git checkout -- x"), Verdict::Deny);
    assert_eq!(verdict_with(&rule("--"), "git -C y checkout main -- x"), Verdict::Deny);
    assert_eq!(verdict_with(&rule("--"), "git checkout -b x"), Verdict::Allow);
    assert_eq!(verdict_with(&rule("--conf*"), "git checkout --conflict=diff3 x"), Verdict::Deny);
    assert_eq!(verdict_with(&rule("--conf*"), "git checkout -- x"), Verdict::Allow);
    let push = "[[rule]]\nrun = \"git push\"\nwith = [\"--set-up*\"]\nthen = \"deny\"";
    assert_eq!(verdict_with(push, "git push -qu origin x"), Verdict::Deny);
    assert_eq!(verdict_with(push, "git push -q origin x"), Verdict::Allow);
}

/// An option with a value that a table lacks, or has as a flag, would make its value a subcommand or hide one.
#[test]
fn options_of_current_versions_have_their_values() {
    let judge = judge();
    let workspace = [b"/home/me/project".to_vec()];
    let mut wrong = Vec::new();
    for line in include_str!("options.txt").lines().filter(|line| !line.starts_with('#')) {
        let (command, options) = line.split_once(": ").unwrap();
        for option in options.split(' ') {
            let words = command.split(' ').chain([option, "VALUE", "OPERAND"]);
            let argv: Vec<Vec<u8>> = words.map(|word| word.as_bytes().to_vec()).collect();
            let call =
                JudgedCall { argv: &argv, directory: b"/home/me/project", workspace: &workspace };
            let explained = judge.explain(&call);
            let is_value = explained.calls[0].to_uppercase().contains("=VALUE");
            if !is_value || explained.calls[0].contains(" VALUE") {
                wrong.push(format!("{command} {option}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_option_that_no_table_lists_hides_nothing() {
    let judge = judge();
    let calls = [
        "git push -f",
        "npm publish",
        "pnpm publish",
        "yarn npm publish",
        "cargo publish",
        "uv publish",
        "poetry publish",
        "gh repo delete x",
        "gh release create v1",
        "docker push x",
        "docker compose push",
        "docker run --privileged x",
        "docker run -v /:/x y",
        "podman run --pid=host x",
        "twine upload x",
        "env git push -f",
        "timeout 5 npm publish",
        "npx np",
        "uv run twine upload x",
        "xargs rm -rf /",
        "sudo rm -rf /etc",
        "kubectl exec x -- git push -f",
        "docker exec c git push -f",
    ];
    let mut passed = Vec::new();
    for call in calls {
        let words: Vec<&str> = call.split(' ').collect();
        for at in 1..words.len().min(3) {
            for option in [&["--brand-new"][..], &["--brand-new", "VALUE"], &["--brand-new=VALUE"]]
            {
                let words = [&words[..at], option, &words[at..]].concat();
                let argv: Vec<Vec<u8>> =
                    words.iter().map(|word| word.as_bytes().to_vec()).collect();
                if judged(&judge, &argv).verdict == Verdict::Allow {
                    passed.push(words.join(" "));
                }
            }
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
}

/// Each wish of a user is a rule or three, and holds in other spellings.
#[test]
fn wishes_of_users_are_rules() {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wish {
        says: String,
        rule: Vec<aifo_policy::RuleText>,
        allow: Vec<String>,
        #[serde(default)]
        ask: Vec<String>,
        #[serde(default)]
        deny: Vec<String>,
    }
    #[derive(serde::Deserialize)]
    struct File {
        wish: Vec<Wish>,
    }
    let file: File = toml::from_str(include_str!("wishes.toml")).unwrap();
    assert!(file.wish.len() >= 40, "{}", file.wish.len());
    let mut wrong = Vec::new();
    for wish in file.wish {
        assert!(wish.rule.len() <= 3, "{}", wish.says);
        let rules: Vec<_> = wish.rule.into_iter().map(|rule| (rule, wish.says.clone())).collect();
        let mut judge = judge();
        judge.add(&rules, RuleOrigin::User).unwrap();
        let lists =
            [(wish.allow, Verdict::Allow), (wish.ask, Verdict::Ask), (wish.deny, Verdict::Deny)];
        for (calls, expected) in lists {
            for line in calls {
                let words = shlex::split(&line).unwrap();
                let argv: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
                let found = judged(&judge, &argv).verdict;
                if found != expected {
                    wrong.push(format!("{}: {line}: {found:?}, not {expected:?}", wish.says));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

mod order {
    use super::*;
    use aifo_policy::{CallNetwork, RuleText, Run};
    use proptest::prelude::*;

    fn words(options: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        proptest::sample::subsequence(options, 0..=options.len().min(2))
            .prop_map(|words| words.into_iter().map(str::to_owned).collect())
    }

    fn rule() -> impl Strategy<Value = (RuleText, String)> {
        let runs = ["git", "git push", "git push origin", "*", "npm publish", "rm"];
        let (ask, none) = (Some(Verdict::Ask), Some(CallNetwork::None));
        let effects = [
            (Some(Verdict::Allow), None),
            (ask, None),
            (Some(Verdict::Deny), None),
            (None, none),
            (ask, none),
            (Some(Verdict::Allow), none),
        ];
        (
            prop::sample::select(runs.to_vec()),
            words(&["--force", "-u", "main", "+*"]),
            words(&["--force", "origin"]),
            words(&["--dry-run", "-f"]),
            any::<bool>(),
            prop::sample::select(effects.to_vec()),
            "[a-c]",
        )
            .prop_map(|(run, with, all, without, outside, (then, net), because)| {
                let run = Run::Text(run.to_owned());
                let rule = RuleText {
                    run,
                    with,
                    all,
                    without,
                    outside,
                    then,
                    net,
                    because,
                    ..RuleText::default()
                };
                (rule, "x".to_owned())
            })
    }

    const CALLS: [&str; 8] = [
        "git push",
        "git push -f origin main",
        "git -C x push --forc origin +main",
        "git push --dry-run origin",
        "npm pub --dry-run",
        "rm -rf / x",
        "sh -c 'git push $X; rm x'",
        "sh -c 'git push \"$X\" origin | $Y'",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn the_order_of_rules_never_matters(
            rules in prop::collection::vec(rule(), 0..8),
            seed in prop::collection::vec(any::<u32>(), 8),
        ) {
            let judge_of = |rules: &[(RuleText, String)]| {
                let mut judge = Judge::default();
                judge.add(rules, RuleOrigin::User).unwrap();
                judge
            };
            let mut shuffled: Vec<_> = seed.iter().zip(rules.clone()).collect();
            shuffled.sort_by_key(|(key, _)| **key);
            let shuffled: Vec<_> = shuffled.into_iter().map(|(_, rule)| rule).collect();
            let (a, b) = (judge_of(&rules), judge_of(&shuffled));
            for call in CALLS {
                let argv: Vec<Vec<u8>> =
                    shlex::split(call).unwrap().into_iter().map(String::into_bytes).collect();
                prop_assert_eq!(judged(&a, &argv), judged(&b, &argv), "{}", call);
            }
        }

        #[test]
        fn a_rule_on_the_network_never_loosens(
            rules in prop::collection::vec(rule(), 0..8),
            (mut added, source) in rule(),
            is_workspaces in any::<bool>(),
        ) {
            let mut before = Judge::default();
            before.add(&rules, RuleOrigin::User).unwrap();
            (added.then, added.net) = (None, Some(CallNetwork::None));
            let mut after = before.clone();
            let added = [(added, source)];
            match is_workspaces {
                true => after.restrict(&added).unwrap(),
                false => after.add(&added, RuleOrigin::User).unwrap(),
            }
            for call in CALLS {
                let argv: Vec<Vec<u8>> =
                    shlex::split(call).unwrap().into_iter().map(String::into_bytes).collect();
                let (before, after) = (judged(&before, &argv), judged(&after, &argv));
                prop_assert_eq!(before.verdict, after.verdict, "{}", call);
                prop_assert_eq!(&before.rule, &after.rule, "{}", call);
                prop_assert!(before.no_network.is_none() || after.no_network.is_some(), "{}", call);
            }
        }
    }
}
