//! Requests of agents, as rules see them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::glob::is_unknown;
use super::place::Place;
use super::script::{RESERVED, Script};
use super::table::JudgedTools;
use super::unwrap::Parts;
use crate::directory::normalise;

/// A request of an agent, without titles and other free text.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// Its kind; `""` means `other`.
    pub kind: &'a str,
    /// The command, if it has one.
    pub command: Option<&'a RequestedCommand>,
    /// Every path of it, as the agent sent it, and with links resolved where possible.
    pub paths: &'a [&'a str],
    /// The workspace's absolute paths, any of which an agent may use. Rules' paths are relative to it.
    pub workspace: &'a [PathBuf],
    /// The directory for the agent's relative paths.
    pub cwd: &'a Path,
}

/// The command that an agent requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedCommand {
    /// Shell text.
    Text(String),
    /// A program with its arguments.
    Words(Vec<String>),
    /// Several texts, of which one will run.
    AnyOf(Vec<String>),
}

/// A simple command that runs as it is read.
pub(super) struct SureCommand {
    pub(super) words: Vec<Vec<u8>>,
    /// The possible working directories.
    pub(super) directories: Vec<Vec<u8>>,
    /// True if the request is nothing else.
    pub(super) is_alone: bool,
}

/// The kinds of requests in ACP. An agent may send other kinds.
const KINDS: [&str; 10] = [
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
];

/// Returns whether a rule on this kind alone is about requests with a command, too.
pub fn covers_commands(kind: &str) -> bool {
    !KINDS.contains(&kind) || ["execute", "other"].contains(&kind)
}

/// Returns the words of `--yes-to`: the kinds of ACP, and `all`.
pub fn request_words() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().chain(["all"])
}

/// Kinds of requests that only affect the files that they name.
pub const FILE_KINDS: [&str; 5] = ["read", "edit", "delete", "move", "search"];

pub(super) fn is_file_kind(kind: &str) -> bool {
    FILE_KINDS.contains(&kind)
}

impl AccessRequest<'_> {
    pub(super) fn kind(&self) -> &str {
        if self.kind.is_empty() { "other" } else { self.kind }
    }

    /// Returns whether a path is the rule's path or below it.
    pub(super) fn is_below(&self, path: &str, rule: &str) -> bool {
        let Some(workspace) = self.workspace.first() else { return false };
        match (self.resolve(path, self.cwd), self.resolve(rule, workspace)) {
            (Some(path), Some(rule)) => path.starts_with(rule),
            _ => false,
        }
    }

    /// Makes a path absolute, with the workspace's first path as its prefix if it is in the workspace.
    /// `None` for URLs and paths with `~`.
    fn resolve(&self, path: &str, base: &Path) -> Option<PathBuf> {
        if path.starts_with('~') || path.contains("://") {
            return None;
        }
        let path = normalised(&base.join(path))?;
        let mut roots = self.workspace.iter().filter_map(|name| normalised(name));
        let rest = roots.find_map(|name| path.strip_prefix(name).ok().map(Path::to_owned));
        match (rest, self.workspace.first()) {
            (Some(rest), Some(first)) => Some(normalised(first)?.join(rest)),
            _ => Some(path),
        }
    }
}

impl Default for AccessRequest<'_> {
    /// A request of kind `other` without a workspace, so no rule on paths matches.
    fn default() -> Self {
        AccessRequest { kind: "", command: None, paths: &[], workspace: &[], cwd: Path::new("/") }
    }
}

/// Removes `.` and `..` from an absolute path.
fn normalised(path: &Path) -> Option<PathBuf> {
    let plain = normalise(path.as_os_str().as_bytes()).ok()?;
    Some(PathBuf::from(OsString::from_vec(plain)))
}

impl RequestedCommand {
    /// Returns the words, if the command is exactly one program with its arguments. A shell that only runs such a
    /// text is that program.
    pub fn single(&self) -> Option<Vec<String>> {
        let [only] = &self.sure(&Place::new(b"/", &[]))?[..] else { return None };
        let words = only.words.iter().map(|word| String::from_utf8(word.clone()).ok());
        words.collect::<Option<_>>().filter(|_| only.is_alone)
    }

