//! Descent of commits, and what changed between two of them, over objects whose hash the reader has computed
//! (`spec/forges.md#force`).

use std::collections::{HashSet, VecDeque};

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

/// Finds a name among entries `MODE NAME\0ID` without separators.
fn entry(content: &[u8], name: &str, of: &Oid) -> Found {
    let length = of.as_str().len() / 2;
    let mut rest = content;
    while !rest.is_empty() {
        let Some(end) = rest.iter().position(|&byte| byte == 0) else { return Found::Unknown };
        let (head, behind) = rest.split_at(end);
        let Some((id, behind)) = behind.get(1..).and_then(|it| it.split_at_checked(length)) else {
            return Found::Unknown;
        };
        let mut parts = head.splitn(2, |&byte| byte == b' ');
        let (mode, own) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if own == name.as_bytes() {
            let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            return Found::Entry([mode, b" ", id.as_bytes()].concat());
        }
        rest = behind;
    }
    Found::Nothing
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
    use std::collections::BTreeMap;

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
