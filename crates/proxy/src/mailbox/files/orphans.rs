//! Removal of files that belong to abandoned requests.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::stat::FileStat;

use crate::mailbox::files::directory::{Directory, is_regular};
use crate::mailbox::files::limits;
use crate::mailbox::files::liveness::{Heartbeat, HeartbeatFile};
use crate::mailbox::files::name::{CommandName, FileKind, RequestId};

/// The requests that a daemon may clean up.
#[derive(Clone, Debug)]
pub(crate) struct OrphanFilter<'a> {
    /// The commands it serves.
    pub commands: &'a [CommandName],
    /// True if it serves plain requests.
    pub plain: bool,
    /// The current time.
    pub now: SystemTime,
}

/// Removes files of requests that are older than [`limits::ORPHAN_AGE`]. Returns the younger
/// requests that a former daemon claimed and did not answer; these must not run again.
pub(crate) fn remove_orphans(
    directory: &Directory,
    filter: &OrphanFilter<'_>,
) -> nix::Result<Vec<RequestId>> {
    let mut lost = Vec::new();
    let mut old = Vec::new();
    directory.for_each_name(|name| {
        let Some((id, kind)) = RequestId::of_file(name).filter(|(id, _)| filter.matches(id)) else {
            return;
        };
        let file = id.file(kind);
        match directory.stat(&file) {
            // The next daemon finds the rest.
            Ok(stat) if is_old(&stat, filter.now) && old.len() < limits::WAITING => {
                old.push((id, kind));
            }
            Ok(stat) if is_old(&stat, filter.now) => {}
            Ok(_) if kind == FileKind::Run && lost.len() < limits::WAITING => lost.push(id),
            _ => {}
        }
    })?;
    for (id, kind) in old {
        if kind == FileKind::Request && is_kept_alive(directory, &id, filter.now) {
            continue;
        }
        // Fails for a directory, which may stay.
        let _ = directory.remove(&id.file(kind));
    }
    lost.retain(|id| !directory.exists(&id.file(FileKind::Exit)));
    Ok(lost)
}

impl OrphanFilter<'_> {
    fn matches(&self, id: &RequestId) -> bool {
        id.command().map_or(self.plain, |command| self.commands.contains(command))
    }
}

fn is_old(stat: &FileStat, now: SystemTime) -> bool {
    let touched = u64::try_from(stat.st_mtime).map(Duration::from_secs).unwrap_or_default();
    let age = now.duration_since(UNIX_EPOCH + touched);
    age.is_ok_and(|age| age > limits::ORPHAN_AGE)
}

/// Returns whether a client still locks or touches the `.alive` file.
fn is_kept_alive(directory: &Directory, id: &RequestId, now: SystemTime) -> bool {
    let name = id.file(FileKind::Alive);
    let held = directory
        .open_regular(&name)
        .is_ok_and(|file| HeartbeatFile::new(file).read() == Heartbeat::Locked);
    held || directory.stat(&name).is_ok_and(|stat| is_regular(&stat) && !is_old(&stat, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::files::directory::tests::Scratch;
    use std::fs::{self, File};

    #[test]
    fn only_old_files_of_served_requests_are_removed() {
        let scratch = Scratch::new();
        let now = SystemTime::now();
        let age = |name: &str, secs: u64| {
            let file = File::create(scratch.path().join(name)).unwrap();
            file.set_modified(now - Duration::from_secs(secs)).unwrap();
        };
        for name in
            ["make.1.stdout", "make.1.exit", "2.stderr", "make.3.req", "make.4.run", "make.7.req"]
        {
            age(name, 301);
        }
        for name in ["docker.1.exit", "notes.txt", "make", "make.pid", "make.x y.exit"] {
            age(name, 99_999);
        }
        for name in ["make.5.stdout", "make.5.run", "make.6.run", "make.6.exit", "make.7.alive"] {
            age(name, 299);
        }
        let commands = [CommandName::parse(b"make").unwrap()];
        let filter = OrphanFilter { commands: &commands, plain: true, now };
        let lost = remove_orphans(&scratch.directory(), &filter).unwrap();
        assert_eq!(lost.iter().map(RequestId::to_string).collect::<Vec<_>>(), ["make.5"]);
        let mut left: Vec<_> =
            fs::read_dir(scratch.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        let expected = [
            "docker.1.exit",
            "make",
            "make.5.run",
            "make.5.stdout",
            "make.6.exit",
            "make.6.run",
            "make.7.alive",
            "make.7.req",
            "make.pid",
            "make.x y.exit",
            "notes.txt",
        ];
        assert_eq!(left, expected);

        age("8.exit", 301);
        let filter = OrphanFilter { plain: false, ..filter };
        remove_orphans(&scratch.directory(), &filter).unwrap();
        assert!(scratch.path().join("8.exit").exists(), "may be another daemon's");
    }
}
