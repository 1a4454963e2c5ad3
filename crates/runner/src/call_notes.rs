//! Facts of the sidecar that may explain a call's outcome (`spec/runner.md#call-notes`).
//!
//! A tool's stderr bypasses the runner, so a note depends on no text. It depends on the call's words,
//! its ending, and facts that the runner reads after the end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_types::{Ending, ExecRequest};
use aifo_wire::CallNote;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::statvfs::{FsFlags, statvfs};

use crate::sidecar_limits::{LimitCounts, SidecarLimits};

/// A note and its conditions.
struct Row {
    note: CallNote,
    /// The sidecar's kinds; empty for all.
    kinds: &'static [&'static str],
    words: fn(&ExecRequest) -> bool,
    endings: Endings,
    /// Read after the end, if all else applies.
    fact: fn(&Facts<'_>) -> bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endings {
    /// Other than with exit code 0.
    Failed,
    Any,
}

/// The first row that applies is reported. A limit that was hit precedes all rows.
const ROWS: [Row; 4] = [
    // husky ignores the failure of git.
    Row {
        note: CallNote::GitConfig,
        kinds: &[],
        words: |_| true,
        endings: Endings::Any,
        fact: |facts| facts.git_config_was_locked(),
    },
    Row {
        note: CallNote::GitHooks,
        kinds: &[],
        words: installs_hooks,
        endings: Endings::Failed,
        fact: |facts| facts.hooks_are_read_only(),
    },
    Row {
        note: CallNote::Certificates,
        kinds: &[],
        words: |_| true,
        endings: Endings::Failed,
        fact: |facts| facts.opened_bundles > 0,
    },
    // These have certificates of their own.
    Row {
        note: CallNote::Certificates,
        kinds: &["node", "python"],
        words: downloads_packages,
        endings: Endings::Failed,
        fact: |facts| facts.lacks_certificates,
    },
];

/// Programs that install hooks, also as an argument of `npx`, `uvx` or `python -m`, and the words that
/// select this.
const HOOK_INSTALLERS: [(&[u8], &[&[u8]]); 5] = [
    (b"lefthook", &[b"install"]),
    (b"overcommit", &[b"--install", b"-i"]),
    (b"pre-commit", &[b"install"]),
    (b"pre_commit", &[b"install"]),
    (b"simple-git-hooks", &[]),
];

/// Words of package managers: the names after them are packages, and no programs.
const PACKAGE_COMMANDS: [&[u8]; 4] = [b"add", b"i", b"install", b"uninstall"];

/// The facts about the sidecar that notes need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteOptions {
    /// The machine has certificates that the sidecar lacks.
    pub lacks_certificates: bool,
}

/// Tools that download packages with one of [`DOWNLOADS`], or always.
const PACKAGE_TOOLS: [&[u8]; 8] =
    [b"npm", b"yarn", b"pnpm", b"corepack", b"uv", b"pip", b"pip3", b"bun"];
const PACKAGE_RUNNERS: [&[u8]; 2] = [b"npx", b"uvx"];
const DOWNLOADS: [&[u8]; 15] = [
    b"add",
    b"audit",
    b"ci",
    b"create",
    b"dlx",
    b"download",
    b"exec",
    b"i",
    b"install",
    b"lock",
    b"publish",
    b"sync",
    b"update",
    b"upgrade",
    b"view",
];

fn downloads_packages(request: &ExecRequest) -> bool {
    let mut words = request.argv().take(MAX_WORDS);
    let Some(tool) = words.next() else { return false };
    let tool = Path::new(OsStr::from_bytes(tool)).file_name();
    let tool = tool.map(OsStrExt::as_bytes).unwrap_or_default();
    PACKAGE_RUNNERS.contains(&tool)
        || PACKAGE_TOOLS.contains(&tool) && words.any(|word| DOWNLOADS.contains(&word))
}

fn installs_hooks(request: &ExecRequest) -> bool {
    let mut words = request.argv().take(MAX_WORDS);
    while let Some(word) = words.next() {
        if PACKAGE_COMMANDS.contains(&word) {
            return false;
        }
        let name = Path::new(OsStr::from_bytes(word)).file_name().map(OsStr::as_bytes);
        let installer = HOOK_INSTALLERS.iter().find(|(installer, _)| name == Some(installer));
        if let Some((_, selecting)) = installer {
            return selecting.is_empty() || words.any(|word| selecting.contains(&word));
        }
    }
    false
}

