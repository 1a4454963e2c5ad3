//! The output of commands in substitutions.

use super::glob::{Match, matches};
use super::table::{base_name, find};

/// The output of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    /// A name that is no option.
    Name,
    /// A new path in the temporary directory.
    Temporary,
    /// The working directory.
    Directory,
}

/// Returns the output of a command, if it is known well enough.
pub(super) fn printed(words: &[Vec<u8>]) -> Option<Printed> {
    let (tool, args) = words.split_first()?;
    let is_option = |word: &Vec<u8>| {
        matches!(word.as_slice(), b"-d" | b"-q" | b"--directory" | b"-dq" | b"-qd")
    };
    match tool.as_slice() {
        b"pwd" if args.is_empty() => return Some(Printed::Directory),
        b"mktemp" if args.iter().all(is_option) => return Some(Printed::Temporary),
        _ => {}
    }
    let args = args.join(&b' ');
    let prints = find(base_name(tool)).0.table.prints_name.iter().any(|it| it.as_bytes() == args);
    prints.then_some(Printed::Name)
}

/// Returns whether the output of a command is meant for `eval`.
pub(super) fn prints_environment(words: &[Vec<u8>]) -> bool {
    let Some((tool, args)) = words.split_first() else { return false };
    let args = args.join(&b' ');
    let patterns = &find(base_name(tool)).0.table.prints_environment;
    patterns.iter().any(|pattern| matches(pattern.as_bytes(), &args) == Match::Yes)
}
