//! Log files and their rotation.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::entry::{LogEntry, LogEntryKind};

/// Limits on log files (`spec/acp-wire.md#files`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLogLimits {
    /// The size at which a file is rotated. Lines are not split, so a file may exceed it by one
    /// line.
    pub file_bytes: u64,
    /// The most log files in the directory, over all connections.
    pub files: usize,
}

impl Default for WireLogLimits {
    fn default() -> Self {
        WireLogLimits { file_bytes: 16 << 20, files: 4 }
    }
}

/// The current file and its directory.
///
/// Another process with write access to the directory, such as an agent whose workspace contains
/// it, can delete lines. It cannot redirect writes or removals: all names are resolved in the open
/// directory, and files are created exclusively.
#[derive(Debug)]
pub(super) struct LogFiles {
    directory: OwnedFd,
    limits: WireLogLimits,
    agent: String,
    name: LogFileName,
    file: File,
    written: u64,
}

/// The name of a log file, ordered by start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogFileName {
    /// Start of the connection, in milliseconds since 1970.
    begun: u64,
    /// The process that writes the log.
    pid: u32,
    /// The file's number within the log, from 1.
    pub(crate) part: u64,
}

impl LogFiles {
    pub(super) fn create(
        directory: &Path,
        limits: WireLogLimits,
        agent: &str,
        time: Duration,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let directory = open(directory, flags, Mode::empty())?;
        let begun = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (name, file) = first_free(&directory, begun)?;
        let agent = agent.to_owned();
        let mut files = LogFiles { directory, limits, agent, name, file, written: 0 };
        files.begin(time)?;
        Ok(files)
    }

    /// Writes an entry with one call, so that readers never see part of a line.
    pub(super) fn write(&mut self, entry: &LogEntry) -> io::Result<()> {
        if self.written >= self.limits.file_bytes {
            self.name.part = self.name.part.saturating_add(1);
            self.file = make(&self.directory, self.name)?;
            self.written = 0;
            self.begin(entry.time)?;
        }
        self.append(entry)
    }

    /// Starts a file.
    fn begin(&mut self, time: Duration) -> io::Result<()> {
        let LogFileName { pid, part, .. } = self.name;
        let agent = self.agent.clone();
        self.append(&LogEntry { time, kind: LogEntryKind::Head { agent, pid, part } })?;
        self.remove_old();
        Ok(())
    }

    fn append(&mut self, entry: &LogEntry) -> io::Result<()> {
        let line = entry.to_line();
        self.file.write_all(&line)?;
        self.written = self.written.saturating_add(line.len() as u64);
        Ok(())
    }

    /// Removes the oldest files, but not this log's first one, without which the rest cannot be
    /// read.
    fn remove_old(&self) {
        let first = LogFileName { part: 1, ..self.name };
        let names = self.names().unwrap_or_default();
        let surplus = names.len().saturating_sub(self.limits.files.max(2));
        let old = names.into_iter().filter(|name| *name != first && *name != self.name);
        for name in old.take(surplus) {
            // Another process may remove it at the same time.
            let _ = unlinkat(&self.directory, name.file().as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }

    /// Returns the log files in the directory, the oldest first.
    fn names(&self) -> nix::Result<Vec<LogFileName>> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut directory = Dir::openat(&self.directory, ".", flags, Mode::empty())?;
        let names = directory.iter().filter_map(Result::ok);
        let names = names.filter_map(|entry| LogFileName::parse(entry.file_name().to_str().ok()?));
        let mut names: Vec<LogFileName> = names.collect();
        names.sort();
        Ok(names)
    }
}

impl LogFileName {
    fn file(self) -> String {
        format!("acp-{}-{}-{}.jsonl", self.begun, self.pid, self.part)
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix("acp-")?.strip_suffix(".jsonl")?.split('-');
        let mut word = || words.next();
        let found = LogFileName {
            begun: word()?.parse().ok()?,
            pid: word()?.parse().ok()?,
            part: word()?.parse().ok()?,
        };
        // Another spelling is not one of these files.
        (found.file() == name).then_some(found)
    }
}

/// Creates the first file with an unused name, as another log may have started in the same
/// millisecond.
fn first_free(directory: &OwnedFd, begun: u64) -> io::Result<(LogFileName, File)> {
    let pid = std::process::id();
    let mut name = LogFileName { begun, pid, part: 1 };
    loop {
        match make(directory, name) {
            Ok(file) => return Ok((name, file)),
            Err(Errno::EEXIST) => name.begun = name.begun.saturating_add(1),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn make(directory: &OwnedFd, name: LogFileName) -> nix::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_EXCL;
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    openat(directory, name.file().as_str(), flags, mode).map(File::from)
}