/// A program's name follows few options.
const MAX_WORDS: usize = 8;

/// Reads the facts.
#[derive(Debug)]
pub(crate) struct CallNotes {
    kind: String,
    limits: SidecarLimits,
    git: Option<GitWatch>,
    /// How often `config.lock` was created.
    config_locks: u64,
    /// Only of a sidecar that lacks certificates.
    bundles: Option<BundleWatch>,
    /// How often a bundle of certificates was opened.
    opened_bundles: u64,
}

/// The rows whose kind and words apply to a call: bit n for row n.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoteRows(u32);

/// The facts at the start of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoteState {
    limits: LimitCounts,
    config_locks: u64,
    opened_bundles: u64,
}

struct Facts<'a> {
    git: Option<&'a GitWatch>,
    config_locks: u64,
    opened_bundles: u64,
    lacks_certificates: bool,
}

impl CallNotes {
    /// Opens what later calls need.
    pub(crate) fn of_this_process(options: NoteOptions) -> Self {
        // Only the mounts of a container make a repository read-only.
        let git = (std::process::id() == 1).then(GitWatch::open).flatten();
        let limits = SidecarLimits::of_this_process();
        let bundles = options.lacks_certificates.then(BundleWatch::open).flatten();
        let kind = String::new();
        CallNotes { kind, limits, git, config_locks: 0, bundles, opened_bundles: 0 }
    }

    /// Sets the sidecar's kind, and watches the repository of the workspace if its configuration is
    /// read-only.
    pub(crate) fn configure(&mut self, kind: &str, workspace: &Path) {
        kind.clone_into(&mut self.kind);
        self.git = self.git.take().and_then(|git| git.watch(workspace));
    }

    /// Returns the rows that may apply to a call.
    pub(crate) fn rows(&self, request: &ExecRequest) -> NoteRows {
        let applies = |row: &Row| {
            (row.kinds.is_empty() || row.kinds.contains(&self.kind.as_str()))
                && (row.words)(request)
        };
        let bits = ROWS.iter().zip(0..).map(|(row, bit)| u32::from(applies(row)) << bit);
        NoteRows(bits.sum())
    }

    /// Returns the state at the start of a call. Costs a few microseconds.
    pub(crate) fn state(&mut self) -> NoteState {
        self.count_events();
        let (config_locks, opened_bundles) = (self.config_locks, self.opened_bundles);
        NoteState { limits: self.limits.counts(), config_locks, opened_bundles }
    }

    /// Returns the note for a call that has ended.
    pub(crate) fn note(
        &mut self,
        rows: NoteRows,
        before: NoteState,
        ending: Ending,
    ) -> Option<CallNote> {
        let is_failed = ending != Ending::Exited(0);
        // The kernel does not report which process hit the limit, so it is reported for every exec
        // that failed meanwhile.
        let limit = is_failed.then(|| self.limits.hit_since(before.limits)).flatten();
        if let Some(limit) = limit {
            return Some(CallNote::Limit(limit));
        }
        self.count_events();
        let facts = Facts {
            git: self.git.as_ref(),
            config_locks: self.config_locks - before.config_locks,
            opened_bundles: self.opened_bundles - before.opened_bundles,
            lacks_certificates: self.bundles.is_some(),
        };
        let applies = |(row, bit): &(&Row, u32)| {
            rows.0 & 1 << bit != 0
                && (is_failed || row.endings == Endings::Any)
                && (row.fact)(&facts)
        };
        ROWS.iter().zip(0..).find(applies).map(|(row, _)| row.note)
    }

    fn count_events(&mut self) {
        self.config_locks += self.git.as_ref().map_or(0, GitWatch::take_config_locks);
        self.opened_bundles += self.bundles.as_ref().map_or(0, BundleWatch::take_opens);
    }
}

impl Facts<'_> {
    /// git creates `config.lock`, then fails to rename it, as `config` is a mount.
    fn git_config_was_locked(&self) -> bool {
        self.config_locks > 0 && self.is_read_only("config")
    }

    fn hooks_are_read_only(&self) -> bool {
        self.is_read_only("hooks")
    }

    fn is_read_only(&self, name: &str) -> bool {
        self.git.is_some_and(|git| git.is_read_only(name))
    }
}

/// A watch of new files in a repository directory. It wakes nothing: the kernel queues the
/// events, at most 16384, until a call starts or ends.
#[derive(Debug)]
struct GitWatch {
    inotify: Inotify,
    directory: PathBuf,
}

