//! Descent of commits, and what changed between two of them, over objects whose hash the reader has computed
//! (`spec/forges.md#force`).

use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::oid::Oid;

/// Reads the content of an object of this type; `None` for one that cannot be trusted.
pub type ReadObject<'a> = dyn FnMut(&Oid, ObjectType) -> Option<Vec<u8>> + 'a;

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectType {
    /// A commit.
    Commit,
    /// A directory.
    Tree,
}

/// Files and directories by which a forge runs commands.
pub const CI_PATHS: [&str; 17] = [
    ".buildkite",
    ".circleci",
    ".cirrus.yml",
    ".drone.yml",
    ".forgejo",
    ".gitea",
    ".github/actions",
    ".github/workflows",
    ".gitlab",
    ".gitlab-ci.yml",
    ".semaphore",
    ".travis.yml",
    ".woodpecker",
    ".woodpecker.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
];

/// Commits that are read at most.
const MAX_COMMITS: usize = 10_000;

/// Returns the first commit among `known` from which `new` is shown to descend, and the number of commits on the way. A walk that
/// meets a commit which cannot be read goes on with the others.
pub fn nearest_ancestor(
    known: &HashSet<Oid>,
    new: &Oid,
    read: &mut ReadObject<'_>,
) -> Option<(Oid, usize)> {
    let (mut seen, mut waiting) = (HashSet::new(), VecDeque::from([new.clone()]));
    while let Some(id) = waiting.pop_front() {
        if known.contains(&id) {
            return Some((id, seen.len()));
        }
        if seen.len() >= MAX_COMMITS || !seen.insert(id.clone()) {
            continue;
        }
        let commit = read(&id, ObjectType::Commit).and_then(|content| Commit::parse(&content));
        waiting.extend(commit.into_iter().flat_map(|commit| commit.parents));
    }
    None
}

/// Returns the files of [`CI_PATHS`] that two commits do not share, or that cannot be compared. Without `old`, those that `new`
/// has.
pub fn changed_ci_files(
    old: Option<&Oid>,
    new: &Oid,
    read: &mut ReadObject<'_>,
) -> Vec<&'static str> {
    let mut at = |commit: &Oid| -> Option<Vec<Found>> {
        let tree = Commit::parse(&read(commit, ObjectType::Commit)?)?.tree;
        Some(CI_PATHS.map(|path| find(&tree, path, read)).to_vec())
    };
    let none = || vec![Found::Nothing; CI_PATHS.len()];
    let unknown = || vec![Found::Unknown; CI_PATHS.len()];
    let after = at(new).unwrap_or_else(unknown);
    let before = old.map_or_else(none, |old| at(old).unwrap_or_else(unknown));
    let pairs = CI_PATHS.into_iter().zip(before.into_iter().zip(after));
    let is_changed = |(before, after): &(Found, Found)| before != after || *after == Found::Unknown;
    pairs.filter(|(_, pair)| is_changed(pair)).map(|(path, _)| path).collect()
}

/// A path in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Mode and id.
    Entry(Vec<u8>),
    Unknown,
}

fn find(tree: &Oid, path: &str, read: &mut ReadObject<'_>) -> Found {
    let mut directory = tree.clone();
    let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
    for name in above.split('/').filter(|name| !name.is_empty()) {
        match read(&directory, ObjectType::Tree).map(|content| entry(&content, name, &directory)) {
            Some(Found::Entry(text)) => match text.strip_prefix(b"40000 ").and_then(Oid::parse) {
                Some(below) => directory = below,
                None => return Found::Entry(text),
            },
            Some(other) => return other,
            None => return Found::Unknown,
        }
    }
    read(&directory, ObjectType::Tree)
        .map_or(Found::Unknown, |content| entry(&content, last, &directory))
}

/// Finds a name in a directory.
fn entry(content: &[u8], name: &str, of: &Oid) -> Found {
    let Some(entries) = entries(content, of) else { return Found::Unknown };
    let found = entries.into_iter().find(|entry| entry.name == name.as_bytes());
    found.map_or(Found::Nothing, |entry| Found::Entry(entry.text))
}

/// An entry of a directory.
struct Entry {
    name: Vec<u8>,
    /// Mode and id.
    text: Vec<u8>,
}

