//! Decides which of a caller's descriptors a tool may get (`spec/exec3.md#passed-descriptors`).
//!
//! A descriptor grants more than its bytes: a directory opens the sender's file system, a terminal
//! accepts input, a socket carries further descriptors, and a file can be reopened through it, also for
//! writing. A descriptor passes if the tool could open the same object itself.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use aifo_process::{Links, RootDirectory, current_path};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{FileStat, SFlag, fstat, makedev};

/// The directories that agent and tools share.
#[derive(Debug)]
pub struct SharedDirectories {
    /// The tools' path of the workspace, then its others.
    workspace: Vec<PathBuf>,
    directories: Vec<SharedDirectory>,
}

#[derive(Debug)]
struct SharedDirectory {
    directory: RootDirectory,
    /// Its path for the proxy, then the paths where the agent sees it.
    names: Vec<PathBuf>,
}

/// The decision on a descriptor. None is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FdDecision {
    /// The tool gets it.
    Pass,
    /// The tool gets a `/dev/null` of its own.
    Null,
    /// The tool gets a pipe, and the bytes are relayed.
    Relay,
}

impl SharedDirectories {
    /// Opens the shared directories: for each its own path first, then the paths where the agent sees
    /// it. `workspace` is the tools' path of the workspace. Errors: one cannot be opened.
    pub fn new(
        workspace: PathBuf,
        shared: impl IntoIterator<Item = Vec<PathBuf>>,
    ) -> io::Result<Self> {
        let directories = shared.into_iter().map(|names| {
            let path = names.first().ok_or(io::ErrorKind::InvalidInput)?;
            Ok(SharedDirectory { directory: RootDirectory::open(path)?, names })
        });
        let directories = directories.collect::<io::Result<Vec<_>>>()?;
        let of_workspace = directories.iter().filter(|it| it.names.contains(&workspace));
        let others = of_workspace.flat_map(|it| &it.names).filter(|name| **name != workspace);
        let workspace = [workspace.clone()].into_iter().chain(others.cloned()).collect();
        Ok(SharedDirectories { workspace, directories })
    }

    /// Returns the tools' path of the workspace, then its other paths.
    pub fn workspace(&self) -> &[PathBuf] {
        &self.workspace
    }

    /// Returns the paths of each directory, its own first.
    pub fn names(&self) -> Vec<Vec<PathBuf>> {
        self.directories.iter().map(|directory| directory.names.clone()).collect()
    }

    /// Returns whether an absolute path without `.` and `..` is below one of the directories, links
    /// unresolved.
    pub(crate) fn name(&self, path: &Path) -> bool {
        let names = self.directories.iter().flat_map(|directory| &directory.names);
        names.chain(&self.workspace).any(|name| path.starts_with(name))
    }

    /// Returns whether a regular file is below one of the directories: its path, opened from the
    /// directory without following links, must lead to the same file.
    fn contain(&self, fd: BorrowedFd<'_>, file: &FileStat) -> bool {
        let Ok(path) = current_path(&fd) else { return false };
        self.directories.iter().any(|directory| {
            let beneath = directory.names.iter().filter_map(|name| path.strip_prefix(name).ok());
            let mut opened = beneath.filter_map(|rest| directory.open(rest).ok());
            opened.any(|stat| stat.st_dev == file.st_dev && stat.st_ino == file.st_ino)
        })
    }
}

impl SharedDirectory {
    fn open(&self, path: &Path) -> nix::Result<FileStat> {
        fstat(self.directory.open_beneath(path, OFlag::O_PATH, Links::Reject)?)
    }
}