    /// Returns the simple commands. `None` if a part of them is known only when it runs, or has redirections or
    /// variables.
    pub(super) fn sure(&self, place: &Place<'_>) -> Option<Vec<SureCommand>> {
        let mut found = Vec::new();
        let is_sure = match self {
            RequestedCommand::Text(text) => text_is_sure(text.as_bytes(), place, true, &mut found),
            RequestedCommand::Words(words) => {
                let words: Vec<_> = words.iter().map(|word| word.clone().into_bytes()).collect();
                words_are_sure(words, place, true, &mut found)
            }
            RequestedCommand::AnyOf(_) => false,
        };
        is_sure.then_some(found)
    }

    /// Returns its calls, text by text.
    pub(super) fn parts<'a>(&self, place: &Place<'a>) -> Vec<Parts<'a>> {
        let of_text =
            |text: &String| Parts::of_text(text.as_bytes(), place.clone(), JudgedTools::default());
        match self {
            RequestedCommand::Text(text) => vec![of_text(text)],
            RequestedCommand::AnyOf(texts) => texts.iter().map(of_text).collect(),
            RequestedCommand::Words(words) => {
                let argv: Vec<_> = words.iter().map(|word| word.clone().into_bytes()).collect();
                vec![Parts::of_call(&argv, place.clone(), JudgedTools::default())]
            }
        }
    }
}

/// Reads the simple commands in a text. Returns false if one is not known.
fn text_is_sure(
    text: &[u8],
    place: &Place<'_>,
    is_alone: bool,
    found: &mut Vec<SureCommand>,
) -> bool {
    if text.iter().any(|byte| RESERVED.contains(byte)) {
        return false;
    }
    let script = Script::parse(text, place, &[]);
    let is_whole = match &script.commands[..] {
        [only] => {
            let words = std::str::from_utf8(text).ok().and_then(shlex::split).unwrap_or_default();
            is_alone && words.iter().map(String::as_bytes).eq(only.words.iter().map(Vec::as_slice))
        }
        _ => false,
    };
    !script.is_unclear
        && script.commands.into_iter().all(|command| {
            let is_known = |word: &Vec<u8>| !word.iter().any(|byte| is_unknown(*byte));
            let is_plain = command.assignments.is_empty()
                && !command.is_redirected
                && !command.is_read
                && !command.words.is_empty()
                && command.words.iter().all(is_known);
            let place = Place { directories: command.directories, ..place.clone() };
            is_plain && words_are_sure(command.words, &place, is_whole, found)
        })
}

/// Reads a simple command, or what a shell runs that does nothing else.
fn words_are_sure(
    words: Vec<Vec<u8>>,
    place: &Place<'_>,
    is_alone: bool,
    found: &mut Vec<SureCommand>,
) -> bool {
    if let Some(text) = shell_text(&words) {
        // Each text is shorter than its command.
        return text_is_sure(text, place, is_alone, found);
    }
    found.push(SureCommand { words, directories: place.directories.clone(), is_alone });
    found.len() <= MAX_COMMANDS
}

/// Most commands of one request; one with more is not allowed by rules on commands.
const MAX_COMMANDS: usize = 256;

const SHELLS: [&[u8]; 8] = [b"sh", b"bash", b"rbash", b"dash", b"ash", b"zsh", b"ksh", b"mksh"];
/// Where the system has its shells.
const SHELL_DIRECTORIES: [&[u8]; 4] = [b"", b"/bin/", b"/usr/bin/", b"/usr/local/bin/"];

/// Returns the text of `sh -l -c TEXT` in any spelling, without other options.
fn shell_text(words: &[Vec<u8>]) -> Option<&[u8]> {
    let [program, options @ .., text] = words else { return None };
    let start = program.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (directory, name) = program.split_at(start);
    let is_known = |option: &Vec<u8>| {
        matches!(option.as_slice(), b"-l" | b"--login" | b"-c" | b"-lc" | b"-cl")
    };
    let runs = options.iter().any(|option| option.starts_with(b"-") && option.ends_with(b"c"))
        || options.iter().any(|option| option == b"-cl");
    let is_shell = SHELLS.contains(&name) && SHELL_DIRECTORIES.contains(&directory);
    (is_shell && runs && options.iter().all(is_known)).then_some(text.as_slice())
}
