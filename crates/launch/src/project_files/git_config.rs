//! Configuration of a repository.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Returns the words of values that can be paths: those with a `/`, and all of a key that ends with
/// `path` or `file`.
pub(super) fn possible_paths(config: &[u8]) -> Vec<PathBuf> {
    let config = without_branches(config);
    let words = config.split(|byte| *byte == b'\n').flat_map(|line| {
        let mut sides = line.splitn(2, |byte| *byte == b'=');
        let (key, value) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        let key = key.trim_ascii_end().to_ascii_lowercase();
        let is_path = key.ends_with(b"path") || key.ends_with(b"file");
        let words = value.split(|byte| b" \t\r\"'`;|&<>()$!:=".contains(byte));
        // With spaces in it.
        let whole = value.trim_ascii();
        let whole =
            whole.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(whole);
        let words = words.chain([whole]);
        words.filter(move |word| !word.is_empty() && (is_path || word.contains(&b'/')))
    });
    words.map(|word| PathBuf::from(OsStr::from_bytes(word))).collect()
}

/// Leaves out the sections that name where a branch is pushed to: git writes them often. A line that
/// git could read as part of another section is kept.
pub(super) fn without_branches(config: &[u8]) -> Vec<u8> {
    let (mut is_kept, mut is_continued) = (true, false);
    let lines = config.split_inclusive(|byte| *byte == b'\n').filter(|line| {
        let line = line.trim_ascii();
        // After a backslash it is a part of the value before.
        if line.starts_with(b"[") && !(is_kept && is_continued) {
            is_kept = !is_branch_header(line);
        }
        is_continued = line.ends_with(b"\\");
        is_kept
    });
    lines.collect::<Vec<_>>().concat()
}

/// Returns whether a line is only the header of a branch's section. Another section may follow on it.
fn is_branch_header(line: &[u8]) -> bool {
    let name = line.strip_prefix(b"[branch \"").and_then(|rest| rest.strip_suffix(b"\"]"));
    name.is_some_and(|name| !name.iter().any(|byte| matches!(byte, b'"' | b'\\')))
}
