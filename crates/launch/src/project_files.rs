//! Files of the workspace that agents and git execute or obey (`spec/trust.md#changed-project-files`).

use std::collections::BTreeMap;
use std::fs::{Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};

/// Files and directories in the workspace's root.
const NAMES: [&str; 33] = [
    ".aider.conf.yml",
    ".aifo.toml",
    ".claude",
    ".codex",
    ".copilot",
    ".crush.json",
    ".cursor",
    ".devcontainer",
    ".envrc",
    ".gemini",
    ".git",
    ".git/config",
    WORKTREE_CONFIG,
    ".git/hooks",
    ".gitattributes",
    ".githooks",
    ".github/copilot-instructions.md",
    ".gitmodules",
    ".husky",
    ".kimi",
    ".mcp.json",
    ".opencode",
    ".openhands",
    ".pre-commit-config.yaml",
    ".qwen",
    ".vibe",
    ".vscode",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    "QWEN.md",
    "crush.json",
    "opencode.json",
];

const WORKTREE_CONFIG: &str = ".git/config.worktree";

/// Number of files below a name of the list that are compared one by one. Further ones are compared
/// together, by their attributes, so that no file hides the change of another.
const MAX_FILES: usize = 2000;
/// Entries below a name of the list. With more, the name counts as changed.
const MAX_WALK: usize = 100_000;
/// Depth below a directory of the list.
const MAX_DEPTH: usize = 8;
/// A larger file is compared by size, mode and time of change.
const MAX_BYTES: u64 = 1 << 20;
/// Bytes that a snapshot reads; further files are compared as large ones.
const MAX_TOTAL_BYTES: u64 = 64 << 20;
/// Names in a report.
const MAX_NAMES: usize = 20;

/// The state of these files at one time.
#[derive(Debug)]
pub(crate) struct ProjectFiles {
    workspace: PathBuf,
    files: BTreeMap<PathBuf, FileState>,
    /// Bytes that may still be read.
    budget: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum FileState {
    Content {
        digest: [u8; 32],
        mode: u32,
    },
    Link(PathBuf),
    /// A large file, or one that cannot be read. Its owner cannot set the time of a change, unlike that of
    /// a modification.
    Attributes {
        size: u64,
        changed: (i64, i64),
        mode: u32,
    },
    Directory,
    /// The further files of a directory, compared by their attributes.
    Rest([u8; 32]),
    /// Not all of them were seen.
    TooMany,
}

impl ProjectFiles {
    /// Reads the files, without following links.
    pub(crate) fn read(workspace: &Path) -> Self {
        let mut found = ProjectFiles {
            workspace: workspace.to_owned(),
            files: BTreeMap::default(),
            budget: MAX_TOTAL_BYTES,
        };
        for name in NAMES {
            // A linked directory on the way is listed itself, or is no part of the project.
            let parent = Path::new(name).parent().filter(|it| !it.as_os_str().is_empty());
            let is_linked = |path: &Path| workspace.join(path).is_symlink();
            if !parent.is_some_and(is_linked) {
                let depth = if name == ".git" { 0 } else { MAX_DEPTH };
                let mut walk = Walk { name, seen: 0, rest: None };
                found.add(Path::new(name), depth, &mut walk);
                if let Some(rest) = walk.rest {
                    let rest = FileState::Rest(rest.finalize().into());
                    found.files.entry(Path::new(name).join(REST)).or_insert(rest);
                }
            }
        }
        found
    }

    fn add(&mut self, path: &Path, depth: usize, walk: &mut Walk) {
        let full = self.workspace.join(path);
        let Ok(metadata) = full.symlink_metadata() else { return };
        walk.seen += 1;
        if walk.seen > MAX_WALK {
            self.files.insert(PathBuf::from(walk.name).join(REST), FileState::TooMany);
            return;
        }
        // Another session of the workspace creates it, empty, and removes it at its end.
        let is_placeholder = path == Path::new(WORKTREE_CONFIG) && metadata.is_file();
        if is_placeholder && metadata.len() == 0 {
            return;
        }
        if !metadata.is_dir() {
            if walk.seen > MAX_FILES {
                walk.add_to_rest(path, &metadata);
                return;
            }
            let state = FileState::of(&full, &metadata, &mut self.budget);
            self.files.insert(path.to_owned(), state);
            return;
        }
        if depth == 0 {
            self.files.insert(path.to_owned(), FileState::Directory);
            return;
        }
        let Ok(entries) = full.read_dir() else { return };
        let mut names: Vec<_> =
            entries.flatten().take(MAX_WALK + 1).map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            self.add(&path.join(name), depth - 1, walk);
        }
    }