/// More than the kernel queues, so that a tool that creates files does not keep the runner.
const MAX_READS: u32 = 512;

impl GitWatch {
    fn open() -> Option<Self> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        let inotify = Inotify::init(flags).ok()?;
        Some(GitWatch { inotify, directory: PathBuf::new() })
    }

    fn watch(mut self, workspace: &Path) -> Option<Self> {
        self.directory = workspace.join(".git");
        let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_ONLYDIR;
        let flags = flags | AddWatchFlags::IN_DONT_FOLLOW;
        self.is_read_only("config").then_some(())?;
        self.inotify.add_watch(&self.directory, flags).ok()?;
        Some(self)
    }

    fn is_read_only(&self, name: &str) -> bool {
        let mount = statvfs(&self.directory.join(name));
        mount.is_ok_and(|mount| mount.flags().contains(FsFlags::ST_RDONLY))
    }

    fn take_config_locks(&self) -> u64 {
        let mut count = 0;
        for _ in 0..MAX_READS {
            let Ok(events) = self.inotify.read_events() else { break };
            let names = events.iter().filter_map(|event| event.name.as_ref());
            count += names.filter(|name| *name == "config.lock").count() as u64;
        }
        count
    }
}

/// A watch of the files with the certificates of the image: a program that checks one opens them.
#[derive(Debug)]
struct BundleWatch(Inotify);

/// The usual paths of the system's certificates.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

impl BundleWatch {
    fn open() -> Option<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
        for bundle in BUNDLES {
            // An image has at most one of them.
            let _ = inotify.add_watch(bundle, AddWatchFlags::IN_OPEN);
        }
        Some(BundleWatch(inotify))
    }

    fn take_opens(&self) -> u64 {
        let mut count = 0;
        while let Ok(events) = self.0.read_events() {
            count += events.len() as u64;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use aifo_types::{ExecId, ExecRequest, ToolName};

    use super::*;

    fn request(words: &[&str]) -> ExecRequest {
        let mut request = ExecRequest::new(
            ExecId::parse(b"e1").unwrap(),
            ToolName::parse(words[0].as_bytes()).unwrap(),
        );
        request.args = words[1..].iter().map(|word| word.as_bytes().to_vec()).collect();
        request
    }

    #[test]
    fn installers_of_hooks() {
        for words in [
            &["npx", "simple-git-hooks"][..],
            &["npx", "--yes", "lefthook", "install"],
            &["python3", "-m", "pre_commit", "install"],
            &["uvx", "pre-commit", "install"],
            &["uv", "run", ".venv/bin/pre-commit", "install"],
        ] {
            assert!(installs_hooks(&request(words)), "{words:?}");
        }
        for words in [
            &["npm", "install", "simple-git-hooks"][..],
            &["uv", "pip", "install", "pre-commit", "install"],
            &["uvx", "pre-commit", "run", "--all-files"],
            &["python3", "-c", "import pre_commit"],
        ] {
            assert!(!installs_hooks(&request(words)), "{words:?}");
        }
    }

    #[test]
    fn downloads_of_packages() {
        for words in [
            &["npm", "ci"][..],
            &["npm", "--silent", "install", "x"],
            &["npx", "x"],
            &["uv", "pip", "install", "x"],
            &["pip3.x/pip3", "download", "x"],
        ] {
            assert!(downloads_packages(&request_of(words)), "{words:?}");
        }
        for words in [&["npm", "test"][..], &["node", "install.js"], &["python3", "install"]] {
            assert!(!downloads_packages(&request_of(words)), "{words:?}");
        }
    }

    fn request_of(words: &[&str]) -> ExecRequest {
        let tool = words[0].rsplit('/').next().unwrap();
        request(&[&[tool], &words[1..]].concat())
    }

    #[test]
    fn locks_of_the_configuration_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join(".git");
        std::fs::create_dir(&git).unwrap();
        let mut watch = GitWatch::open().unwrap();
        watch.inotify.add_watch(&git, AddWatchFlags::IN_CREATE).unwrap();
        watch.directory = git.clone();
        assert_eq!(watch.take_config_locks(), 0);
        for name in ["index.lock", "config.lock", "HEAD.lock"] {
            std::fs::write(git.join(name), "").unwrap();
        }
        assert_eq!((watch.take_config_locks(), watch.take_config_locks()), (1, 0));
        assert!(!watch.is_read_only("config.lock") && !watch.is_read_only("absent"));
    }
}
