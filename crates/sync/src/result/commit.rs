//! The uncommitted files of a clone, as a commit.
//!
//! `git add` in the agent repository would run its filters, and the `core.fsmonitor` of a repository below it. So the
//! files are read here, without following links, and `git fast-import` gets their bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use super::git::PrivateRepository;
use super::object_id::ObjectId;
use aifo_workspace::{Object, Tree};

use crate::error::SyncError;
use crate::limits::{UploadLimits, UploadScope};
use crate::path::WorkspacePath;
use crate::scan::{Repository, Scan};

/// The commit of uncommitted files.
#[derive(Debug, Default)]
pub(crate) struct Uncommitted {
    /// `None` if all is committed.
    pub(crate) commit: Option<ObjectId>,
    /// Lines for the user.
    pub(crate) notes: Vec<String>,
}

/// An entry of a commit's tree.
struct TreeEntry {
    mode: String,
    id: ObjectId,
}

type TreeEntries = BTreeMap<Vec<u8>, TreeEntry>;

const SUBMODULE: &str = "160000";
const MAX_FILE: u64 = 100 << 20;
const MAX_TREE: u64 = 64 << 20;
/// Paths of one kind that are named.
const MAX_NAMED: usize = 5;
/// A file that changes while it is read is read again.
const ATTEMPTS: usize = 3;
/// The start of a file of Git LFS, before its content is fetched.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";

impl Uncommitted {
    /// Commits the files that differ from those of `parent`. The same files give the same commit.
    pub(crate) fn commit(
        repository: &PrivateRepository<'_>,
        tree: &Tree,
        parent: Option<&ObjectId>,
        session: &str,
    ) -> Result<Self, SyncError> {
        for _ in 1..ATTEMPTS {
            match Uncommitted::attempt(repository, tree, parent, session) {
                Err(SyncError::Changed { .. }) => {}
                done => return done,
            }
        }
        Uncommitted::attempt(repository, tree, parent, session)
    }

    fn attempt(
        repository: &PrivateRepository<'_>,
        tree: &Tree,
        parent: Option<&ObjectId>,
        session: &str,
    ) -> Result<Self, SyncError> {
        let committed = entries(repository, parent)?;
        let limits = UploadLimits::default();
        let scan = Scan::of(tree, UploadScope::Unignored, Repository::Omitted, limits.files)?;
        let too_many = scan.found.len() as u64 > limits.files;
        let mut paths: BTreeSet<WorkspacePath> = scan.found.into_keys().collect();
        // A file of the commit may be ignored and not in the index.
        let parsed = committed.keys().filter_map(|path| WorkspacePath::of_pod(path).ok());
        paths.extend(parsed.filter(|path| {
            matches!(tree.object(path.as_path()), Object::File(_) | Object::Link(_) | Object::Other)
        }));
        if too_many || paths.len() as u64 > limits.files {
            let note = format!(
                "more than {} files: uncommitted files are not in the result",
                limits.files
            );
            return Ok(Uncommitted { commit: None, notes: vec![note] });
        }
        if committed.is_empty() && paths.is_empty() {
            return Ok(Uncommitted::default());
        }
        let mut notes = Notes::default();
        for (path, why) in &scan.skipped {
            notes.skipped.add(&format!("{} ({why})", String::from_utf8_lossy(path)));
        }
        let date = date_of(repository, parent);
        let command = repository.command(["fast-import", "--quiet", "--force"]);
        let feed = |stdin: &mut dyn Write| {
            let mut import = Import {
                to: io::BufWriter::with_capacity(256 << 10, stdin),
                tree,
                left: limits.bytes,
            };
            import.head(parent, date, session)?;
            import.files(&paths, &committed, &mut notes)?;
            import.to.write_all(b"done\n")?;
            import.to.flush()?;
            Ok(())
        };
        let drain = |stdout: &mut dyn Read| Ok(io::copy(stdout, &mut io::sink())?);
        repository.run(command, feed, drain)?;
        let commit = resolve(repository, IMPORTED)?;
        let is_same = match parent {
            Some(parent) => {
                resolve(repository, &format!("{parent}^{{tree}}"))?
                    == resolve(repository, &format!("{IMPORTED}^{{tree}}"))?
            }
            None => false,
        };
        Ok(Uncommitted { commit: (!is_same).then_some(commit), notes: notes.lines() })
    }
}

