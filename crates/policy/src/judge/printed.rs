//! The output of commands, which others get as words or as their standard input.

use super::glob::{Match, is_unknown, matches};
use super::normal::NormalCall;
use super::table::{base_name, find};

/// A command output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    /// A name that is no option.
    Name,
    /// A new path of `mktemp`.
    Temporary(Vec<u8>),
    /// The working directory.
    Directory,
    /// Paths below these directories, which they begin with.
    Below(Vec<Vec<u8>>),
}

/// Returns a command output, if it is known well enough.
pub(super) fn printed(words: &[Vec<u8>]) -> Option<Printed> {
    let (tool, args) = words.split_first()?;
    match tool.as_slice() {
        b"pwd" if args.is_empty() => return Some(Printed::Directory),
        b"mktemp" => return temporary(args).map(Printed::Temporary),
        b"find" => return found(words).map(Printed::Below),
        _ => {}
    }
    let args = args.join(&b' ');
    let prints = find(base_name(tool)).0.table.prints_name.iter().any(|it| it.as_bytes() == args);
    prints.then_some(Printed::Name)
}

/// Returns the path that `mktemp` prints.
fn temporary(args: &[Vec<u8>]) -> Option<Vec<u8>> {
    let (options, operands): (Vec<_>, Vec<_>) = args.iter().partition(|it| it.starts_with(b"-"));
    let is_option = |word: &Vec<u8>| word.iter().skip(1).all(|letter| b"dqt".contains(letter));
    let is_known = options.iter().all(|it| is_option(it) || it.as_slice() == b"--directory");
    let in_directory = options.iter().any(|option| option.contains(&b't'));
    match operands.as_slice() {
        _ if !is_known => None,
        [] => Some(b"/tmp/tmp.mktemp".to_vec()),
        [template] if template.iter().any(|byte| is_unknown(*byte)) => None,
        [template] if in_directory => Some([b"/tmp/", base_name(template)].concat()),
        [template] => Some(template.to_vec()),
        _ => None,
    }
}

/// Options of `find` with which it prints something else, or follows links.
const NO_PATHS: [&[u8]; 13] = [
    b"-printf",
    b"-fprintf",
    b"-exec",
    b"-execdir",
    b"-ok",
    b"-okdir",
    b"-ls",
    b"-fls",
    b"-files0-from",
    b"-L",
    b"-follow",
    b"-delete",
    b"-P",
];

/// Options of `find` that select files by name, type or time. A search without one may find all of them.
const SELECTIONS: [&[u8]; 11] = [
    b"-name", b"-iname", b"-path", b"-ipath", b"-regex", b"-iregex", b"-type", b"-mtime", b"-mmin",
    b"-newer", b"-empty",
];

/// Returns the directories of a search, as its call has them.
pub(super) fn search_roots(call: &NormalCall) -> Vec<Vec<u8>> {
    let operands = call.operands.iter().map(|operand| operand.word.clone());
    operands.take_while(|word| !matches!(word.first(), Some(b'(' | b'!'))).collect()
}

/// Returns the directories of a search that prints the paths of some of their files.
fn found(words: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let call = NormalCall::parse(words)?;
    let has_one_of = |options: &[&[u8]]| options.iter().any(|option| call.has_option(option));
    if has_one_of(&NO_PATHS) || !has_one_of(&SELECTIONS) || call.unknown_words() > 0 {
        return None;
    }
    let roots = search_roots(&call);
    let is_known = |root: &Vec<u8>| !root.iter().any(|byte| is_unknown(*byte));
    roots.iter().all(is_known).then(|| if roots.is_empty() { vec![b".".to_vec()] } else { roots })
}

/// Returns whether a command prints some of the lines that it reads, and no others.
pub(super) fn selects_lines(words: &[Vec<u8>]) -> bool {
    let Some((tool, args)) = words.split_first() else { return false };
    let is_letters = |word: &Vec<u8>, letters: &[u8]| {
        word.strip_prefix(b"-").is_some_and(|rest| rest.iter().all(|byte| letters.contains(byte)))
    };
    match tool.as_slice() {
        b"grep" => match args {
            [options @ .., pattern] => {
                let is_plain = !pattern.starts_with(b"-");
                is_plain && options.iter().all(|word| is_letters(word, b"vwixzaEFPGh"))
            }
            [] => false,
        },
        b"head" | b"tail" => args.iter().all(|word| {
            let is_count = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
            is_count || is_letters(word, b"nzq0123456789")
        }),
        b"sort" => args.iter().all(|word| is_letters(word, b"runzfVbdg")),
        b"uniq" => args.iter().all(|word| is_letters(word, b"uidz")),
        _ => false,
    }
}

/// Returns whether a command output is meant for `eval`.
pub(super) fn prints_environment(words: &[Vec<u8>]) -> bool {
    let Some((tool, args)) = words.split_first() else { return false };
    let args = args.join(&b' ');
    let patterns = &find(base_name(tool)).0.table.prints_environment;
    patterns.iter().any(|pattern| matches(pattern.as_bytes(), &args) == Match::Yes)
}
