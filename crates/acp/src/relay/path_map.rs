//! Maps paths between the host and an agent container.

use std::borrow::Cow;

use super::file_uri::{self, FileUri};

/// A map of directories (`spec/acp-relay.md#paths`). Pure: works on names, not on files.
///
/// ```
/// use aifo_acp::{Direction, PathMap};
///
/// let map = PathMap::default()
///     .map_directory("/home/me/project", "/home/me/project")
///     .map_alias("/workspace", "/home/me/project")
///     .map_directory("/run/aifo/s1/tmp", "/tmp");
/// assert_eq!(map.path(Direction::ToEditor, "/workspace/src/a.rs").unwrap(), "/home/me/project/src/a.rs");
/// assert_eq!(map.path(Direction::ToAgent, "/run/aifo/s1/tmp/x").unwrap(), "/tmp/x");
/// assert_eq!(map.path(Direction::ToAgent, "/home/me/project/src"), None, "the same on both sides");
/// assert_eq!(map.uri(Direction::ToEditor, "file:///tmp/a%20b").unwrap(), "file:///run/aifo/s1/tmp/a%20b");
/// ```
#[derive(Clone, Debug, Default)]
pub struct PathMap {
    to_agent: Vec<Pair>,
    to_editor: Vec<Pair>,
}

/// The direction of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the editor to the agent: from the host into the container.
    ToAgent,
    /// From the agent to the editor.
    ToEditor,
}

#[derive(Clone, Debug)]
struct Pair {
    from: String,
    to: String,
}

impl PathMap {
    /// Adds a directory of the host and its path in the container.
    #[must_use]
    pub fn map_directory(mut self, host: &str, inside: &str) -> Self {
        self.to_agent.push(Pair { from: host.to_owned(), to: inside.to_owned() });
        self.map_alias(inside, host)
    }

    /// Adds another path in the container for a directory of the host, mapped only towards the
    /// editor.
    #[must_use]
    pub fn map_alias(mut self, inside: &str, host: &str) -> Self {
        self.to_editor.push(Pair { from: inside.to_owned(), to: host.to_owned() });
        self
    }

    /// Returns the other side's path for an absolute path; `None` if it is the same or not mapped.
    ///
    /// The deepest matching directory counts. A path that leaves it by `..` is not mapped.
    pub fn path(&self, direction: Direction, path: &str) -> Option<String> {
        let (pair, rest) = self.find(direction, path, |part| Some(Cow::Borrowed(part)))?;
        Some(join(&pair.to, rest))
    }

    /// Maps a `file:` URI. Parts that are not replaced keep their bytes; `None` for any other URI.
    pub fn uri(&self, direction: Direction, uri: &str) -> Option<String> {
        let FileUri { head, path, tail } = FileUri::parse(uri)?;
        let (pair, rest) = self.find(direction, path, file_uri::decode)?;
        let path = join(&file_uri::encode(&pair.to), rest);
        Some(format!("{head}{path}{tail}"))
    }

    /// Returns whether all paths are the same on both sides.
    pub(crate) fn is_identity(&self, direction: Direction) -> bool {
        self.pairs(direction).iter().all(Pair::is_identity)
    }

    fn pairs(&self, direction: Direction) -> &[Pair] {
        match direction {
            Direction::ToAgent => &self.to_agent,
            Direction::ToEditor => &self.to_editor,
        }
    }

    /// Returns the deepest matching pair and the rest of the path.
    fn find<'a>(
        &self,
        direction: Direction,
        path: &'a str,
        decode: impl Fn(&'a str) -> Option<Cow<'a, str>>,
    ) -> Option<(&Pair, &'a str)> {
        let mut deepest: Option<(usize, &Pair, &str)> = None;
        for pair in self.pairs(direction) {
            let depth = parts(&pair.from).count();
            if let Some(rest) = beneath(path, &pair.from, &decode)
                && deepest.is_none_or(|(so_far, ..)| so_far < depth)
            {
                deepest = Some((depth, pair, rest));
            }
        }
        let (_, pair, rest) = deepest?;
        (!pair.is_identity()).then_some((pair, rest))
    }
}

impl Pair {
    fn is_identity(&self) -> bool {
        self.from == self.to
    }
}

