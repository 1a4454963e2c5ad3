//! Being told of changes, by inotify.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::directory::{Directory, proc_fd_path};

/// What is watched, and read without ever blocking.
#[derive(Debug)]
pub struct Watch(Inotify);

/// A file that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchId(WatchDescriptor);

/// Something has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A file of this name has been put into the directory, or closed by who wrote it.
    Placed(Vec<u8>),
    /// Something has become of a watched file.
    Changed(WatchId),
    /// More than is remembered: anything may have happened.
    Overflow,
}

impl Watch {
    /// Watches nothing yet.
    pub fn new() -> nix::Result<Self> {
        Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map(Watch)
    }

    /// What is placed in a directory.
    pub fn watch_directory(&self, directory: &Directory) -> nix::Result<()> {
        let flags = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CLOSE_WRITE;
        self.add(directory.as_fd(), flags | AddWatchFlags::IN_ONLYDIR).map(drop)
    }

    /// What is written to a file.
    pub fn watch_growth(&self, file: impl AsFd) -> nix::Result<WatchId> {
        self.add(file.as_fd(), AddWatchFlags::IN_MODIFY)
    }

    /// The loss of a name: with the last one, its end.
    pub fn watch_removal(&self, file: impl AsFd) -> nix::Result<WatchId> {
        self.add(file.as_fd(), AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_DELETE_SELF)
    }

    /// Watches a file no more.
    pub fn unwatch(&self, file: WatchId) {
        // With the file proc_fd_path the kernel has forgotten it already.
        let _ = self.0.rm_watch(file.0);
    }

    /// By the open file, whatever its name is by now.
    fn add(&self, fd: BorrowedFd<'_>, flags: AddWatchFlags) -> nix::Result<WatchId> {
        self.0.add_watch(proc_fd_path(fd).as_str(), flags).map(WatchId)
    }

    /// Some of what has happened; nothing if nothing has. Call again until then.
    pub fn read_events(&self) -> nix::Result<Vec<WatchEvent>> {
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
    use crate::directory::tests::Scratch;
    use std::fs;
    use std::io::Write;

    #[test]
    fn files_are_announced_when_they_are_whole() {
        let scratch = Scratch::new();
        let directory = scratch.directory();
        let watch = Watch::new().unwrap();
        watch.watch_directory(&directory).unwrap();
        assert_eq!(watch.read_events(), Ok(Vec::new()));
        let mut file = directory.create("a.tmp").unwrap();
        assert_eq!(watch.read_events(), Ok(Vec::new()));
        let growth = watch.watch_growth(&file).unwrap();
        let removal = watch.watch_removal(&file).unwrap();
        assert_eq!(growth, removal, "one file is watched once");
        drop(file.write_all(b"x"));
        directory.rename("a.tmp", "a").unwrap();
        assert_eq!(
            watch.read_events(),
            Ok(vec![WatchEvent::Placed(b"a".to_vec())]),
            "removal alone is left"
        );
        fs::remove_file(scratch.0.join("a")).unwrap();
        assert_eq!(watch.read_events(), Ok(vec![WatchEvent::Changed(removal)]));
        drop(file);
        let rest = watch.read_events().unwrap();
        assert!(rest.contains(&WatchEvent::Changed(removal)), "{rest:?}");
        watch.unwatch(removal);
    }
}
