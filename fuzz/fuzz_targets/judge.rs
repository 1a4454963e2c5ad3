//! The judge about any argument list and any shell text.
//!
//! An input is an argument list, separated by NUL. Its first word is also shell text.

#![no_main]

use std::sync::LazyLock;

use aifo_policy::{Judge, JudgedCall, Verdict, import_claude, import_codex};
use libfuzzer_sys::fuzz_target;

static JUDGE: LazyLock<Judge> = LazyLock::new(|| {
    let mut judge = Judge::default();
    judge.add_defaults();
    judge
});

fuzz_target!(|data: &[u8]| {
    let argv: Vec<Vec<u8>> = data.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    let verdict = verdict(&argv);
    // A wrapper hides nothing.
    for wrapper in [&["env"][..], &["nice"], &["timeout", "5"], &["sudo"]] {
        let mut wrapped: Vec<Vec<u8>> =
            wrapper.iter().map(|word| word.as_bytes().to_vec()).collect();
        let is_option = |word: &Vec<u8>| word.starts_with(b"-") || word.contains(&b'=');
        if argv.first().is_some_and(is_option) {
            break;
        }
        wrapped.extend(argv.iter().cloned());
        assert!(self::verdict(&wrapped) >= verdict, "{wrapper:?}");
    }
    // An argument that is quoted for a shell is the same argument.
    let mut text = Vec::new();
    for word in &argv {
        text.push(b'\'');
        word.iter().for_each(|byte| match byte {
            b'\'' => text.extend(b"'\\''"),
            byte => text.push(*byte),
        });
        text.extend(b"' ");
    }
    let quoted = [b"sh".to_vec(), b"-c".to_vec(), text];
    assert!(self::verdict(&quoted) >= verdict);
    if let Ok(text) = std::str::from_utf8(data) {
        let workspace = [b"/w".to_vec()];
        JUDGE.judge_text(text, b"/w", &workspace);
        let _ = import_codex(text);
        let _ = import_claude(text);
    }
});

fn verdict(argv: &[Vec<u8>]) -> Verdict {
    let workspace = [b"/w".to_vec()];
    JUDGE.judge(&JudgedCall { argv, directory: b"/w", workspace: &workspace }).verdict
}
