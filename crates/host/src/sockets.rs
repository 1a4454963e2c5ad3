//! Sockets of this machine's programs in directories that containers mount (`spec/containers.md#sockets`).

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use aifo_process::descriptor_path;
use nix::{errno::Errno, fcntl::OFlag};

/// Returns the paths, relative to a directory, of the sockets below it that a program has bound: near its root,
/// and deeper those of this network namespace that were bound by an absolute path.
pub fn listening_below(directory: &Path) -> Vec<PathBuf> {
    let bound = bound_in_namespace().into_iter().filter(|path| path.starts_with(directory));
    let found: BTreeSet<PathBuf> = sockets_below(directory).into_iter().chain(bound).collect();
    let relative = |path: &PathBuf| path.strip_prefix(directory).ok().map(Path::to_owned);
    found.iter().filter(|path| is_bound(path)).filter_map(relative).collect()
}

/// Returns whether a program has bound the socket at this path, in whatever network namespace. A datagram
/// socket that connects to one of another type fails before its program notices, with another error than for
/// a socket that no program has.
fn is_bound(path: &Path) -> bool {
    let flags = (OFlag::O_PATH | OFlag::O_NOFOLLOW).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let is_socket = |file: &File| file.metadata().is_ok_and(|it| it.file_type().is_socket());
    let Some(file) = opened.ok().filter(is_socket) else { return false };
    // Longer paths than an address holds.
    let address = descriptor_path(&file);
    let connected = UnixDatagram::unbound().and_then(|socket| socket.connect(address));
    let code = |error: io::Error| error.raw_os_error();
    connected.map_err(code) != Err(Some(Errno::ECONNREFUSED as i32))
}

/// The absolute paths in `/proc/net/unix`: `NUMBER: REFERENCES PROTOCOL FLAGS TYPE STATE INODE PATH`.
fn bound_in_namespace() -> Vec<PathBuf> {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let path = |line: &str| line.find(" /").map(|at| PathBuf::from(&line[at + 1..]));
    sockets.lines().filter_map(path).collect()
}

/// Finds the sockets below a directory, the least deep ones first, in at most 100,000 entries.
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
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn bound_sockets_are_found_without_a_connection() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        // The last path is longer than an address.
        let deep = format!("{}/{}", "a".repeat(90), "b".repeat(90));
        fs::create_dir_all(root.join(&deep)).unwrap();
        let listener = UnixListener::bind(root.join("stream")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let _datagram = UnixDatagram::bind(root.join("datagram")).unwrap();
        let _deep = UnixListener::bind(root.join("moved")).unwrap();
        fs::rename(root.join("moved"), root.join(&deep).join("socket")).unwrap();
        drop(UnixListener::bind(root.join("left")).unwrap());
        fs::write(root.join("file"), "").unwrap();
        std::os::unix::fs::symlink("stream", root.join("link")).unwrap();
        let expected = [PathBuf::from(deep).join("socket"), "datagram".into(), "stream".into()];
        assert_eq!(listening_below(&root), expected);
        let accepted = listener.accept().map_err(|error| error.kind());
        assert_eq!(accepted.err(), Some(io::ErrorKind::WouldBlock));
    }
}