/// The branch of the commit in the private repository.
const IMPORTED: &str = "refs/heads/aifo-uncommitted";

fn resolve(repository: &PrivateRepository<'_>, name: &str) -> Result<ObjectId, SyncError> {
    let output =
        repository.output(["rev-parse", "--verify", "--end-of-options", name], "", 4096)?;
    // Before 2.30, git prints the option.
    let text = output.split(|byte| *byte == b'\n').find_map(ObjectId::parse);
    text.ok_or(SyncError::Malformed("git has printed no object"))
}

/// Returns the files, links and submodules of a commit.
fn entries(
    repository: &PrivateRepository<'_>,
    commit: Option<&ObjectId>,
) -> Result<TreeEntries, SyncError> {
    let Some(commit) = commit else { return Ok(BTreeMap::new()) };
    let output = repository.output(["ls-tree", "-r", "-z", commit.as_str()], "", MAX_TREE)?;
    let entry = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (head, path) = line.split_at_checked(tab)?;
        let head = String::from_utf8_lossy(head);
        let mut words = head.split(' ');
        let (mode, id) = (words.next()?.to_owned(), words.nth(1)?);
        let id = ObjectId::parse(id.as_bytes())?;
        Some((path.get(1..)?.to_owned(), TreeEntry { mode, id }))
    };
    Ok(output.split(|byte| *byte == 0).filter_map(entry).collect())
}

/// Returns the date of a commit, so the same files give the same commit; for a first one the time.
fn date_of(repository: &PrivateRepository<'_>, parent: Option<&ObjectId>) -> u64 {
    let of_parent = parent.and_then(|parent| {
        let words = ["rev-list", "--max-count=1", "--format=%ct", parent.as_str()];
        let output = repository.output(words, "", 4096).ok()?;
        String::from_utf8_lossy(&output).lines().last()?.trim().parse().ok()
    });
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    of_parent.unwrap_or_else(now)
}

/// The stream for `git fast-import`.
struct Import<'a, W: Write> {
    to: W,
    tree: &'a Tree,
    /// Bytes that may follow.
    left: u64,
}

