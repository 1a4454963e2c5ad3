//! git on a repository that aifo creates (`spec/kubernetes.md#the-result-branch`).
//!
//! A repository configuration names programs that git runs, so git never opens one that an agent could write. It
//! opens a fresh one, with the variables and the configuration of this file, which may use the objects of another.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use aifo_process::TimedChild;

use super::object_id::{ObjectFormat, ObjectId};
use crate::error::SyncError;

/// A git that the caller trusts.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    /// PATH for its helper programs.
    path: OsString,
    /// Bytes of one allocation.
    memory: u64,
    within: Duration,
}

/// The time of one command.
const WITHIN: Duration = Duration::from_secs(600);
/// One object on a machine of a user.
const MEMORY: u64 = 512 << 20;
/// One object in the container `aifo`, which has 256 MiB.
const MEMORY_IN_POD: u64 = 160 << 20;

impl Git {
    /// The git at this path, with the PATH of its helper programs.
    pub fn new(program: impl Into<PathBuf>, path: impl Into<OsString>) -> Self {
        Git { program: program.into(), path: path.into(), memory: MEMORY, within: WITHIN }
    }

    /// Lowers its memory for the container `aifo` of a pod.
    #[must_use]
    pub fn in_pod(self) -> Self {
        Git { memory: MEMORY_IN_POD, ..self }
    }

    /// Sets the time of one command.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Git { within, ..self }
    }
}

/// A bare repository with aifo's own configuration.
#[derive(Debug)]
pub(crate) struct PrivateRepository<'a> {
    git: &'a Git,
    directory: PathBuf,
}

/// Programs that a repository's objects could start are off; memory is bounded; derived files, which need not agree with
/// the objects, are not read.
const CONFIGURATION: &str = "\tbare = true
\tcommitGraph = false
\tmultiPackIndex = false
\tbigFileThreshold = 8m
\tdeltaBaseCacheLimit = 16m
\tpackedGitLimit = 64m
\tpackedGitWindowSize = 4m
\thooksPath = /dev/null
\tfsmonitor = false
[pack]
\tthreads = 1
\twindowMemory = 32m
\tuseBitmaps = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[transfer]
\tfsckObjects = true
[fsck]
\tmissingSpaceBeforeDate = error
";

impl<'a> PrivateRepository<'a> {
    /// Creates it in an empty directory.
    pub(crate) fn create(
        git: &'a Git,
        directory: &Path,
        format: ObjectFormat,
    ) -> Result<Self, SyncError> {
        let create = || {
            for name in ["objects/info", "objects/pack", "refs/heads/aifo"] {
                DirBuilder::new().recursive(true).mode(0o700).create(directory.join(name))?;
            }
            let version = u8::from(format != ObjectFormat::Sha1);
            let mut text =
                format!("[core]\n\trepositoryFormatVersion = {version}\n{CONFIGURATION}");
            if format != ObjectFormat::Sha1 {
                text += &format!("[extensions]\n\tobjectFormat = {}\n", format.name());
            }
            fs::write(directory.join("config"), text)?;
            fs::write(directory.join("HEAD"), "ref: refs/heads/none\n")
        };
        create().map_err(SyncError::file("write", directory))?;
        Ok(PrivateRepository { git, directory: directory.to_owned() })
    }

    /// Returns one that was created before, in a directory of aifo's.
    pub(crate) fn of(git: &'a Git, directory: &Path) -> Self {
        PrivateRepository { git, directory: directory.to_owned() }
    }

    /// Uses the objects of another repository, too.
    pub(crate) fn use_objects_of(&self, objects: &Path) -> Result<(), SyncError> {
        let file = self.directory.join("objects/info/alternates");
        let line = [objects.as_os_str().as_bytes(), b"\n"].concat();
        fs::write(&file, line).map_err(SyncError::file("write", file))
    }

