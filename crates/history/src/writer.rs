//! Writes checkpoints: one `git fast-import` process for the whole session.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdout, Stdio};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::checkpoint::{Note, reference};
use crate::error::HistoryError;
use crate::file::Content;
use crate::git::{Store, last_line};
use crate::names::Name;
use crate::version::{BlobHasher, BlobId, PART, Version};

/// The process, and the commit that is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    child: Child,
    input: BufWriter<Input>,
    output: BufReader<ChildStdout>,
    reference: String,
    /// The commit on which the next one builds, if this process has not written it.
    parent: Option<String>,
    flushes: u64,
}

/// The pipe to git, which is never waited for without end.
#[derive(Debug)]
struct Input(File);

/// git counts as ended if it does nothing for this time, in milliseconds, as on a disk that hangs.
const PATIENCE: u16 = 60_000;

impl Write for Input {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(self.0.as_fd(), PollFlags::POLLOUT)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits for git. Errors: [`PATIENCE`] is over.
fn wait(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(fd, events)], PollTimeout::from(PATIENCE)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// git streams larger contents, too.
const LARGE: &str = "core.bigFileThreshold=1m";

/// The size of git's input pipe: a small checkpoint never waits for git.
const PIPE: i32 = 1 << 20;

impl Writer {
    /// Starts git. `parent` is the session's last checkpoint.
    pub(crate) fn start(
        store: &Store,
        session: &str,
        parent: Option<String>,
    ) -> Result<Self, HistoryError> {
        let system = |source| HistoryError::System { action: "start git", source };
        let mut command =
            store.command(["-c", LARGE, "fast-import", "--quiet", "--date-format=raw"]);
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(system)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(HistoryError::Ended);
        };
        let input = OwnedFd::from(input);
        // The default is smaller, but works.
        let _ = fcntl(&input, FcntlArg::F_SETPIPE_SZ(PIPE));
        let nonblocking = FcntlArg::F_SETFL(OFlag::O_WRONLY | OFlag::O_NONBLOCK);
        fcntl(&input, nonblocking).map_err(|error| system(error.into()))?;
        Ok(Writer {
            child,
            input: BufWriter::with_capacity(64 << 10, Input(File::from(input))),
            output: BufReader::new(output),
            reference: reference(session),
            parent,
            flushes: 0,
        })
    }

    /// Begins a commit.
    pub(crate) fn begin(&mut self, note: &Note) -> Result<(), HistoryError> {
        let message = serde_json::to_string(note).unwrap_or_default();
        let seconds = note.time / 1000;
        let (reference, length) = (&self.reference, message.len());
        let head = format!(
            "commit {reference}\ncommitter aifo <aifo> {seconds} +0000\ndata {length}\n{message}\n"
        );
        self.write(head.as_bytes())?;
        match self.parent.take() {
            Some(parent) => self.write(format!("from {parent}\n").as_bytes()),
            None => Ok(()),
        }
    }

    /// Writes the change of one object; `None` stands for no object. `content` is missing if the store has it. Returns
    /// the id of a large content as it was stored, which is another one if its file was written meanwhile.
    pub(crate) fn change(
        &mut self,
        path: &[u8],
        before: Option<Version>,
        after: Option<Version>,
        content: Option<&Content>,
    ) -> Result<Option<BlobId>, HistoryError> {
        let mut stored = None;
        let (old, new) = (names(path, before), names(path, after));
        for name in old.iter().filter(|name| !new.contains(name)) {
            self.write(format!("D {}\n", name.encode()).as_bytes())?;
        }
        let own = |version: &Version| match version {
            Version::Directory { mode } => Some(format!("{mode:o}")),
            Version::Uncovered(why) => Some(why.word().to_owned()),
            Version::File { .. } => version.odd_mode().map(|mode| format!("{mode:o}")),
            Version::Link { .. } => None,
        };
        for name in &new {
            let git_mode = match (name, after) {
                (Name::Object(_), Some(Version::Link { .. })) => "120000",
                (Name::Object(_), Some(Version::File { mode, .. })) if mode & 0o100 != 0 => {
                    "100755"
                }
                _ => "100644",
            };
            let name_text = name.encode();
            match (name, after.and_then(Version::content), content) {
                (Name::Object(_), Some(id), None) => {
                    self.write(format!("M {git_mode} {id} {name_text}\n").as_bytes())?;
                }
                (Name::Object(_), _, Some(Content::Small(content))) => {
                    self.inline(git_mode, &name_text, content)?;
                }
                (Name::Object(_), _, Some(Content::Large { file, length })) => {
                    stored = Some(self.inline_file(git_mode, &name_text, file, *length)?);
                }
                _ => {
                    let text = after.as_ref().and_then(own).unwrap_or_default();
                    self.inline(git_mode, &name_text, text.as_bytes())?;
                }
            }
        }
        Ok(stored)
    }

