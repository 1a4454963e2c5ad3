//! Unix socket addresses for paths of any length.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, connect, socket};
use nix::sys::stat::Mode;

use crate::descriptor_path::descriptor_path;

/// The address of the socket at a path, for bind and connect.
#[derive(Debug)]
pub struct UnixAddress {
    /// The address; valid while this value lives.
    pub address: UnixAddr,
    /// The directory that the address refers to.
    _directory: Option<OwnedFd>,
}

impl UnixAddress {
    /// Makes an address. A path of more than 107 bytes is addressed through its opened directory.
    ///
    /// Errors: the directory does not exist, or ENAMETOOLONG if the name alone is too long.
    pub fn new(path: &Path) -> nix::Result<Self> {
        if let Ok(address) = UnixAddr::new(path) {
            return Ok(UnixAddress { address, _directory: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::EINVAL);
        };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = open(parent, flags, Mode::empty())?;
        let short = descriptor_path(&directory).join(name);
        Ok(UnixAddress { address: UnixAddr::new(&short)?, _directory: Some(directory) })
    }
}

/// Returns a stream socket that is connected to the one at a path. It blocks and is closed on exec.
pub fn connect_unix(path: &Path) -> nix::Result<OwnedFd> {
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    connect(fd.as_raw_fd(), &UnixAddress::new(path)?.address)?;
    Ok(fd)
}

/// Returns a stream socket that is bound to a path, for `listen(2)`. It does not block and is closed on
/// exec. Until it listens, connections are refused, so its mode may be changed before.
pub fn bind_unix(path: &Path) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    bind(fd.as_raw_fd(), &UnixAddress::new(path)?.address)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, bind, connect, listen, socket,
    };

    #[test]
    fn long_and_short_paths_connect() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path();
        let deep = base.join("d".repeat(100)).join("e".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let stream =
            || socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        for path in [base.join("short.sock"), deep.join("long.sock")] {
            let address = UnixAddress::new(&path).unwrap();
            let listener = stream();
            bind(listener.as_raw_fd(), &address.address).unwrap();
            listen(&listener, Backlog::new(1).unwrap()).unwrap();
            let client = stream();
            let again = UnixAddress::new(&path).unwrap();
            connect(client.as_raw_fd(), &again.address).unwrap();
        }
        assert_eq!(UnixAddress::new(&deep.join("none/a.sock")).unwrap_err(), Errno::ENOENT);
    }
}