/// Returns whether an absolute path is in a directory, by name alone.
pub(super) fn is_beneath(path: &str, directory: &str) -> bool {
    beneath(path, directory, &|part| Some(Cow::Borrowed(part))).is_some()
}

/// Returns the part of an absolute path below a directory, undecoded. `None` if the path is
/// elsewhere, leaves the directory, or has an undecodable component.
fn beneath<'a>(
    path: &'a str,
    directory: &str,
    decode: &impl Fn(&'a str) -> Option<Cow<'a, str>>,
) -> Option<&'a str> {
    let mut rest = path.strip_prefix('/')?;
    for wanted in parts(directory) {
        let part = loop {
            let (part, after) = rest.split_once('/').unwrap_or((rest, ""));
            let part = decode(part)?;
            let is_nothing = part.is_empty() || part == ".";
            if is_nothing && rest.is_empty() {
                return None;
            }
            rest = after;
            if !is_nothing {
                break part;
            }
        };
        if part != wanted {
            return None;
        }
    }
    let mut depth = 0usize;
    for part in rest.split('/') {
        match decode(part)?.as_ref() {
            "" | "." => {}
            ".." => depth = depth.checked_sub(1)?,
            _ => depth = depth.saturating_add(1),
        }
    }
    Some(rest.trim_start_matches('/'))
}

/// Returns the components of a path.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

