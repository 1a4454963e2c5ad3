//! Configuration of git.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The user's own configuration.
#[derive(Debug, Default)]
pub(super) struct UserConfig {
    pub(super) home: PathBuf,
    pub(super) files: Vec<PathBuf>,
}

impl UserConfig {
    pub(super) fn new(variable: impl Fn(&'static str) -> Option<OsString>) -> Self {
        let variable = |name| variable(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let Some(home) = variable("HOME") else { return UserConfig::default() };
        let directory = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let files = match variable("GIT_CONFIG_GLOBAL") {
            Some(file) => vec![file],
            None => vec![directory.join("git/config"), home.join(".gitconfig")],
        };
        UserConfig { home, files }
    }
}

/// A word of a value, which can be a path.
pub(super) struct Word {
    pub(super) path: PathBuf,
    /// It has a `/`, or its key ends with `path` or `file`. Another one can be a file: `sh x`.
    pub(super) is_path: bool,
    /// It can be a file that git reads, too.
    pub(super) is_include: bool,
}

/// Returns the words of all values.
pub(super) fn words(config: &[u8]) -> Vec<Word> {
    let mut found = Vec::new();
    // The key of a value that the next line continues.
    let mut continued = None;
    for line in config.split(|byte| *byte == b'\n') {
        let sides = line.iter().position(|byte| *byte == b'=').map(|at| line.split_at(at));
        let (key, value) = match (continued.take(), sides) {
            (Some(key), _) => (key, line),
            (None, Some((key, value))) => (key.trim_ascii_end().to_ascii_lowercase(), &value[1..]),
            (None, None) => continue,
        };
        let is_path = key.ends_with(b"path") || key.ends_with(b"file");
        let is_include = key.rsplit(|byte| b" \t]".contains(byte)).next() == Some(b"path");
        // With spaces in it.
        let whole = value.trim_ascii();
        let whole =
            whole.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(whole);
        let words = value.split(|byte| b" \t\r\"'`;|&<>()$!:=\\".contains(byte));
        for word in words.chain([whole]).filter(|word| !word.is_empty()) {
            let path = PathBuf::from(OsStr::from_bytes(word));
            found.push(Word { path, is_path: is_path || word.contains(&b'/'), is_include });
        }
        continued = value.trim_ascii_end().ends_with(b"\\").then_some(key);
    }
    found
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
