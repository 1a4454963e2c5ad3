//! Arguments, byte for byte, and the tool name.

use std::ffi::OsString;

use crate::native::invocation::{FAKE, Invocation, SHELL, bytes};

pub(crate) fn calls() -> Vec<Invocation> {
    let args = |name: &str, args: Vec<OsString>| {
        let verb = OsString::from("args");
        Invocation::new(name, FAKE, std::iter::once(verb).chain(args))
    };
    let texts = |name: &str, texts: &[&str]| args(name, texts.iter().map(Into::into).collect());
    vec![
        texts("none", &[]),
        texts("words", &["one", "two", "three"]),
        texts("an empty one", &[""]),
        texts("empty ones between others", &["", "a", "", "", "b", ""]),
        texts("blanks and quotes", &[" ", "a b", "\t", "'", "\"", "\\", "`x`", "$HOME", "*", "~"]),
        texts("newlines", &["\n", "a\nb", "\r\n"]),
        texts("what looks like options", &["-", "--", "-h", "--help", "--version", "-c", "--x=y"]),
        texts("what looks like a form", &["a=b&c=d", "%00", "%41", "+", "a b", "=", "&"]),
        texts("letters of many tongues", &["größe", "日本語", "🦀", "\u{200d}", "\u{feff}"]),
        args("every byte but NUL", vec![bytes((1..=255).collect::<Vec<u8>>())]),
        args("each byte but NUL", (1..=255).map(|byte| bytes([byte])).collect()),
        args("no text at all", vec![bytes(*b"\xff\xfe\x80"), bytes(*b"\xc3\x28")]),
        args("100 KiB in one", vec![bytes(vec![b'x'; 100 << 10])]),
        args("the longest the kernel takes", vec![bytes(vec![b'y'; (128 << 10) - 1])]),
        args("1,000", (0..1000).map(|number| number.to_string().into()).collect()),
        args("10,000 empty ones", vec![OsString::new(); 10_000]),
        args("800 KiB in all", vec![bytes(vec![b'z'; 100 << 10]); 8]),
        Invocation::fake("the name typed", ["argv0"]),
        Invocation::new("the name typed, printed by a shell", SHELL, ["-c", "echo $0 $#"]),
        Invocation::new("a shell's own", SHELL, ["-c", "echo \"$0\" \"$@\"", "me", "1", "2"]),
        Invocation::new("an option for its own version", FAKE, ["--version"]),
        Invocation::python("python's", "import sys; print(sys.argv, sys.orig_argv)"),
        Invocation::node("node's", "console.log(process.argv0, process.argv.slice(1))"),
    ]
}