    /// Returns the paths whose files were changed, created or removed since, sorted.
    pub(crate) fn changes(&self) -> Vec<PathBuf> {
        let now = ProjectFiles::read(&self.workspace);
        let mut names: Vec<_> = self.files.keys().chain(now.files.keys()).collect();
        names.sort();
        names.dedup();
        names.retain(|name| {
            let now = now.files.get(*name);
            now == Some(&FileState::TooMany) || self.files.get(*name) != now
        });
        names.into_iter().cloned().collect()
    }

    /// Describes the changes in one line. `None` if there are none.
    pub(crate) fn report(&self) -> Option<String> {
        let changes = self.changes();
        let names = changes.iter().take(MAX_NAMES);
        let names: Vec<_> =
            names.map(|path| aifo_types::escape_line(&path.to_string_lossy())).collect();
        let more = match changes.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!names.is_empty()).then(|| {
            format!(
                "changed in this session, and agents or git execute or obey them: {}{more}",
                names.join(", ")
            )
        })
    }
}

/// The walk below a name of the list.
struct Walk {
    name: &'static str,
    seen: usize,
    /// Covers the files that are not compared one by one.
    rest: Option<Sha256>,
}

/// Stands for them in a report.
const REST: &str = "..";

impl Walk {
    fn add_to_rest(&mut self, path: &Path, metadata: &Metadata) {
        let rest = self.rest.get_or_insert_with(Sha256::new);
        rest.update(path.as_os_str().as_bytes());
        rest.update([0]);
        for number in [metadata.ino(), metadata.size(), metadata.mode().into()] {
            rest.update(number.to_le_bytes());
        }
        for number in [metadata.ctime(), metadata.ctime_nsec()] {
            rest.update(number.to_le_bytes());
        }
    }
}

impl FileState {
    fn of(path: &Path, metadata: &Metadata, budget: &mut u64) -> Self {
        if metadata.is_symlink() {
            return FileState::Link(path.read_link().unwrap_or_default());
        }
        let mode = metadata.mode();
        digest(path, budget).map_or_else(
            || FileState::Attributes {
                size: metadata.size(),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
                mode,
            },
            |digest| FileState::Content { digest, mode },
        )
    }
}

/// Returns the digest of a regular file that is not too large. Never blocks.
fn digest(path: &Path, budget: &mut u64) -> Option<[u8; 32]> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.size() > MAX_BYTES.min(*budget) {
        return None;
    }
    *budget -= metadata.size();
    let mut content = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut content).ok()?;
    if path.as_os_str().as_bytes().ends_with(b"/.git/config") {
        content = without_branches(&content);
    }
    Some(Sha256::digest(&content).into())
}

/// Leaves out the sections that name where a branch is pushed to: git writes them often. A line that
/// git could read as part of another section is kept.
fn without_branches(config: &[u8]) -> Vec<u8> {
    let (mut is_kept, mut is_continued) = (true, false);
    let lines = config.split_inclusive(|byte| *byte == b'\n').filter(|line| {
        let line = line.trim_ascii();
        // After a backslash it is a part of the value before.
        if line.starts_with(b"[") && !(is_kept && is_continued) {
            is_kept = !is_branch_header(line);
        }
        is_continued = line.ends_with(b"\\");
        is_kept
    });
    lines.collect::<Vec<_>>().concat()
}