/// Decides on a descriptor that a client has sent.
pub(crate) fn decide_fd(fd: BorrowedFd<'_>, directories: &SharedDirectories) -> FdDecision {
    let (Ok(stat), Ok(flags)) = (fstat(fd), fcntl(fd, FcntlArg::F_GETFL)) else {
        return FdDecision::Relay;
    };
    // It cannot be read or written, but other files can be opened through it.
    if OFlag::from_bits_retain(flags).contains(OFlag::O_PATH) {
        return FdDecision::Relay;
    }
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFIFO => FdDecision::Pass,
        SFlag::S_IFCHR if stat.st_rdev == NULL_DEVICE => FdDecision::Null,
        SFlag::S_IFREG if directories.contain(fd, &stat) => FdDecision::Pass,
        _ => FdDecision::Relay,
    }
}

/// `/dev/null` (the kernel's `devices.txt`: 1, 3).
const NULL_DEVICE: u64 = makedev(1, 3);

#[cfg(test)]
mod tests {
    use std::fs::{self, File, hard_link};
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::process::{Child, Command, Stdio};

    use aifo_process::Pty;
    use aifo_types::{TerminalModes, WindowSize};
    use nix::fcntl::open;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::signalfd::SignalFd;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use tempfile::TempDir;

    use super::*;

    /// A workspace, which an agent sees as `alias`, a shared temporary directory, and a directory that
    /// is not shared.
    struct TestDirs {
        base: TempDir,
        directories: SharedDirectories,
    }

    impl TestDirs {
        fn new() -> Self {
            let base =
                tempfile::tempdir_in(fs::canonicalize(std::env::temp_dir()).unwrap()).unwrap();
            let folder = |name: &str| {
                let folder = base.path().join(name);
                fs::create_dir(&folder).unwrap();
                fs::write(folder.join("file"), name).unwrap();
                folder
            };
            let (workspace, tmp) = (folder("workspace"), folder("tmp"));
            let alias = folder("alias");
            for other in ["outside", "workspace/sub", "workspace/sub/deep"] {
                folder(other);
            }
            let shared = [vec![workspace.clone(), alias], vec![tmp]];
            let directories = SharedDirectories::new(workspace, shared).unwrap();
            TestDirs { base, directories }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.base.path().join(name)
        }

        fn open(&self, name: &str) -> File {
            File::open(self.path(name)).unwrap()
        }

        #[track_caller]
        fn check(&self, what: &str, fd: impl AsFd, expected: FdDecision) {
            assert_eq!(decide_fd(fd.as_fd(), &self.directories), expected, "{what}");
        }
    }