    /// Sets the commits at which the history ends.
    pub(crate) fn cut_at<'b>(
        &self,
        commits: impl IntoIterator<Item = &'b ObjectId>,
    ) -> Result<(), SyncError> {
        let file = self.directory.join("shallow");
        let text: String = commits.into_iter().map(|it| format!("{it}\n")).collect();
        match text.is_empty() {
            true => Ok(()),
            false => fs::write(&file, text).map_err(SyncError::file("write", file)),
        }
    }

    /// Returns a command with these words.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.git.program);
        command.env_clear().current_dir("/").args(words);
        let directory = self.directory.as_os_str();
        let memory = OsString::from(self.git.memory.to_string());
        let null = OsStr::new("/dev/null");
        let one = OsStr::new("1");
        for (name, value) in [
            ("PATH", self.git.path.as_os_str()),
            ("HOME", directory),
            ("LC_ALL", OsStr::new("C")),
            ("GIT_DIR", directory),
            ("GIT_CONFIG_NOSYSTEM", one),
            ("GIT_CONFIG_SYSTEM", null),
            ("GIT_CONFIG_GLOBAL", null),
            ("GIT_ATTR_NOSYSTEM", one),
            ("GIT_NO_REPLACE_OBJECTS", one),
            ("GIT_NO_LAZY_FETCH", one),
            ("GIT_OPTIONAL_LOCKS", OsStr::new("0")),
            ("GIT_TERMINAL_PROMPT", OsStr::new("0")),
            ("GIT_ALLOC_LIMIT", memory.as_os_str()),
        ] {
            command.env(name, value);
        }
        command
    }

    /// Runs a command with an input, and returns its output of at most `limit` bytes.
    pub(crate) fn output<S: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
        input: &str,
        limit: u64,
    ) -> Result<Vec<u8>, SyncError> {
        self.run(
            self.command(words),
            |stdin| {
                // A command that has failed reads no more; its stderr has the reason.
                let _ = stdin.write_all(input.as_bytes());
                Ok(())
            },
            |stdout| {
                let mut bytes = Vec::new();
                stdout.take(limit + 1).read_to_end(&mut bytes)?;
                match bytes.len() as u64 > limit {
                    true => Err(SyncError::StreamLimit { limit, of: "bytes of output of git" }),
                    false => Ok(bytes),
                }
            },
        )
        .map(|((), bytes)| bytes)
    }

    /// Runs a command: `feed` writes its stdin, and `read` reads its stdout. Errors: that of git, unless it comes from
    /// `feed` or `read`.
    pub(crate) fn run<F: Send, R>(
        &self,
        mut command: Command,
        feed: impl FnOnce(&mut dyn Write) -> Result<F, SyncError> + Send,
        read: impl FnOnce(&mut dyn Read) -> Result<R, SyncError>,
    ) -> Result<(F, R), SyncError> {
        let action = action_of(&command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SyncError::NoGit,
            _ => SyncError::file("run", &self.git.program)(error),
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(mut stdout), Some(mut stderr)) = pipes else {
            return Err(SyncError::Malformed("git has no pipes"));
        };
        let child = TimedChild::watch(child, self.git.within)?;
        let (fed, output, errors) = thread::scope(|scope| {
            let errors = scope.spawn(move || {
                let mut start = Vec::new();
                let _ = (&mut stderr).take(MAX_STDERR).read_to_end(&mut start);
                let _ = io::copy(&mut stderr, &mut io::sink());
                start
            });
            let feeder = scope.spawn(move || {
                let fed = feed(&mut stdin);
                (fed, drop(stdin)).0
            });
            let output = read(&mut stdout);
            if output.is_err() {
                child.kill();
            }
            // A command that writes more gets SIGPIPE.
            drop(stdout);
            let fed = feeder.join().unwrap_or(Err(SyncError::Truncated));
            let errors = errors.join().unwrap_or_default();
            (fed, output, errors)
        });
        let (status, is_late) = child.finish(END_TIME)?;
        if is_late {
            return Err(SyncError::GitTimeout { action, secs: self.git.within.as_secs() });
        }
        let output = output?;
        let failed = || SyncError::Git { action, message: message_of(&errors) };
        match fed {
            // Git's own reason is better than that its pipe has ended.
            Err(SyncError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(failed()),
            Err(error) => Err(error),
            Ok(_) if !status.success() => Err(failed()),
            Ok(fed) => Ok((fed, output)),
        }
    }
}

const MAX_STDERR: u64 = 64 << 10;
/// The time for a command to end after its pipes are closed.
const END_TIME: Duration = Duration::from_secs(10);
const MAX_CAUSES: usize = 3;

/// Returns the command name, after options of git.
fn action_of(command: &Command) -> String {
    let mut words = command.get_args();
    loop {
        match words.next() {
            Some(word) if word == "-c" => drop(words.next()),
            word => return word.unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// Returns the reason in git's messages: the first lines with a cause, else the last line.
fn message_of(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let starts = ["fatal: ", "error: ", "remote: ", "! "];
    let is_cause = |line: &&str| starts.iter().any(|start| line.starts_with(start));
    let causes: Vec<&str> = lines().filter(is_cause).take(MAX_CAUSES).collect();
    let text = match causes.as_slice() {
        [] => lines().next_back().unwrap_or("it printed no reason").to_owned(),
        causes => causes.join("; "),
    };
    aifo_types::escape_line(&text.chars().take(500).collect::<String>())
}