/// Returns whether a line is only the header of a branch's section. Another section may follow on it.
fn is_branch_header(line: &[u8]) -> bool {
    let name = line.strip_prefix(b"[branch \"").and_then(|rest| rest.strip_suffix(b"\"]"));
    name.is_some_and(|name| !name.iter().any(|byte| matches!(byte, b'"' | b'\\')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn changed_files_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::create_dir_all(dir.join(".husky")).unwrap();
        fs::create_dir_all(dir.join(".git")).unwrap();
        for name in ["AGENTS.md", ".husky/pre-commit", ".git/config", ".envrc", "other"] {
            fs::write(dir.join(name), "before\n").unwrap();
        }
        fs::write(dir.join("CLAUDE.md"), vec![0; 2 << 20]).unwrap();
        let before = ProjectFiles::read(dir);
        assert_eq!(before.report(), None);

        let branch = "before\n[branch \"main\"]\n\tremote = origin\n";
        fs::write(dir.join(".git/config"), branch).unwrap();
        fs::write(dir.join("other"), "after").unwrap();
        assert_eq!(before.report(), None);

        let of_worktree = dir.join(WORKTREE_CONFIG);
        fs::write(&of_worktree, "").unwrap();
        assert_eq!(before.report(), None, "an empty one of another session");
        fs::write(&of_worktree, "[alias]\n").unwrap();
        assert_eq!(before.changes(), [PathBuf::from(WORKTREE_CONFIG)]);
        fs::remove_file(of_worktree).unwrap();

        fs::write(dir.join("AGENTS.md"), "after").unwrap();
        fs::write(dir.join(".git/config"), format!("{branch}[core]\n")).unwrap();
        fs::set_permissions(dir.join(".husky/pre-commit"), fs::Permissions::from_mode(0o700))
            .unwrap();
        fs::remove_file(dir.join(".envrc")).unwrap();
        fs::write(dir.join("CLAUDE.md"), vec![0; 3 << 20]).unwrap();
        fs::create_dir_all(dir.join(".claude/commands")).unwrap();
        fs::write(dir.join(".claude/commands/a\nb.md"), "").unwrap();
        symlink("/etc", dir.join(".codex")).unwrap();
        let changed = [
            ".claude/commands/a\nb.md",
            ".codex",
            ".envrc",
            ".git/config",
            ".husky/pre-commit",
            "AGENTS.md",
            "CLAUDE.md",
        ];
        assert_eq!(before.changes(), changed.map(PathBuf::from));
        assert!(before.report().unwrap().contains("a\\nb.md, .codex, .envrc"));

        for number in 0..MAX_FILES {
            fs::write(dir.join(format!(".claude/{number}")), "").unwrap();
        }
        assert!(before.changes().len() <= MAX_FILES + 7);
        assert!(before.report().unwrap().ends_with("more"));
    }

    #[test]
    fn many_files_hide_no_change() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for directory in [".claude", ".vscode"] {
            fs::create_dir(dir.join(directory)).unwrap();
        }
        for number in 0..=MAX_FILES {
            fs::write(dir.join(format!(".claude/{number:05}")), "").unwrap();
        }
        fs::write(dir.join(".claude/last"), "before").unwrap();
        fs::write(dir.join(".vscode/tasks.json"), "before").unwrap();
        let before = ProjectFiles::read(dir);
        assert_eq!(before.report(), None);
        fs::write(dir.join(".claude/last"), "change").unwrap();
        fs::write(dir.join(".vscode/tasks.json"), "change").unwrap();
        assert_eq!(before.changes(), [".claude/..", ".vscode/tasks.json"].map(PathBuf::from));
    }

    #[test]
    fn a_large_file_with_an_old_time_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("AGENTS.md");
        fs::write(&file, vec![b'a'; 2 << 20]).unwrap();
        let before = ProjectFiles::read(dir.path());
        let time = file.metadata().unwrap().modified().unwrap();
        fs::write(&file, vec![b'b'; 2 << 20]).unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        assert_eq!(before.changes(), [PathBuf::from("AGENTS.md")]);
    }

    #[test]
    fn only_the_section_of_a_branch_is_left_out() {
        let left_out =
            ["[branch \"a\"]\n\tremote = origin\n", "  [branch \"a/b]\"]\r\n\tmerge = x\n"];
        for text in left_out {
            let text = format!("[core]\n\tbare = false\n{text}[remote \"o\"]\n\turl = u\n");
            let rest = without_branches(text.as_bytes());
            assert_eq!(rest, b"[core]\n\tbare = false\n[remote \"o\"]\n\turl = u\n", "{text}");
        }
        // git reads another section in each of these.
        for text in [
            "[branch \"a\"][core]fsmonitor = evil #]\n",
            "[branch \"a\"][core]fsmonitor = evil #\"]\n",
            "[branch \"a\\\"\"][core]fsmonitor = evil #\"]\n",
            "[core]\n\teditor = a \\\n[branch \"a\"]\n\tfsmonitor = evil\n",
            "[branch \"a\"]\n# \\\n[core]\n\tfsmonitor = evil\n",
        ] {
            let rest = without_branches(text.as_bytes());
            assert!(String::from_utf8(rest).unwrap().contains("evil"), "{text}");
        }
    }
}