    fn path_only(path: &Path) -> OwnedFd {
        open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn pipes_and_null() {
        let dirs = TestDirs::new();
        let (reader, writer) = io::pipe().unwrap();
        dirs.check("pipe, its reading end", reader, FdDecision::Pass);
        dirs.check("pipe, its writing end", writer, FdDecision::Pass);
        let fifo = dirs.path("outside/fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let fifo_fd = File::options().read(true).write(true).open(&fifo).unwrap();
        dirs.check("FIFO", fifo_fd, FdDecision::Pass);
        dirs.check("FIFO, O_PATH", path_only(&fifo), FdDecision::Relay);
        dirs.check("null for reading", File::open("/dev/null").unwrap(), FdDecision::Null);
        let null = File::options().write(true).open("/dev/null").unwrap();
        dirs.check("null for writing", null, FdDecision::Null);
        dirs.check("null, O_PATH", path_only(Path::new("/dev/null")), FdDecision::Relay);
    }

    #[test]
    fn files_in_shared_directories() {
        let dirs = TestDirs::new();
        symlink("sub", dirs.path("workspace/link")).unwrap();
        symlink(dirs.path("workspace"), dirs.path("outside/way-in")).unwrap();
        hard_link(dirs.path("workspace/file"), dirs.path("workspace/sub/linked")).unwrap();
        for name in [
            "workspace/file",
            "workspace/sub/deep/file",
            "workspace/sub/linked",
            "workspace/link/deep/file",
            "outside/way-in/file",
            "tmp/file",
        ] {
            dirs.check(name, dirs.open(name), FdDecision::Pass);
            let own = File::options().read(true).write(true).open(dirs.path(name)).unwrap();
            dirs.check(&format!("{name}, for writing"), own, FdDecision::Pass);
            dirs.check(&format!("{name}, O_PATH"), path_only(&dirs.path(name)), FdDecision::Relay);
        }
        // The check uses the file's current name.
        let file = dirs.open("workspace/file");
        fs::rename(dirs.path("workspace/file"), dirs.path("workspace/renamed")).unwrap();
        dirs.check("renamed within", file, FdDecision::Pass);
    }

    #[test]
    fn files_elsewhere() {
        let dirs = TestDirs::new();
        fs::create_dir(dirs.path("workspace-evil")).unwrap();
        fs::write(dirs.path("workspace-evil/file"), "").unwrap();
        symlink(dirs.path("outside"), dirs.path("workspace/way-out")).unwrap();
        hard_link(dirs.path("outside/file"), dirs.path("workspace/linked")).unwrap();
        let dotted = "workspace/../outside/file";
        let names = ["outside/file", "workspace-evil/file", "workspace/way-out/file", dotted];
        for name in names {
            dirs.check(name, dirs.open(name), FdDecision::Relay);
        }
        // The tool can open the same file by its name in the workspace.
        dirs.check("hard link within", dirs.open("workspace/linked"), FdDecision::Pass);

        let moved = dirs.open("workspace/sub/file");
        dirs.check("before it is moved out", &moved, FdDecision::Pass);
        fs::rename(dirs.path("workspace/sub"), dirs.path("outside/sub")).unwrap();
        symlink(dirs.path("outside/sub"), dirs.path("workspace/sub")).unwrap();
        dirs.check("its directory was replaced by a link", &moved, FdDecision::Relay);
        dirs.check("opened through it", dirs.open("workspace/sub/deep/file"), FdDecision::Relay);
    }

    #[test]
    fn unlinked_files() {
        let dirs = TestDirs::new();
        let deleted = dirs.open("workspace/file");
        fs::remove_file(dirs.path("workspace/file")).unwrap();
        dirs.check("deleted", &deleted, FdDecision::Relay);
        fs::write(dirs.path("workspace/file (deleted)"), "").unwrap();
        dirs.check("deleted, and a file has its name with the suffix", &deleted, FdDecision::Relay);
        let odd = dirs.open("workspace/file (deleted)");
        dirs.check("really called so", odd, FdDecision::Pass);
        let memory = memfd_create("workspace/file", MFdFlags::MFD_CLOEXEC).unwrap();
        dirs.check("memfd", memory, FdDecision::Relay);
        let odd = dirs.path("workspace/a\n b\\040 ");
        fs::write(&odd, "").unwrap();
        dirs.check("a name of white space", File::open(odd).unwrap(), FdDecision::Pass);
    }

    #[test]
    fn other_descriptors_are_relayed() {
        let dirs = TestDirs::new();
        let relayed = |what: &str, fd: &dyn AsFd| dirs.check(what, fd.as_fd(), FdDecision::Relay);
        relayed("directory", &dirs.open("outside"));
        relayed("directory within", &dirs.open("workspace/sub"));
        relayed("the workspace", &dirs.open("workspace"));
        relayed("directory, O_PATH", &path_only(&dirs.path("workspace")));
        for device in ["/dev/zero", "/dev/full", "/dev/urandom"] {
            relayed(device, &File::open(device).unwrap());
        }
        let modes = TerminalModes::default();
        let pty = Pty::open(WindowSize::default(), &modes).unwrap();
        relayed("terminal", &pty.slave);
        relayed("terminal, its other side", &pty.master);
        let (one, other) = UnixStream::pair().unwrap();
        relayed("unix socket", &one);
        relayed("unix socket, its peer", &other);
        relayed("datagram socket", &UnixDatagram::unbound().unwrap());
        let listener = UnixListener::bind(dirs.path("workspace/socket")).unwrap();
        relayed("listening unix socket", &listener);
        relayed("unix socket, O_PATH", &path_only(&dirs.path("workspace/socket")));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        relayed("inet socket", &TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        relayed("listening inet socket", &listener);
        relayed("udp socket", &UdpSocket::bind("127.0.0.1:0").unwrap());
        relayed("signalfd", &SignalFd::new(&nix::sys::signal::SigSet::empty()).unwrap());
    }

    #[test]
    fn a_block_device() {
        let dirs = TestDirs::new();
        let devices = fs::read_dir("/dev").unwrap().flatten();
        let is_block = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device())
        };
        let mut opened = devices.map(|entry| entry.path()).filter(is_block).filter_map(|path| {
            // O_NONBLOCK, because a drive may be empty.
            let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            open(&path, flags, Mode::empty()).ok()
        });
        match opened.next() {
            Some(device) => dirs.check("block device", device, FdDecision::Relay),
            None => skip("a_block_device", "none can be opened here"),
        }
    }

    /// Reports a skipped test, also when output is captured.
    fn skip(test: &str, why: &str) {
        let _ = writeln!(io::stderr(), "left out: fd_passing::{test} ({why})");
    }

    /// A shell in its own mount namespace that has run `mounts`. It ends with its stdin.
    struct MountNamespace(Child);

    impl MountNamespace {
        /// Returns `None`, and reports a skipped test, on a machine without namespaces.
        fn new(mounts: &str) -> Option<Self> {
            let script = format!("{{ {mounts}; }} && echo mounted && read _");
            let mut shell = Command::new("unshare");
            shell.args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]);
            let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut said = String::new();
            let mounted = shell.ok().and_then(|mut shell| {
                BufReader::new(shell.stdout.take()?).read_line(&mut said).ok()?;
                Some(MountNamespace(shell))
            });
            if said != "mounted\n" {
                skip("other_mounts", "no mount namespace here");
                return None;
            }
            mounted
        }

