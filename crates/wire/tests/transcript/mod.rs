//! Reads the golden transcripts, `tests/transcripts/*.wire`.
//!
//! The client sends the lines `> bytes`, the server `< bytes`, escaped as in a Rust byte string;
//! `#` starts a comment. `{token}` is the session token and `{any N}` is N bytes of any value,
//! here zeros.

use std::path::Path;

/// The bytes in each direction.
pub(crate) struct Transcript {
    /// The file's name, without its extension.
    pub(crate) name: String,
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
}

/// Reads all transcripts of a directory, sorted by name.
pub(crate) fn read_all(directory: &Path) -> Vec<Transcript> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "wire"));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Transcript {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let line = fill(&line.replace("{token}", "TOKEN"));
        match line.split_at_checked(2) {
            Some(("> ", bytes)) => sent.extend(unescape(bytes)),
            Some(("< ", bytes)) => received.extend(unescape(bytes)),
            _ => assert!(line.is_empty() || line.starts_with('#'), "{name}: {line}"),
        }
    }
    Transcript { name, sent, received }
}

/// Replaces every `{any N}` by zeros.
fn fill(line: &str) -> String {
    let mut parts = line.split("{any ");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (count, rest) = part.split_once('}').expect("a closing brace");
        filled.push_str(&"\\0".repeat(count.parse().expect("a number of bytes")));
        filled.push_str(rest);
    }
    filled
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next().expect("an escape") {
                b'r' => b'\r',
                b'n' => b'\n',
                b't' => b'\t',
                b'0' => b'\0',
                b'x' => {
                    let mut digit = || char::from(bytes.next().unwrap()).to_digit(16).unwrap();
                    (digit() * 16 + digit()) as u8
                }
                same @ (b'\\' | b'"' | b'\'') => same,
                other => panic!("unknown escape \\{}", char::from(other)),
            },
            plain => plain,
        });
    }
    out
}