fn join(directory: &str, rest: &str) -> String {
    let directory = directory.trim_end_matches('/');
    match (directory, rest) {
        ("", "") => "/".to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, rest) => format!("{directory}/{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: &str = "/home/me/ws";

    fn usual() -> PathMap {
        PathMap::default()
            .map_directory(W, W)
            .map_alias("/workspace", W)
            .map_directory("/run/s/tmp", "/tmp")
    }

    #[test]
    fn paths_are_mapped_by_components() {
        use Direction::{ToAgent, ToEditor};
        let rows = [
            (ToEditor, "/workspace", Some("/home/me/ws")),
            (ToEditor, "/workspace/", Some("/home/me/ws")),
            (ToEditor, "/workspace/a/b", Some("/home/me/ws/a/b")),
            (ToEditor, "//workspace//./a//b/", Some("/home/me/ws/./a//b/")),
            (ToEditor, "/workspace/a/../b", Some("/home/me/ws/a/../b")),
            (ToEditor, "/workspace/a/../../etc", None),
            (ToEditor, "/workspace/..", None),
            (ToEditor, "/workspace/../workspace/a", None),
            (ToEditor, "/workspace-evil/a", None),
            (ToEditor, "/workspac", None),
            (ToEditor, "/", None),
            (ToEditor, "", None),
            (ToEditor, ".", None),
            (ToEditor, "/.", None),
            (ToEditor, "workspace/a", None),
            (ToEditor, "./workspace", None),
            (ToEditor, "C:\\workspace\\a", None),
            (ToEditor, "/tmp", Some("/run/s/tmp")),
            (ToEditor, "/tmp/\u{e9} \n", Some("/run/s/tmp/\u{e9} \n")),
            (ToEditor, "/home/me/ws/a", None),
            (ToEditor, "/run/s/tmp/a", None),
            (ToAgent, "/home/me/ws/a", None),
            (ToAgent, "/workspace/a", None),
            (ToAgent, "/run/s/tmp/a%20b", Some("/tmp/a%20b")),
            (ToAgent, "/run/s/tmp", Some("/tmp")),
            (ToAgent, "/run/s", None),
            (ToAgent, "/run/./s//tmp/a", Some("/tmp/a")),
            (ToAgent, "/run/x/../s/tmp/a", None),
            (ToAgent, "/tmp/a", None),
        ];
        for (direction, path, expected) in rows {
            assert_eq!(usual().path(direction, path).as_deref(), expected, "{direction:?} {path}");
        }
    }

    #[test]
    fn the_deepest_directory_counts() {
        // A workspace beneath `/tmp`, while the container has another `/tmp`.
        let map =
            PathMap::default().map_directory("/run/t", "/tmp").map_directory("/tmp/ws", "/tmp/ws");
        assert_eq!(map.path(Direction::ToEditor, "/tmp/ws/a"), None);
        assert_eq!(map.path(Direction::ToEditor, "/tmp/wsx").as_deref(), Some("/run/t/wsx"));
        let nested = PathMap::default().map_directory("/a", "/x").map_directory("/a/b", "/y");
        assert_eq!(nested.path(Direction::ToAgent, "/a/b/c").as_deref(), Some("/y/c"));
        assert_eq!(nested.path(Direction::ToAgent, "/a/c").as_deref(), Some("/x/c"));
        let twice = PathMap::default().map_directory("/a", "/x").map_directory("/a", "/y");
        assert_eq!(twice.path(Direction::ToAgent, "/a").as_deref(), Some("/x"), "the first of two");
    }

    #[test]
    fn the_root_directory_can_be_mapped() {
        let map = PathMap::default().map_directory("/", "/host");
        assert_eq!(map.path(Direction::ToAgent, "/").as_deref(), Some("/host"));
        assert_eq!(map.path(Direction::ToAgent, "/a").as_deref(), Some("/host/a"));
        assert_eq!(map.path(Direction::ToEditor, "/host").as_deref(), Some("/"));
        assert_eq!(map.path(Direction::ToEditor, "/host/a").as_deref(), Some("/a"));
    }

    #[test]
    fn file_uris_are_mapped_and_keep_other_bytes() {
        let map = usual().map_directory("/home/me/a b\u{e9}#", "/ab");
        let rows = [
            ("file:///workspace/a%20b?x=1#L3:4", Some("file:///home/me/ws/a%20b?x=1#L3:4")),
            ("file://localhost/workspace", Some("file://localhost/home/me/ws")),
            ("FILE:/workspace/a", Some("FILE:/home/me/ws/a")),
            ("file:///work%73pace/%41", Some("file:///home/me/ws/%41")),
            ("file:///workspace/a/%2e%2e/b", Some("file:///home/me/ws/a/%2e%2e/b")),
            ("file:///workspace/%2E%2e/etc", None),
            ("file:///workspace%2Fa", None),
            ("file:///workspace/a%2Fb", None),
            ("file:///workspace/a%00", None),
            ("file:///workspace/a%ff", None),
            ("file:///workspace/a%f", None),
            ("file:///workspace/100%", None),
            ("file://other/workspace/a", None),
            ("file:workspace/a", None),
            ("file://", None),
            ("file:", None),
            ("https://example.org/workspace/a", None),
            ("zed:///agent/workspace", None),
            ("/workspace/a", None),
            ("", None),
            ("\u{e9}\u{e9}\u{e9}", None),
            ("file:///ab/c", Some("file:///home/me/a%20b%C3%A9%23/c")),
        ];
        for (uri, expected) in rows {
            assert_eq!(map.uri(Direction::ToEditor, uri).as_deref(), expected, "{uri}");
        }
        let back = map.uri(Direction::ToAgent, "file:///home/me/a%20b%c3%a9%23/c");
        assert_eq!(back.as_deref(), Some("file:///ab/c"));
    }

    #[test]
    fn mapping_both_ways_is_the_identity() {
        let map = PathMap::default()
            .map_directory("/home/me/\u{e9} x", "/w")
            .map_directory("/run/t", "/tmp");
        for path in ["/w", "/w/a", "/w/a b/%/\u{e9}", "/tmp/..a/b", "/tmp/a/../b"] {
            let host = map.path(Direction::ToEditor, path).unwrap();
            assert_eq!(map.path(Direction::ToAgent, &host).unwrap(), path);
            let uri = format!("file://{}", file_uri::encode(path));
            let host = map.uri(Direction::ToEditor, &uri).unwrap();
            assert_eq!(map.uri(Direction::ToAgent, &host).unwrap(), uri);
        }
    }

    #[test]
    fn an_identity_map_changes_nothing() {
        let same = PathMap::default().map_directory(W, W);
        assert!(same.is_identity(Direction::ToAgent) && same.is_identity(Direction::ToEditor));
        let more = same.map_alias("/workspace", W);
        assert!(more.is_identity(Direction::ToAgent) && !more.is_identity(Direction::ToEditor));
    }
}