impl Entry {
    /// Returns the id of a directory.
    fn directory(&self) -> Option<Oid> {
        self.text.strip_prefix(b"40000 ").and_then(Oid::parse)
    }
}

/// Parses entries `MODE NAME\0ID` without separators.
fn entries(content: &[u8], of: &Oid) -> Option<Vec<Entry>> {
    let length = of.as_str().len() / 2;
    let (mut rest, mut entries) = (content, Vec::new());
    while !rest.is_empty() {
        let (head, behind) = rest.split_at(rest.iter().position(|&byte| byte == 0)?);
        let (id, behind) = behind.get(1..)?.split_at_checked(length)?;
        let (mode, name) = head.split_at(head.iter().position(|&byte| byte == b' ')?);
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = [mode, b" ", id.as_bytes()].concat();
        entries.push(Entry { name: name.get(1..)?.to_vec(), text });
        rest = behind;
    }
    Some(entries)
}

/// Files that are named at most.
pub const MAX_FILES: usize = 12;

/// Directories within each other.
const MAX_DEPTH: usize = 64;

/// Returns the paths that two commits do not share, or the first ones and one more than [`MAX_FILES`]. `None` if a
/// directory cannot be read.
pub fn changed_files(old: &Oid, new: &Oid, read: &mut ReadObject<'_>) -> Option<Vec<String>> {
    let mut tree = |commit| Some(Commit::parse(&read(commit, ObjectType::Commit)?)?.tree);
    let (before, after) = (tree(old)?, tree(new)?);
    let mut paths = Vec::new();
    compare([Some(&before), Some(&after)], "", read, &mut paths)?;
    Some(paths)
}

/// Adds the paths that two directories, or one and nothing, do not share.
fn compare(
    directories: [Option<&Oid>; 2],
    above: &str,
    read: &mut ReadObject<'_>,
    paths: &mut Vec<String>,
) -> Option<()> {
    if above.matches('/').count() > MAX_DEPTH {
        return None;
    }
    let mut by_name: BTreeMap<Vec<u8>, [Option<Entry>; 2]> = BTreeMap::new();
    for (side, directory) in directories.into_iter().enumerate() {
        let Some(directory) = directory else { continue };
        for entry in entries(&read(directory, ObjectType::Tree)?, directory)? {
            let of_name = by_name.entry(entry.name.clone()).or_default();
            *of_name.get_mut(side)? = Some(entry);
        }
    }
    for (name, [before, after]) in by_name {
        let text = |entry: &Option<Entry>| entry.as_ref().map(|entry| entry.text.clone());
        if paths.len() > MAX_FILES || text(&before) == text(&after) {
            continue;
        }
        let path = format!("{above}{}", String::from_utf8_lossy(&name));
        let is_file =
            |entry: &Option<Entry>| entry.as_ref().is_some_and(|it| it.directory().is_none());
        if is_file(&before) || is_file(&after) {
            paths.push(path.clone());
        }
        let below = [&before, &after].map(|entry| entry.as_ref().and_then(Entry::directory));
        if below.iter().any(Option::is_some) {
            compare(below.each_ref().map(Option::as_ref), &format!("{path}/"), read, paths)?;
        }
    }
    Some(())
}

/// The head of a commit.
struct Commit {
    tree: Oid,
    parents: Vec<Oid>,
}

