//! The kernel's reports of changed directories (inotify).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::path::{Path, is_below, join};

/// Watches on directories of one workspace.
#[derive(Debug)]
pub(crate) struct Watch {
    inotify: Inotify,
    paths: HashMap<WatchDescriptor, Path>,
    watches: BTreeMap<Path, WatchDescriptor>,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// An object may have changed.
    Changed(Path),
    /// Another directory may be at this path, with other contents.
    Replaced(Path),
    /// Reports were lost.
    Lost,
}

/// The result of a new watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// It was watched before, at this path.
    Known,
    New,
}

const EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_ONLYDIR);

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        Ok(Watch { inotify, paths: HashMap::new(), watches: BTreeMap::new() })
    }

    /// Watches a directory that is open. Errors: ENOSPC without room for another watch.
    pub(crate) fn add(&mut self, path: &[u8], directory: BorrowedFd<'_>) -> nix::Result<Added> {
        // The descriptor's own path: whatever has the directory's name by now is not followed.
        let at = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let watch = self.inotify.add_watch(at.as_str(), EVENTS)?;
        let before = self.watches.insert(path.into(), watch);
        let known = self.paths.insert(watch, path.into());
        if let Some(before) = before.filter(|before| *before != watch) {
            self.drop_watch(before, path);
        }
        Ok(match before == Some(watch) && known.as_deref() == Some(path) {
            true => Added::Known,
            false => Added::New,
        })
    }

    /// Ends the watches on a directory and all below.
    pub(crate) fn remove(&mut self, directory: &[u8]) {
        let paths: Vec<Path> = self
            .watches
            .range(Path::from(directory)..)
            .map(|(path, _)| path.clone())
            .take_while(|path| path.starts_with(directory))
            .filter(|path| **path == *directory || is_below(path, directory))
            .collect();
        for path in paths {
            if let Some(watch) = self.watches.remove(&path) {
                self.drop_watch(watch, &path);
            }
        }
    }

    /// Ends a watch, unless its directory is watched under another name by now.
    fn drop_watch(&mut self, watch: WatchDescriptor, path: &[u8]) {
        if self.paths.get(&watch).is_some_and(|now| **now == *path) {
            self.paths.remove(&watch);
            // The kernel may have ended it with the directory.
            let _ = self.inotify.rm_watch(watch);
        }
    }

    /// Takes the reports that have arrived.
    pub(crate) fn take(&mut self) -> Vec<Report> {
        let mut reports = Vec::new();
        loop {
            let events = match self.inotify.read_events() {
                Ok(events) => events,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    reports.push(Report::Lost);
                    break;
                }
            };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    reports.push(Report::Lost);
                    continue;
                }
                let Some(directory) = self.paths.get(&event.wd) else { continue };
                let Some(name) = event.name else {
                    reports.push(Report::Changed(directory.clone()));
                    continue;
                };
                let path = join(directory, name.as_bytes());
                let arrived = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
                let is_directory = event.mask.contains(AddWatchFlags::IN_ISDIR);
                reports.push(match is_directory && event.mask.intersects(arrived) {
                    true => Report::Replaced(path),
                    false => Report::Changed(path),
                });
            }
        }
        reports
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Returns whether a descriptor has something to read.
pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    // An error counts as readable: the reader sees it.
    poll(&mut fds, PollTimeout::ZERO).map_or(true, |count| count > 0)
}