    /// Ends the commit.
    pub(crate) fn end(&mut self) -> Result<(), HistoryError> {
        self.write(b"\n")?;
        self.input.flush().map_err(|_| HistoryError::Ended)
    }

    /// Makes all commits readable by other processes, and waits for it.
    pub(crate) fn flush(&mut self) -> Result<(), HistoryError> {
        self.flushes += 1;
        let mark = format!("flushed {}", self.flushes);
        self.write(format!("checkpoint\nprogress {mark}\n").as_bytes())?;
        self.input.flush().map_err(|_| HistoryError::Ended)?;
        loop {
            let mut line = String::new();
            if self.output.buffer().is_empty() {
                wait(self.output.get_ref().as_fd(), PollFlags::POLLIN)
                    .map_err(|_| HistoryError::Ended)?;
            }
            if self.output.read_line(&mut line).map_err(|_| HistoryError::Ended)? == 0 {
                return Err(HistoryError::Ended);
            }
            if line.trim_end().strip_prefix("progress ") == Some(&mark) {
                return Ok(());
            }
        }
    }

    /// Ends git, which stores what it has read.
    pub(crate) fn close(self) -> Result<(), HistoryError> {
        let Writer { mut child, input, output, .. } = self;
        drop(input.into_inner());
        if wait(output.get_ref().as_fd(), PollFlags::POLLIN).is_err() {
            // Stopped, or its disk hangs.
            let _ = child.kill();
        }
        drop(output);
        let system = |source| HistoryError::System { action: "wait for git", source };
        let output = child.wait_with_output().map_err(system)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(HistoryError::Git(last_line(&output.stderr))),
        }
    }

    fn inline(&mut self, git_mode: &str, name: &str, content: &[u8]) -> Result<(), HistoryError> {
        self.write(format!("M {git_mode} inline {name}\ndata {}\n", content.len()).as_bytes())?;
        self.write(content)?;
        self.write(b"\n")
    }

    /// Zeros stand for what is missing of the length by now.
    fn inline_file(
        &mut self,
        git_mode: &str,
        name: &str,
        file: &File,
        length: u64,
    ) -> Result<BlobId, HistoryError> {
        self.write(format!("M {git_mode} inline {name}\ndata {length}\n").as_bytes())?;
        let mut hasher = BlobHasher::new(length);
        let mut part = vec![0; PART];
        let mut at = 0;
        while at < length {
            let room = usize::try_from(length - at).unwrap_or(PART).min(PART);
            let part = part.get_mut(..room).unwrap_or_default();
            let part = match file.read_at(part, at) {
                Ok(read @ 1..) => part.get(..read).unwrap_or_default(),
                _ => {
                    part.fill(0);
                    part
                }
            };
            hasher.update(part);
            self.write(part)?;
            at += part.len() as u64;
        }
        self.write(b"\n")?;
        Ok(hasher.finish())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), HistoryError> {
        self.input.write_all(bytes).map_err(|_| HistoryError::Ended)
    }
}

/// Returns the names in the store that a version of an object has.
fn names(path: &[u8], version: Option<Version>) -> Vec<Name> {
    let path = || path.to_vec();
    match version {
        None => Vec::new(),
        Some(Version::Directory { .. }) => vec![Name::Directory(path())],
        Some(Version::Uncovered(_)) => vec![Name::Uncovered(path())],
        Some(Version::Link { .. }) => vec![Name::Object(path())],
        Some(version @ Version::File { .. }) => {
            let mode = version.odd_mode().map(|_| Name::FileMode(path()));
            [Name::Object(path())].into_iter().chain(mode).collect()
        }
    }
}
