//! Change notification by inotify.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor},
};

use crate::mailbox::files::directory::{Directory, proc_fd_path};

/// A non-blocking inotify instance.
#[derive(Debug)]
pub(crate) struct Watch(Inotify);

/// A watched file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WatchId(WatchDescriptor);

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchEvent {
    /// A file of this name was moved into the directory, or closed after writing.
    Placed(Vec<u8>),
    /// A watched file changed.
    Changed(WatchId),
    /// Events were lost; anything may have changed.
    Overflow,
}

impl Watch {
    /// Creates an instance without watches.
    pub(crate) fn new() -> nix::Result<Self> {
        Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map(Watch)
    }

    /// Watches a directory for new files.
    pub(crate) fn watch_directory(&self, directory: &Directory) -> nix::Result<()> {
        let flags = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CLOSE_WRITE;
        self.add(directory.as_fd(), flags | AddWatchFlags::IN_ONLYDIR).map(drop)
    }

    /// Watches a file for writes.
    pub(crate) fn watch_growth(&self, file: impl AsFd) -> nix::Result<WatchId> {
        self.add(file.as_fd(), AddWatchFlags::IN_MODIFY)
    }

    /// Stops watching a file.
    pub(crate) fn unwatch(&self, file: WatchId) {
        // The kernel drops the watch of a removed file by itself.
        let _ = self.0.rm_watch(file.0);
    }

    /// Adds a watch by descriptor, whatever the file's name is.
    fn add(&self, fd: BorrowedFd<'_>, flags: AddWatchFlags) -> nix::Result<WatchId> {
        self.0.add_watch(proc_fd_path(fd).as_str(), flags).map(WatchId)
    }

    /// Returns pending events; empty if there are none. Repeat until then.
    pub(crate) fn read_events(&self) -> nix::Result<Vec<WatchEvent>> {
        let events = match self.0.read_events() {
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Vec::new()),
            events => events?,
        };
        let seen = events.into_iter().filter_map(|event| {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                return Some(WatchEvent::Overflow);
            }
            if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                return None;
            }
            let name = event.name.map(OsString::into_vec);
            Some(name.map_or(WatchEvent::Changed(WatchId(event.wd)), WatchEvent::Placed))
        });
        Ok(seen.collect())
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::files::directory::tests::Scratch;
    use std::io::Write;

    #[test]
    fn files_are_announced_when_complete() {
        let scratch = Scratch::new();
        let directory = scratch.directory();
        let watch = Watch::new().unwrap();
        watch.watch_directory(&directory).unwrap();
        assert_eq!(watch.read_events(), Ok(Vec::new()));
        let mut file = directory.create("a.tmp").unwrap();
        assert_eq!(watch.read_events(), Ok(Vec::new()));
        let growth = watch.watch_growth(&file).unwrap();
        file.write_all(b"x").unwrap();
        directory.rename("a.tmp", "a").unwrap();
        let placed = WatchEvent::Placed(b"a".to_vec());
        assert_eq!(watch.read_events(), Ok(vec![WatchEvent::Changed(growth), placed]));
        watch.unwatch(growth);
        file.write_all(b"x").unwrap();
        assert_eq!(watch.read_events(), Ok(Vec::new()));
    }
}
