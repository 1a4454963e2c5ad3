//! Configuration of a repository.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A word of a value, which may name a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) path: PathBuf,
    /// It can name a directory: it has a `/`, or its key ends with `path` or `file`.
    pub(super) is_path: bool,
    /// Its key is `path`, so it may be configuration too.
    pub(super) is_included: bool,
}

/// Returns the words of all values.
pub(super) fn words(config: &[u8]) -> Vec<Word> {
    let config = without_branches(config);
    let words = config.split(|byte| *byte == b'\n').flat_map(|line| {
        let mut sides = line.splitn(2, |byte| *byte == b'=');
        let (key, value) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        let key = key.trim_ascii().to_ascii_lowercase();
        let names_path = key.ends_with(b"path") || key.ends_with(b"file");
        let words = value.split(|byte| b" \t\r\"'`;|&<>()$!:=".contains(byte));
        // With spaces in it.
        let whole = value.trim_ascii();
        let whole =
            whole.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(whole);
        let words = words.chain([whole]).filter(|word| !word.is_empty());
        words.map(move |word| Word {
            path: PathBuf::from(OsStr::from_bytes(word)),
            is_path: names_path || word.contains(&b'/'),
            is_included: key == b"path",
        })
    });
    words.collect()
}

/// Leaves out the settings of branches that git writes often: a remote that the configuration declares,
/// the branch there, and keys with a `-`, which are of other programs. What git could read in another way
/// is kept.
pub(super) fn without_branches(config: &[u8]) -> Vec<u8> {
    let lines = || config.split_inclusive(|byte| *byte == b'\n');
    let remote = |line: &'_ [u8]| {
        let name = line.trim_ascii().strip_prefix(b"[remote \"")?.strip_suffix(b"\"]")?;
        Some(name.to_owned())
    };
    let remotes: BTreeSet<_> = lines().filter_map(remote).chain([b".".to_vec()]).collect();
    let (mut is_branch, mut is_continued) = (false, false);
    let kept = lines().filter(|line| {
        let line = line.trim_ascii();
        // After a backslash it is a part of the value before.
        let is_kept = if is_continued {
            true
        } else if line.starts_with(b"[") {
            is_branch = is_branch_header(line);
            !is_branch
        } else {
            !is_branch || !is_harmless(line, &remotes)
        };
        is_continued = is_kept && line.ends_with(b"\\");
        is_kept
    });
    kept.collect::<Vec<_>>().concat()
}

/// Returns whether a line in the section of a branch leads git to nothing new.
fn is_harmless(line: &[u8], remotes: &BTreeSet<Vec<u8>>) -> bool {
    let mut sides = line.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
    let (Some(key), value) = (sides.next(), sides.next().unwrap_or_default()) else { return true };
    let is_plain = !value.iter().any(|byte| b"\"\\#;".contains(byte));
    is_plain
        && match key.to_ascii_lowercase().as_slice() {
            b"" => true,
            b"remote" | b"pushremote" => remotes.contains(value),
            b"merge" => value.starts_with(b"refs/"),
            b"rebase" => true,
            key => key.contains(&b'-'),
        }
}

/// Returns whether a line is only the header of a branch's section. Another section may follow on it.
fn is_branch_header(line: &[u8]) -> bool {
    let name = line.strip_prefix(b"[branch \"").and_then(|rest| rest.strip_suffix(b"\"]"));
    name.is_some_and(|name| !name.iter().any(|byte| matches!(byte, b'"' | b'\\')))
}