impl Commit {
    fn parse(content: &[u8]) -> Option<Commit> {
        let mut lines = content.split(|&byte| byte == b'\n');
        let tree = Oid::parse(lines.next()?.strip_prefix(b"tree ")?)?;
        let parents = lines.map_while(|line| line.strip_prefix(b"parent ").and_then(Oid::parse));
        Some(Commit { tree, parents: parents.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> Oid {
        Oid::parse(format!("{number:040x}").as_bytes()).unwrap()
    }

    fn commit(tree: u8, parents: &[u8]) -> Vec<u8> {
        let parents: String =
            parents.iter().map(|parent| format!("parent {}\n", id(*parent).as_str())).collect();
        format!("tree {}\n{parents}author a\n\nparent {}\n", id(tree).as_str(), id(99).as_str())
            .into_bytes()
    }

    fn tree(entries: &[(&str, &str, u8)]) -> Vec<u8> {
        let entry = |(mode, name, of): &(&str, &str, u8)| {
            [format!("{mode} {name}\0").as_bytes(), &[0; 19], &[*of]].concat()
        };
        entries.iter().flat_map(entry).collect()
    }

    /// 1 <- 2 <- 3, 1 <- 4, and 5 merges 3 and 4. 6 has the missing parent 7.
    fn objects() -> BTreeMap<Oid, Vec<u8>> {
        let commits =
            [(1, 20, &[][..]), (2, 20, &[1]), (3, 21, &[2]), (4, 22, &[1]), (5, 21, &[3, 4])];
        let mut all: BTreeMap<Oid, Vec<u8>> =
            commits.map(|(number, of, parents)| (id(number), commit(of, parents))).into();
        all.insert(id(6), commit(20, &[7]));
        all.insert(id(20), tree(&[("100644", "a", 40), ("40000", ".github", 30)]));
        all.insert(id(21), tree(&[("100644", "b", 41), ("40000", ".github", 31)]));
        all.insert(id(22), tree(&[("100644", "a", 40), ("40000", ".github", 32)]));
        all.insert(id(30), tree(&[("40000", "workflows", 50)]));
        all.insert(id(31), tree(&[("40000", "workflows", 50), ("100644", "x", 1)]));
        all
    }

    #[test]
    fn descent_is_shown_over_parents() {
        let objects = objects();
        let mut read = |of: &Oid, _: ObjectType| objects.get(of).cloned();
        let mut since = |old, new| {
            nearest_ancestor(&HashSet::from([id(old)]), &id(new), &mut read).map(|(_, count)| count)
        };
        assert_eq!(since(1, 3), Some(2));
        assert_eq!(since(3, 3), Some(0));
        assert_eq!(since(4, 3), None);
        assert_eq!(since(3, 1), None);
        assert!(since(4, 5).is_some() && since(2, 5).is_some());
        assert_eq!(since(7, 6), Some(1), "the old commit itself need not be there");
        assert_eq!(since(1, 6), None);
        assert_eq!(since(99, 3), None, "text of a message is no parent");
    }

    #[test]
    fn changed_files_are_named() {
        let mut objects = objects();
        let changed = |old, new| {
            let mut read = |of: &Oid, _: ObjectType| objects.get(of).cloned();
            changed_files(&id(old), &id(new), &mut read)
        };
        assert_eq!(changed(2, 2), Some(Vec::new()));
        assert_eq!(changed(2, 3).unwrap(), [".github/x", "a", "b"]);
        assert_eq!(changed(2, 4), None, "its directory is missing");
        objects.insert(id(50), tree(&[("100644", "ci", 1)]));
        let names: Vec<String> = (0..40).map(|number| format!("f{number:02}")).collect();
        let many: Vec<_> = names.iter().map(|name| ("100644", name.as_str(), 1)).collect();
        objects.insert(id(33), tree(&many));
        objects.insert(id(8), commit(33, &[2]));
        let mut read = |of: &Oid, _: ObjectType| objects.get(of).cloned();
        let paths = changed_files(&id(1), &id(8), &mut read).unwrap();
        assert_eq!(paths.len(), MAX_FILES + 1, "{paths:?}");
        // A file in place of a directory.
        objects.insert(id(34), tree(&[("100644", ".github", 9), ("100644", "a", 40)]));
        objects.insert(id(9), commit(34, &[2]));
        let mut read = |of: &Oid, _: ObjectType| objects.get(of).cloned();
        let paths = changed_files(&id(2), &id(9), &mut read).unwrap();
        assert_eq!(paths, [".github", ".github/workflows/ci"]);
    }

    #[test]
    fn files_of_ci_are_compared_or_count_as_changed() {
        let objects = objects();
        let mut read = |of: &Oid, _: ObjectType| objects.get(of).cloned();
        let mut changed =
            |old: Option<u8>, new| changed_ci_files(old.map(id).as_ref(), &id(new), &mut read);
        assert_eq!(changed(Some(2), 3), [""; 0]);
        assert_eq!(changed(None, 3), [".github/workflows"]);
        assert_eq!(
            changed(Some(2), 4),
            [".github/actions", ".github/workflows"],
            "its directory is missing"
        );
        assert_eq!(changed(Some(2), 7).len(), CI_PATHS.len());
    }
}