        /// Opens a file for reading in that shell's namespace.
        fn open(&self, path: &Path) -> File {
            let root = PathBuf::from(format!("/proc/{}/root", self.0.id()));
            File::open(root.join(path.strip_prefix("/").unwrap())).unwrap()
        }
    }

    impl Drop for MountNamespace {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }

    #[test]
    fn other_mounts() {
        let dirs = TestDirs::new();
        let [workspace, alias, outside] =
            ["workspace", "alias", "outside"].map(|name| dirs.path(name));
        let read_only = |from: &Path, to: &Path| {
            let (from, to) = (from.display(), to.display());
            format!("mount --bind {from} {to} && mount -o remount,bind,ro {to}")
        };
        let Some(beside) = MountNamespace::new(&read_only(&workspace, &outside)) else { return };
        let file = beside.open(&outside.join("file"));
        dirs.check("the workspace's, read-only at another place", file, FdDecision::Relay);

        // The agent in a container has the workspace at another path.
        let Some(agent) = MountNamespace::new(&read_only(&workspace, &alias)) else { return };
        let file = agent.open(&alias.join("sub/file"));
        dirs.check("the workspace's as the agent sees it", file, FdDecision::Pass);
        dirs.check("the proxy's file at that path", dirs.open("alias/file"), FdDecision::Relay);

        // The tool can write to that file by its path, but not through the descriptor.
        let Some(above) = MountNamespace::new(&read_only(&workspace, &workspace)) else { return };
        let file = above.open(&workspace.join("file"));
        dirs.check("the workspace's, read-only at its own place", file, FdDecision::Pass);

        let Some(disguised) = MountNamespace::new(&read_only(&outside, &workspace)) else { return };
        let file = disguised.open(&workspace.join("file"));
        dirs.check("another file mounted over the workspace's", file, FdDecision::Relay);
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let dirs = TestDirs::new();
        for names in [vec![dirs.path("no-such-folder")], vec![dirs.path("outside/file")], vec![]] {
            assert!(SharedDirectories::new(dirs.path("workspace"), [names]).is_err());
        }
    }
}
