//! Paths outside the workspace.

use super::glob::{GLOB, Match, UNKNOWN, is_unknown};
use super::links::{Links, Target, below};
use super::table::base_name;

/// Where a call runs.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    /// The possible working directories, absolute. An empty one is unknown.
    pub(super) directories: Vec<Vec<u8>>,
    pub(super) workspace: &'a [Vec<u8>],
    /// `None` if links are not read.
    pub(super) links: Option<&'a Links>,
    /// True in a container, all of whose files are inside.
    pub(super) is_contained: bool,
}

/// Files that any tool may write.
const DEVICES: [&[u8]; 5] =
    [b"/dev/null", b"/dev/stdout", b"/dev/stderr", b"/dev/stdin", b"/dev/tty"];

/// Directories whose entries any tool may remove, unless they contain the workspace.
const TEMPORARY: [&[u8]; 3] = [b"/tmp", b"/var/tmp", b"/private/tmp"];

impl<'a> Place<'a> {
    /// Returns a place without links.
    pub(super) fn new(directory: &[u8], workspace: &'a [Vec<u8>]) -> Self {
        Place { directories: vec![directory.to_vec()], workspace, links: None, is_contained: false }
    }
}

impl Place<'_> {
    /// Returns whether `path` is outside the workspace, or, if `root` counts, is the workspace.
    pub(super) fn is_outside(&self, path: &[u8], root: bool) -> Match {
        if self.is_contained {
            return if lexical(path) == b"/" { Match::Yes } else { Match::No };
        }
        if path.first() == Some(&b'~') {
            return Match::Yes;
        }
        let is_absolute = path.first() == Some(&b'/');
        let in_directory = |directory: &Vec<u8>| match (is_absolute, directory.is_empty()) {
            (true, _) => self.judge(path, root),
            (false, true) => Match::Maybe,
            (false, false) if directory.starts_with(b"~") => Match::Yes,
            (false, false) => self.judge(&[directory, &b"/"[..], path].concat(), root),
        };
        self.directories.iter().map(in_directory).max().unwrap_or(Match::Maybe)
    }

    /// Returns whether `path` is outside all of these directories, which are relative to the workspace.
    pub(super) fn is_outside_of(&self, path: &[u8], directories: &[Vec<u8>]) -> Match {
        let outside = self.is_outside(path, true);
        if outside != Match::No || self.is_contained {
            return outside;
        }
        let is_in_one = |path: &Vec<u8>| {
            let Some(relative) = self.workspace.iter().find_map(|name| below(path, name)) else {
                // The temporary directory.
                return true;
            };
            let target = self.links.map(|it| it.resolve(relative, true, self.workspace));
            let relative = match &target {
                Some(Target::Inside(path)) => path.as_slice(),
                Some(_) => return false,
                None => relative,
            };
            directories.iter().any(|directory| {
                let directory = lexical(&[b"/", directory.as_slice()].concat());
                let path = lexical(&[b"/", relative].concat());
                path == directory || is_below(&path, &directory)
            })
        };
        if self.absolute(path).iter().all(is_in_one) { Match::No } else { Match::Yes }
    }

    fn judge(&self, path: &[u8], root: bool) -> Match {
        // A pattern has no `..`, as long as no part of the path is unknown.
        if path.contains(&UNKNOWN) {
            return Match::Maybe;
        }
        let written = path;
        let mut path = lexical(written);
        // `*` is all of its directory.
        let name = base_name(&path);
        if name.contains(&GLOB) && name.iter().all(|byte| matches!(*byte, GLOB | b'.')) && root {
            let parent = path.len() - name.len();
            path.truncate(parent.saturating_sub(1).max(1));
        }
        let is_inside = self.workspace.iter().any(|name| {
            is_below(&path, name) || (!root && path == *name.strip_suffix(b"/").unwrap_or(name))
        });
        if let (true, Some(links)) = (is_inside, self.links) {
            return self.judge_links(links, written, &path, root);
        }
        let is_inside = is_inside || DEVICES.contains(&path.as_slice());
        let is_temporary = TEMPORARY.iter().any(|root| {
            is_below(&path, root) && !self.workspace.iter().any(|name| is_below(name, root))
        });
        if is_inside || is_temporary || self.is_in_tmpdir(&path) { Match::No } else { Match::Yes }
    }

    /// Returns whether a path is below the session's `TMPDIR`. If that is not set, the path must be none beside the
    /// workspace.
    fn is_in_tmpdir(&self, path: &[u8]) -> bool {
        let first = |path: &[u8]| path.split(|byte| *byte == b'/').nth(1).map(<[u8]>::to_vec);
        path.strip_prefix(b"/$TMPDIR").is_some_and(|rest| {
            rest.len() > 1 && !self.workspace.iter().any(|name| first(name) == first(rest))
        })
    }

    /// Judges a path below the workspace as written, whose components may be links.
    fn judge_links(&self, links: &Links, written: &[u8], path: &[u8], root: bool) -> Match {
        let ends_in_directory = written.ends_with(b"/") || written.ends_with(b"/.");
        let names = || self.workspace.iter();
        // A `..` after a link leads elsewhere than in the text.
        let relative = names().find_map(|name| below(written, name));
        let relative = relative.or_else(|| names().find_map(|name| below(path, name)));
        let relative = relative.unwrap_or_default();
        match links.resolve(relative, ends_in_directory || !root, self.workspace) {
            Target::Inside(path) if path.is_empty() && root => Match::Yes,
            Target::Inside(_) => Match::No,
            Target::Outside(path) => Place { links: None, ..self.clone() }.judge(&path, root),
            Target::Unknown => Match::Yes,
        }
    }

    /// Returns the absolute names of a path; one of `~` is as it is.
    pub(super) fn absolute(&self, path: &[u8]) -> Vec<Vec<u8>> {
        if path.contains(&UNKNOWN) || matches!(path.first(), Some(b'/' | b'~')) {
            let is_plain = path.first() == Some(&b'/') && !path.contains(&UNKNOWN);
            return vec![if is_plain { lexical(path) } else { path.to_vec() }];
        }
        let join = |directory: &Vec<u8>| match directory.is_empty() {
            true => path.to_vec(),
            false if directory.starts_with(b"~") => [directory, &b"/"[..], path].concat(),
            false => lexical(&[directory, &b"/"[..], path].concat()),
        };
        self.directories.iter().map(join).collect()
    }

    /// Moves to another directory.
    pub(super) fn enter(&mut self, path: &[u8]) {
        for directory in &mut self.directories {
            let is_absolute = path.first() == Some(&b'/');
            let joined = match (is_absolute, directory.is_empty()) {
                (true, _) => path.to_vec(),
                (false, true) => continue,
                (false, false) => [directory, &b"/"[..], path].concat(),
            };
            let is_known = !joined.iter().any(|byte| is_unknown(*byte))
                && !matches!(path.first(), None | Some(b'-'));
            let home = if path.starts_with(b"~") { path } else { &joined };
            let has_parent = home.windows(2).any(|two| two == b"..");
            *directory = match (is_known, home.starts_with(b"~")) {
                (true, false) => lexical(&joined),
                (true, true) if !has_parent => home.to_vec(),
                _ => Vec::new(),
            };
        }
    }
}

/// Resolves `.` and `..` without links.
fn lexical(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut joined = vec![b'/'];
    joined.extend(parts.join(&b'/'));
    joined
}

/// Returns whether `path` is strictly below `root`.
fn is_below(path: &[u8], root: &[u8]) -> bool {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    path.strip_prefix(root).is_some_and(|rest| rest.len() > 1 && rest.first() == Some(&b'/'))
}

/// Returns whether a path is the standard input.
pub(super) fn is_stdin(word: &[u8]) -> bool {
    matches!(word, b"-" | b"/dev/stdin" | b"/dev/fd/0" | b"/proc/self/fd/0")
}
