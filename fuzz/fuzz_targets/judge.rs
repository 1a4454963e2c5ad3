//! The judge about any argument list and any shell text.
//!
//! An input is an argument list, separated by NUL. Its first word is also shell text.

#![no_main]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use aifo_policy::{
    AccessRequest, Judge, JudgedCall, RequestedCommand, RuleOrigin, RuleText, Run, RunWord,
    Verdict, default_rules,
};
use libfuzzer_sys::fuzz_target;

static JUDGE: LazyLock<Judge> = LazyLock::new(|| {
    let mut judge = Judge::default();
    judge.add_defaults();
    judge
});

/// The same rules in another order.
static REVERSED: LazyLock<Judge> = LazyLock::new(|| {
    let rules: Vec<_> = default_rules().iter().rev().cloned().collect();
    let mut judge = Judge::default();
    judge.add(&rules, RuleOrigin::Default).unwrap_or_else(|(_, error)| panic!("{error}"));
    judge
});

/// Rules that allow requests with each of [`TOOLS`].
static REQUESTS: LazyLock<Judge> = LazyLock::new(|| {
    let tools = TOOLS.map(|tool| String::from_utf8_lossy(tool).into_owned()).to_vec();
    let run = Run::Words(vec![RunWord::Any(tools)]);
    let (kind, then) = (Some(RunWord::One("*".to_owned())), Some(Verdict::Allow));
    let rule = RuleText { run, kind, then, ..RuleText::default() };
    let mut judge = Judge::default();
    judge
        .add(&[(rule, "rule".to_owned())], RuleOrigin::User)
        .unwrap_or_else(|(_, error)| panic!("{error}"));
    judge
});

/// Tools that a shell cannot take for a word of its own.
const TOOLS: [&[u8]; 6] = [b"git", b"rm", b"npm", b"cargo", b"curl", b"docker"];
/// The bytes that stand for unknown text in the judge.
const RESERVED: std::ops::RangeInclusive<u8> = 1..=4;

fuzz_target!(|data: &[u8]| {
    let start = Instant::now();
    let argv: Vec<Vec<u8>> = data.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    let verdict = verdict(&JUDGE, &argv);
    assert_eq!(self::verdict(&REVERSED, &argv), verdict, "order");
    if data.iter().any(|byte| RESERVED.contains(byte)) {
        return;
    }
    // A wrapper hides nothing.
    for wrapper in [&["env"][..], &["nice"], &["timeout", "5"], &["sudo"], &["ssh", "host", "--"]] {
        let mut wrapped: Vec<Vec<u8>> =
            wrapper.iter().map(|word| word.as_bytes().to_vec()).collect();
        let is_option = |word: &Vec<u8>| word.starts_with(b"-") || word.contains(&b'=');
        if argv.first().is_some_and(is_option) {
            break;
        }
        let is_shell = wrapper.first() == Some(&"ssh");
        wrapped.extend(argv.iter().map(|word| if is_shell { quoted(word) } else { word.clone() }));
        assert!(self::verdict(&JUDGE, &wrapped) >= verdict, "{wrapper:?}");
    }
    // An argument that is quoted for a shell is the same argument.
    let text: Vec<Vec<u8>> = argv.iter().map(|word| quoted(word)).collect();
    let shell = [b"sh".to_vec(), b"-c".to_vec(), text.join(&b' ')];
    let of_text = self::verdict(&JUDGE, &shell);
    assert!(of_text >= verdict, "sh -c");
    if argv.first().is_some_and(|tool| TOOLS.contains(&tool.as_slice())) {
        assert_eq!(of_text, verdict, "quoted");
    }
    // Another rule that denies loosens nothing.
    if let Some(stricter) = stricter(&argv) {
        assert!(self::verdict(&stricter, &argv) >= verdict, "stricter");
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let command = RequestedCommand::Text(text.to_owned());
        let request = AccessRequest { command: Some(&command), ..AccessRequest::default() };
        JUDGE.explain_request(&request);
        let is_allowed = REQUESTS.judge_request(&request).verdict == Verdict::Allow;
        let is_plain = |byte: &u8| !matches!(byte, b'\'' | b'"' | b'\\' | b'\n' | b'$');
        let plain: Vec<u8> = data.iter().copied().filter(is_plain).collect();
        let names = |tool: &&[u8]| plain.windows(tool.len()).any(|it| it == *tool);
        assert!(!is_allowed || TOOLS.iter().any(names), "a command of no rule is allowed");
    }
    assert!(start.elapsed() < Duration::from_secs(2), "took {:?}", start.elapsed());
});

fn quoted(word: &[u8]) -> Vec<u8> {
    let mut text = b"'".to_vec();
    word.iter().for_each(|byte| match byte {
        b'\'' => text.extend(b"'\\''"),
        byte => text.push(*byte),
    });
    text.push(b'\'');
    text
}

/// Returns a judge with a further rule on this tool.
fn stricter(argv: &[Vec<u8>]) -> Option<Judge> {
    let words: Vec<String> =
        argv.iter().take(2).filter_map(|word| String::from_utf8(word.clone()).ok()).collect();
    let (tool, with) = words.split_first()?;
    let run = Run::Words(vec![RunWord::One(tool.clone())]);
    let rule =
        RuleText { run, with: with.to_vec(), then: Some(Verdict::Deny), ..RuleText::default() };
    let mut judge = JUDGE.clone();
    judge.add(&[(rule, "rule".to_owned())], RuleOrigin::User).ok()?;
    Some(judge)
}

fn verdict(judge: &Judge, argv: &[Vec<u8>]) -> Verdict {
    let workspace = [b"/w".to_vec()];
    judge.judge(&JudgedCall { argv, directory: b"/w", workspace: &workspace }).verdict
}
