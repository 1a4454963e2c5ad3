//! Covers over the sockets of this machine's programs in the workspace (`spec/containers.md#sockets`).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aifo_engine::Mount;

use super::kind::WORKSPACE;
use super::repository::{Entry, FileId};

/// The sockets of this machine's programs that a session has found at its start. Programs that have bound them
/// act for whoever connects, outside of the containers.
#[derive(Debug)]
pub(super) struct HostSockets {
    /// Relative to the workspace, or absolute outside of it. The open file keeps the inode number from being
    /// used again.
    found: Vec<(PathBuf, Option<Entry>)>,
}

/// The sockets that a container has covers over.
#[derive(Debug)]
pub(super) struct SocketCovers {
    workspace: PathBuf,
    /// The path of each socket, and the file that was there when the container started.
    found: Vec<(PathBuf, Option<Entry>)>,
}

/// Covers a socket. It is on every machine, so nothing has to be created, and nothing connects to it.
const NULL: &str = "/dev/null";

impl HostSockets {
    pub(super) fn open(workspace: &Path, sockets: &[PathBuf]) -> Self {
        let found = sockets.iter().map(|path| (path.clone(), open(workspace, path))).collect();
        HostSockets { found }
    }

    /// Returns what to cover now: the sockets at their paths, and those that agent or tools have moved,
    /// where they are.
    pub(super) fn covers(&self, workspace: &Path) -> SocketCovers {
        let mut found: Vec<_> =
            self.found.iter().map(|(path, _)| (path.clone(), open(workspace, path))).collect();
        let id = |entry: &Option<Entry>| entry.as_ref().map(Entry::id);
        let is_moved = |host: &&(PathBuf, Option<Entry>)| {
            host.1.is_some() && FileId::of(&workspace.join(&host.0)) != id(&host.1)
        };
        let moved: Vec<_> =
            self.found.iter().filter(is_moved).map(|(_, entry)| id(entry)).collect();
        if !moved.is_empty() {
            let below = sockets_below(workspace).into_iter();
            let moved = below.filter(|path| moved.contains(&FileId::of(path)));
            let relative =
                moved.filter_map(|path| Some(path.strip_prefix(workspace).ok()?.to_owned()));
            found.extend(relative.map(|path| (path.clone(), open(workspace, &path))));
        }
        SocketCovers { workspace: workspace.to_owned(), found }
    }
}

/// Opens a socket without following a link at its end.
fn open(workspace: &Path, path: &Path) -> Option<Entry> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let entry = Entry::open(&workspace.join(parent), parent, path.file_name()?)?;
    entry.metadata.file_type().is_socket().then_some(entry)
}

impl SocketCovers {
    /// Returns the paths in a container, at both paths of the workspace, of sockets that exist.
    fn places(&self) -> impl Iterator<Item = PathBuf> {
        let existing = self.found.iter().filter(|(_, entry)| entry.is_some());
        existing.flat_map(|(path, _)| {
            let in_alias = path.is_relative().then(|| Path::new(WORKSPACE).join(path));
            in_alias.into_iter().chain([self.workspace.join(path)])
        })
    }

    pub(super) fn mounts(&self) -> impl Iterator<Item = Mount> {
        self.places().map(|path| Mount::bind(Path::new(NULL), path, true))
    }

    /// Returns the options by which the runner checks the covers.
    pub(super) fn expectations(&self) -> Vec<OsString> {
        let Ok(null) = Path::new(NULL).metadata() else { return Vec::new() };
        let word = |path: PathBuf| {
            let mut value = OsString::from(format!("{}:{}:", null.dev(), null.ino()));
            value.push(path);
            ["--expect".into(), value]
        };
        self.places().flat_map(word).collect()
    }

    /// Returns the sockets that a program has replaced, which removes their covers from every container, or
    /// has created again.
    pub(super) fn uncovered(&self) -> impl Iterator<Item = &Path> {
        let changed = self.found.iter().filter(|(path, entry)| {
            let now = FileId::of(&self.workspace.join(path));
            now.is_some() && now != entry.as_ref().map(Entry::id)
        });
        changed.map(|(path, _)| path.as_path())
    }

    /// Reports each uncovered socket once, until the container's runner is lost: the agent's container is not
    /// started again.
    pub(super) async fn report_uncovered(self, lost: impl Future<Output = ()>) {
        let mut reported = Vec::new();
        let check = async {
            while reported.len() < self.found.len() {
                for path in self.uncovered() {
                    if !reported.contains(&path) {
                        tracing::warn!(
                            "a program of this machine has replaced its socket '{}': the agent can connect                              to it until the session ends",
                            path.display()
                        );
                        reported.push(path);
                    }
                }
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            () = check => {}
            () = lost => {}
        }
    }
}

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Finds the sockets below a directory, the least deep ones first, in [`MAX_ENTRIES`] entries.
pub fn sockets_below(directory: &Path) -> Vec<PathBuf> {
    let mut sockets = Vec::new();
    let mut pending = VecDeque::from([directory.to_owned()]);
    let mut entries_seen = 0;
    while let Some(directory) = pending.pop_front() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            entries_seen += 1;
            if entries_seen > MAX_ENTRIES {
                return sockets;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_socket() => sockets.push(entry.path()),
                Ok(kind) if kind.is_dir() => pending.push_back(entry.path()),
                _ => {}
            }
        }
    }
    sockets
}

/// Reading so many takes about a tenth of a second.
const MAX_ENTRIES: u32 = 100_000;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_has_covers_at_both_paths_and_its_replacement_is_noticed() {
        let workspace = tempfile::tempdir().unwrap();
        let workspace = workspace.path();
        fs::create_dir(workspace.join("run")).unwrap();
        let listening = UnixListener::bind(workspace.join("run/app")).unwrap();
        fs::write(workspace.join("plain"), "").unwrap();
        let paths = ["run/app", "plain", "absent"].map(PathBuf::from);
        let host = HostSockets::open(workspace, &paths);
        let covers = host.covers(workspace);
        let places: Vec<_> = covers.places().collect();
        assert_eq!(places, [PathBuf::from("/workspace/run/app"), workspace.join("run/app")]);
        assert_eq!(covers.expectations().len(), 4);
        let uncovered =
            |covers: &SocketCovers| -> Vec<_> { covers.uncovered().map(Path::to_owned).collect() };
        assert_eq!(uncovered(&covers), [PathBuf::from("plain")]);

        drop(listening);
        fs::rename(workspace.join("run/app"), workspace.join("old")).unwrap();
        assert_eq!(uncovered(&covers), [PathBuf::from("plain")], "a removed one");
        let _again = UnixListener::bind(workspace.join("run/app")).unwrap();
        let _new = UnixListener::bind(workspace.join("absent")).unwrap();
        assert_eq!(uncovered(&covers), paths);
        let places: Vec<_> = host.covers(workspace).places().collect();
        let in_workspace = |it: &&PathBuf| it.starts_with(workspace);
        let places: Vec<_> = places.iter().filter(in_workspace).collect();
        let expected = ["run/app", "absent", "old"].map(|it| workspace.join(it));
        assert_eq!(places, expected.each_ref(), "the moved one too");
    }
}
