//! Covers over the sockets of this machine's programs in the workspace (`spec/containers.md#sockets`).

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aifo_engine::Mount;
use aifo_process::{current_path, descriptor_path};

use super::kind::WORKSPACE;
use super::repository::{Entry, FileId};

/// A socket that a session has found at its start. The program that has bound it acts for whoever connects,
/// outside of the containers.
#[derive(Debug)]
pub(super) struct HostSocket {
    /// Relative to the workspace, or absolute outside of it.
    path: PathBuf,
    /// Its directory, wherever agent and tools move it. They cannot move a covered socket out of it.
    directory: File,
    name: OsString,
}

/// The sockets that a container has covers over.
#[derive(Debug)]
pub(super) struct SocketCovers {
    workspace: PathBuf,
    /// Each socket, and the file that was there when the container started: the open file keeps the inode
    /// number from being used again.
    sockets: Vec<(Arc<HostSocket>, Option<Entry>)>,
}

/// Covers a socket. It is on every machine, so nothing has to be created, and nothing connects to it.
const NULL: &str = "/dev/null";

impl HostSocket {
    pub(super) fn open(workspace: &Path, path: &Path) -> Option<Arc<Self>> {
        let at = workspace.join(path);
        let (directory, name) = (at.parent()?, at.file_name()?.to_owned());
        let directory = Entry::open(directory, Path::new(""), ".")?.into_file();
        Some(Arc::new(HostSocket { path: path.to_owned(), directory, name }))
    }

    /// The socket's path, which no rename changes.
    fn fixed_path(&self) -> PathBuf {
        descriptor_path(&self.directory).join(&self.name)
    }

    /// The socket's path at this moment.
    fn path_now(&self) -> Option<PathBuf> {
        Some(current_path(&self.directory).ok()?.join(&self.name))
    }

    fn entry(&self) -> Option<Entry> {
        let entry = Entry::open(&descriptor_path(&self.directory), Path::new(""), &self.name)?;
        entry.metadata.file_type().is_socket().then_some(entry)
    }
}

impl SocketCovers {
    pub(super) fn of(workspace: &Path, sockets: &[Arc<HostSocket>]) -> Self {
        let sockets = sockets.iter().map(|socket| (socket.clone(), socket.entry())).collect();
        SocketCovers { workspace: workspace.to_owned(), sockets }
    }

    /// Returns the mounts, at both paths of the workspace, and the options by which the runner checks that
    /// each covers the socket and not another file: the agent can rename directories above it meanwhile.
    pub(super) fn mounts(&self) -> (Vec<Mount>, Vec<OsString>) {
        let mut mounts = (Vec::new(), Vec::new());
        for (socket, entry) in &self.sockets {
            let (Some(_), Some(path), Ok(directory)) =
                (entry, socket.path_now(), socket.directory.metadata())
            else {
                continue;
            };
            let in_workspace = path.strip_prefix(&self.workspace).ok();
            let in_alias = in_workspace.map(|path| Path::new(WORKSPACE).join(path));
            for place in in_alias.into_iter().chain([path.clone()]) {
                let mut value = OsString::from(format!("{}:{}:", directory.dev(), directory.ino()));
                value.push(&place);
                mounts.1.extend(["--cover".into(), value]);
                mounts.0.push(Mount::bind(Path::new(NULL), place, true));
            }
        }
        mounts
    }

    /// Returns the sockets that a program has replaced, which removes their covers from every container, or
    /// has created again.
    pub(super) fn uncovered(&self) -> impl Iterator<Item = &Path> {
        let changed = self.sockets.iter().filter(|(socket, entry)| {
            let now = FileId::of(&socket.fixed_path());
            now.is_some() && now != entry.as_ref().map(Entry::id)
        });
        changed.map(|(socket, _)| socket.path.as_path())
    }

    /// Reports each uncovered socket once, until the container runner is lost: the agent container is not
    /// started again.
    pub(super) async fn report_uncovered(self, lost: impl Future<Output = ()>) {
        let mut reported = Vec::new();
        let check = async {
            while reported.len() < self.sockets.len() {
                for path in self.uncovered() {
                    if !reported.contains(&path) {
                        tracing::warn!(
                            "a program of this machine has replaced its socket '{}': the agent can connect \
                             to it until the session ends",
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_has_covers_at_both_paths_and_its_replacement_is_noticed() {
        let workspace = tempfile::tempdir().unwrap();
        let workspace = workspace.path().canonicalize().unwrap();
        let at = |path: &str| workspace.join(path);
        fs::create_dir(at("run")).unwrap();
        let listening = UnixListener::bind(at("run/app")).unwrap();
        fs::write(at("plain"), "").unwrap();
        let open = |path| HostSocket::open(&workspace, Path::new(path));
        let sockets: Vec<_> =
            ["run/app", "plain", "absent", "no/where"].map(open).into_iter().flatten().collect();
        let covers = || SocketCovers::of(&workspace, &sockets);
        let of_start = covers();
        let to = |mount: &Mount| match mount {
            Mount::Bind { to, .. } => to.clone(),
            other => panic!("{other:?}"),
        };
        let places = |covers: &SocketCovers| -> Vec<PathBuf> {
            let (mounts, checks) = covers.mounts();
            assert_eq!(checks.len(), 2 * mounts.len());
            mounts.iter().map(to).collect()
        };
        assert_eq!(places(&of_start), [PathBuf::from("/workspace/run/app"), at("run/app")]);
        let uncovered =
            |covers: &SocketCovers| -> Vec<_> { covers.uncovered().map(Path::to_owned).collect() };
        assert_eq!(uncovered(&of_start), [PathBuf::from("plain")]);

        // A directory in the place of the socket's own is no other place of the socket.
        fs::rename(at("run"), at("moved")).unwrap();
        fs::create_dir(at("run")).unwrap();
        let _decoy = UnixListener::bind(at("run/app")).unwrap();
        assert_eq!(uncovered(&of_start), [PathBuf::from("plain")]);
        assert_eq!(places(&covers()), [PathBuf::from("/workspace/moved/app"), at("moved/app")]);

        drop(listening);
        fs::remove_file(at("moved/app")).unwrap();
        assert_eq!(uncovered(&of_start), [PathBuf::from("plain")], "a removed one");
        let _again = UnixListener::bind(at("moved/app")).unwrap();
        let _new = UnixListener::bind(at("absent")).unwrap();
        assert_eq!(uncovered(&of_start), ["run/app", "plain", "absent"].map(PathBuf::from));
        assert_eq!(places(&covers()).len(), 4, "both have covers now");
    }
}
