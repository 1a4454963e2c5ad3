//! Requests from the golden transcripts.

use std::fs;
use std::path::Path;

/// The client bytes of the golden transcripts, with this token.
pub(crate) fn requests(token: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let entries = fs::read_dir(&dir).expect("the transcripts are beside the suites");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    files.sort();
    let request = |file| {
        let text = fs::read_to_string(file).expect("a transcript is text");
        let sent: String = text.lines().filter_map(|line| line.strip_prefix("> ")).collect();
        unescape(&sent.replace("{token}", token))
    };
    files.iter().map(request).collect()
}

/// Decodes the transcripts' escapes, those of a Rust byte string.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let (byte, used) = match escape.as_bytes() {
            [b'r', ..] => (b'\r', 1),
            [b'n', ..] => (b'\n', 1),
            [b'0', ..] => (0, 1),
            [b'x', ..] => (u8::from_str_radix(&escape[1..3], 16).expect("two hex digits"), 3),
            _ => panic!("unknown escape in {text:?}"),
        };
        bytes.push(byte);
        rest = &escape[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Replaces every `from` by `to` of the same length.
pub(crate) fn replace(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    for start in 0..bytes.len() {
        if bytes[start..].starts_with(from) {
            bytes[start..start + to.len()].copy_from_slice(to);
        }
    }
    bytes
}