impl<W: Write> Import<'_, W> {
    fn head(&mut self, parent: Option<&ObjectId>, date: u64, session: &str) -> io::Result<()> {
        let message = format!("Uncommitted files of session {session}\n");
        write!(
            self.to,
            "feature done\ncommit {IMPORTED}\ncommitter aifo <aifo@localhost> {date} +0000\ndata {}\n{message}",
            message.len()
        )?;
        if let Some(parent) = parent {
            writeln!(self.to, "from {parent}")?;
        }
        self.to.write_all(b"deleteall\n")
    }

    fn files(
        &mut self,
        paths: &BTreeSet<WorkspacePath>,
        committed: &TreeEntries,
        notes: &mut Notes,
    ) -> Result<(), SyncError> {
        let submodules = committed.iter().filter(|(_, entry)| entry.mode == SUBMODULE);
        let submodules: BTreeSet<&[u8]> = submodules.map(|(path, _)| path.as_slice()).collect();
        for path in &submodules {
            notes.submodules.add(&String::from_utf8_lossy(path));
            self.keep(path, committed)?;
        }
        for path in paths {
            let bytes = path.as_bytes();
            let mut above = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let is_below =
                above.any(|(at, _)| submodules.contains(bytes.get(..at).unwrap_or_default()));
            if is_below || submodules.contains(bytes) {
                continue;
            }
            if let Err(why) = self.file(path, notes)? {
                // The committed version stays.
                notes.skipped.add(&format!("{path} ({why})"));
                self.keep(bytes, committed)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, path: &[u8], committed: &TreeEntries) -> io::Result<()> {
        let Some(entry) = committed.get(path) else { return Ok(()) };
        write!(self.to, "M {} {} ", entry.mode, entry.id)?;
        self.path(path)
    }

    /// Writes a file or link, or returns why it cannot be committed.
    fn file(
        &mut self,
        path: &WorkspacePath,
        notes: &mut Notes,
    ) -> Result<Result<(), &'static str>, SyncError> {
        if path.is_in_repository() {
            return Ok(Err("is in a repository's directory"));
        }
        if let Object::Link(target) = self.tree.object(path.as_path()) {
            self.to.write_all(b"M 120000 inline ")?;
            self.path(path.as_bytes())?;
            writeln!(self.to, "data {}", target.len())?;
            self.to.write_all(&target)?;
            self.to.write_all(b"\n")?;
            return Ok(Ok(()));
        }
        let Ok((mut file, is_executable)) = self.tree.open_file(path.as_path()) else {
            return Ok(Err("cannot be read"));
        };
        let length = file.metadata()?.len();
        if length > MAX_FILE {
            return Ok(Err("has more than 100 MiB"));
        }
        let Some(left) = self.left.checked_sub(length) else {
            return Ok(Err("more than 2 GiB in all"));
        };
        self.left = left;
        let mode = if is_executable { "100755" } else { "100644" };
        write!(self.to, "M {mode} inline ")?;
        self.path(path.as_bytes())?;
        writeln!(self.to, "data {length}")?;
        let mut start = Vec::new();
        (&mut file).take(length.min(LFS_POINTER.len() as u64)).read_to_end(&mut start)?;
        self.to.write_all(&start)?;
        if start == LFS_POINTER {
            notes.pointers.add(&path.to_string());
        }
        let rest = length - start.len() as u64;
        if io::copy(&mut file.take(rest), &mut self.to)? != rest {
            return Err(SyncError::Changed { path: path.to_string() });
        }
        self.to.write_all(b"\n")?;
        Ok(Ok(()))
    }

    /// Writes a path in quotes, and the end of the line.
    fn path(&mut self, path: &[u8]) -> io::Result<()> {
        let mut quoted = vec![b'"'];
        for byte in path {
            match byte {
                b'"' | b'\\' | ..b' ' | 0x7f.. => quoted.extend(format!("\\{byte:03o}").bytes()),
                _ => quoted.push(*byte),
            }
        }
        quoted.extend(b"\"\n");
        self.to.write_all(&quoted)
    }
}

/// Files of which the user is informed.
#[derive(Debug, Default)]
struct Notes {
    skipped: Named,
    submodules: Named,
    pointers: Named,
}

/// Paths, of which the first are named.
#[derive(Debug, Default)]
struct Named {
    paths: Vec<String>,
    more: usize,
}

impl Named {
    fn add(&mut self, path: &str) {
        match self.paths.len() < MAX_NAMED {
            true => self.paths.push(format!("'{}'", aifo_types::escape_line(path))),
            false => self.more += 1,
        }
    }

    fn line(&self, what: &str) -> Option<String> {
        let more = if self.more > 0 { format!(" and {} more", self.more) } else { String::new() };
        (!self.paths.is_empty()).then(|| format!("{what}: {}{more}", self.paths.join(", ")))
    }
}

impl Notes {
    fn lines(&self) -> Vec<String> {
        let lines = [
            self.skipped.line("not committed"),
            self.submodules.line("submodules, of which only the reference is in the result"),
            self.pointers.line("pointers of Git LFS, whose contents are not in the result"),
        ];
        lines.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let mut import = Import { to: Vec::new(), tree: &tree, left: 0 };
        import.path(b"a \"b\"\n\\\xff").unwrap();
        assert_eq!(import.to, b"\"a \\042b\\042\\012\\134\\377\"\n");
    }

    #[test]
    fn the_first_paths_are_named() {
        let mut named = Named::default();
        (0..7).for_each(|index| named.add(&format!("p{index}")));
        assert_eq!(named.line("x").unwrap(), "x: 'p0', 'p1', 'p2', 'p3', 'p4' and 2 more");
        assert_eq!(Named::default().line("x"), None);
    }
}
