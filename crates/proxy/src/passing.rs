//! Which of a caller's descriptors a tool may get (`spec/exec3.md#passed-descriptors`).
//!
//! A descriptor is more than its bytes: a directory is a way into the sender's file system, a terminal
//! can be typed into, a socket carries further descriptors, and a file can be opened anew through the
//! descriptor, for writing too. What passes is what the tool could have had by itself.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, OpenHow, ResolveFlag, fcntl, open, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, makedev};

/// The directories that agent and tools share.
#[derive(Debug)]
pub struct SharedPlaces {
    workspace: PathBuf,
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    /// The paths by which it is known: ours, and where the agent sees it.
    names: Vec<PathBuf>,
}

/// What becomes of a descriptor. None is ever refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    /// The tool gets it.
    Passes,
    /// The tool gets a `/dev/null` of its own.
    Null,
    /// The tool gets a pipe, and its bytes travel.
    Relayed,
}

impl SharedPlaces {
    /// The workspace, where tools see it as `workspace`, and the session's temporary directory; each
    /// with its own path first, then others by which the agent knows it. Errors: one cannot be opened.
    pub fn new(
        workspace: PathBuf,
        shared: impl IntoIterator<Item = Vec<PathBuf>>,
    ) -> io::Result<Self> {
        let places = shared.into_iter().map(|names| {
            let path = names.first().ok_or(io::ErrorKind::InvalidInput)?;
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            Ok(Place { directory: open(path, flags, Mode::empty())?, names })
        });
        Ok(SharedPlaces { workspace, places: places.collect::<io::Result<_>>()? })
    }

    /// The workspace as tools see it.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Whether this regular file really lies beneath one of the places: opened again by its path,
    /// from there and without any link, it is the same.
    fn hold(&self, fd: BorrowedFd<'_>, file: &FileStat) -> bool {
        let Ok(path) = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())) else {
            return false;
        };
        self.places.iter().any(|place| {
            let beneath = place.names.iter().filter_map(|name| path.strip_prefix(name).ok());
            let mut opened = beneath.filter_map(|rest| place.open(rest).ok());
            opened.any(|stat| stat.st_dev == file.st_dev && stat.st_ino == file.st_ino)
        })
    }
}

impl Place {
    fn open(&self, path: &Path) -> nix::Result<FileStat> {
        let how =
            OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW).resolve(
                ResolveFlag::RESOLVE_BENEATH
                    | ResolveFlag::RESOLVE_NO_MAGICLINKS
                    | ResolveFlag::RESOLVE_NO_SYMLINKS,
            );
        fstat(openat2(self.directory.as_fd(), path, how)?)
    }
}

/// Looks at a descriptor that came from a client.
pub(crate) fn judge(fd: BorrowedFd<'_>, places: &SharedPlaces) -> Passing {
    let (Ok(stat), Ok(flags)) = (fstat(fd), fcntl(fd, FcntlArg::F_GETFL)) else {
        return Passing::Relayed;
    };
    // It reads nothing and writes nothing, but opens everything.
    if OFlag::from_bits_retain(flags).contains(OFlag::O_PATH) {
        return Passing::Relayed;
    }
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFIFO => Passing::Passes,
        SFlag::S_IFCHR if stat.st_rdev == NULL_DEVICE => Passing::Null,
        SFlag::S_IFREG if places.hold(fd, &stat) => Passing::Passes,
        _ => Passing::Relayed,
    }
}

/// `/dev/null` (the kernel's `devices.txt`: 1, 3).
const NULL_DEVICE: u64 = makedev(1, 3);

#[cfg(test)]
mod tests {
    use std::fs::{self, File, hard_link};
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::process::{Child, Command, Stdio};

    use aifo_process::Pty;
    use aifo_types::{TerminalModes, WindowSize};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::signalfd::SignalFd;
    use nix::unistd::mkfifo;

    use super::*;

    /// A workspace, which an agent sees as `alias`, a shared temporary directory, and a folder that is
    /// neither. All is removed on drop.
    struct Site {
        base: PathBuf,
        places: SharedPlaces,
    }

    impl Site {
        fn new(name: &str) -> Self {
            let base = format!("aifo-passing-{}-{name}", std::process::id());
            let base = fs::canonicalize(std::env::temp_dir()).unwrap().join(base);
            let folder = |name: &str| {
                let folder = base.join(name);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("file"), name).unwrap();
                folder
            };
            let (workspace, tmp) = (folder("workspace"), folder("tmp"));
            let alias = folder("alias");
            for other in ["outside", "workspace/sub", "workspace/sub/deep"] {
                folder(other);
            }
            let shared = [vec![workspace.clone(), alias], vec![tmp]];
            let places = SharedPlaces::new(workspace, shared).unwrap();
            Site { base, places }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.base.join(name)
        }

        fn open(&self, name: &str) -> File {
            File::open(self.path(name)).unwrap()
        }

        #[track_caller]
        fn check(&self, what: &str, fd: impl AsFd, expected: Passing) {
            assert_eq!(judge(fd.as_fd(), &self.places), expected, "{what}");
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.base);
        }
    }

    fn path_only(path: &Path) -> OwnedFd {
        open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn pipes_and_null() {
        let site = Site::new("pipes");
        let (reader, writer) = io::pipe().unwrap();
        site.check("pipe, its reading end", reader, Passing::Passes);
        site.check("pipe, its writing end", writer, Passing::Passes);
        let fifo = site.path("outside/fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let fifo_fd = File::options().read(true).write(true).open(&fifo).unwrap();
        site.check("FIFO", fifo_fd, Passing::Passes);
        site.check("FIFO, O_PATH", path_only(&fifo), Passing::Relayed);
        site.check("null for reading", File::open("/dev/null").unwrap(), Passing::Null);
        let null = File::options().write(true).open("/dev/null").unwrap();
        site.check("null for writing", null, Passing::Null);
        site.check("null, O_PATH", path_only(Path::new("/dev/null")), Passing::Relayed);
    }

    #[test]
    fn files_within() {
        let site = Site::new("within");
        symlink("sub", site.path("workspace/link")).unwrap();
        symlink(site.path("workspace"), site.path("outside/way-in")).unwrap();
        hard_link(site.path("workspace/file"), site.path("workspace/sub/linked")).unwrap();
        for name in [
            "workspace/file",
            "workspace/sub/deep/file",
            "workspace/sub/linked",
            "workspace/link/deep/file",
            "outside/way-in/file",
            "tmp/file",
        ] {
            site.check(name, site.open(name), Passing::Passes);
            let own = File::options().read(true).write(true).open(site.path(name)).unwrap();
            site.check(&format!("{name}, for writing"), own, Passing::Passes);
            site.check(&format!("{name}, O_PATH"), path_only(&site.path(name)), Passing::Relayed);
        }
        // Nothing was opened anew by a name that the file has lost.
        let file = site.open("workspace/file");
        fs::rename(site.path("workspace/file"), site.path("workspace/renamed")).unwrap();
        site.check("renamed within", file, Passing::Passes);
    }

    #[test]
    fn files_elsewhere() {
        let site = Site::new("elsewhere");
        fs::create_dir(site.path("workspace-evil")).unwrap();
        fs::write(site.path("workspace-evil/file"), "").unwrap();
        symlink(site.path("outside"), site.path("workspace/way-out")).unwrap();
        hard_link(site.path("outside/file"), site.path("workspace/linked")).unwrap();
        let dotted = "workspace/../outside/file";
        let names = ["outside/file", "workspace-evil/file", "workspace/way-out/file", dotted];
        for name in names {
            site.check(name, site.open(name), Passing::Relayed);
        }
        // The same file by its name within: the tool can open it itself.
        site.check("hard link within", site.open("workspace/linked"), Passing::Passes);

        let moved = site.open("workspace/sub/file");
        site.check("before it is moved out", &moved, Passing::Passes);
        fs::rename(site.path("workspace/sub"), site.path("outside/sub")).unwrap();
        symlink(site.path("outside/sub"), site.path("workspace/sub")).unwrap();
        site.check("a link was put in its folder's place", &moved, Passing::Relayed);
        site.check("opened through it", site.open("workspace/sub/deep/file"), Passing::Relayed);
    }

    #[test]
    fn files_without_a_name() {
        let site = Site::new("nameless");
        let deleted = site.open("workspace/file");
        fs::remove_file(site.path("workspace/file")).unwrap();
        site.check("deleted", &deleted, Passing::Relayed);
        fs::write(site.path("workspace/file (deleted)"), "").unwrap();
        site.check("deleted, and its name as told is taken", &deleted, Passing::Relayed);
        let odd = site.open("workspace/file (deleted)");
        site.check("really called so", odd, Passing::Passes);
        let memory = memfd_create("workspace/file", MFdFlags::MFD_CLOEXEC).unwrap();
        site.check("memfd", memory, Passing::Relayed);
        let odd = site.path("workspace/a\n b\\040 ");
        fs::write(&odd, "").unwrap();
        site.check("a name of white space", File::open(odd).unwrap(), Passing::Passes);
    }

    #[test]
    fn what_is_more_than_its_bytes() {
        let site = Site::new("more");
        let relayed = |what: &str, fd: &dyn AsFd| site.check(what, fd.as_fd(), Passing::Relayed);
        relayed("directory", &site.open("outside"));
        relayed("directory within", &site.open("workspace/sub"));
        relayed("the workspace", &site.open("workspace"));
        relayed("directory, O_PATH", &path_only(&site.path("workspace")));
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
        let listener = UnixListener::bind(site.path("workspace/socket")).unwrap();
        relayed("listening unix socket", &listener);
        relayed("unix socket, O_PATH", &path_only(&site.path("workspace/socket")));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        relayed("inet socket", &TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        relayed("listening inet socket", &listener);
        relayed("udp socket", &UdpSocket::bind("127.0.0.1:0").unwrap());
        relayed("signalfd", &SignalFd::new(&nix::sys::signal::SigSet::empty()).unwrap());
    }

    #[test]
    fn a_block_device() {
        let site = Site::new("block");
        let devices = fs::read_dir("/dev").unwrap().flatten();
        let is_block = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device())
        };
        let mut opened = devices.map(|entry| entry.path()).filter(is_block).filter_map(|path| {
            // A reader that waits for nothing: a drive may be empty.
            let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            open(&path, flags, Mode::empty()).ok()
        });
        match opened.next() {
            Some(device) => site.check("block device", device, Passing::Relayed),
            None => leave_out("a_block_device", "none can be opened here"),
        }
    }

    /// Names a story that this machine cannot tell, also when output is captured.
    fn leave_out(story: &str, why: &str) {
        // Nobody is left to be told that stderr is gone.
        let _ = writeln!(io::stderr(), "left out: passing::{story} ({why})");
    }

    /// A shell in a mount namespace of its own, after it has run `mounts`. It ends with its stdin.
    struct Elsewhere(Child);

    impl Elsewhere {
        /// `None` on a machine without namespaces; the story is named then.
        fn new(mounts: &str) -> Option<Self> {
            let script = format!("{{ {mounts}; }} && echo mounted && read _");
            let mut shell = Command::new("unshare");
            shell.args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]);
            let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut said = String::new();
            let mounted = shell.ok().and_then(|mut shell| {
                BufReader::new(shell.stdout.take()?).read_line(&mut said).ok()?;
                Some(Elsewhere(shell))
            });
            if said != "mounted\n" {
                leave_out("other_mounts", "no mount namespace here");
                return None;
            }
            mounted
        }

        /// Opens a file for reading as that shell sees it.
        fn open(&self, path: &Path) -> File {
            let root = PathBuf::from(format!("/proc/{}/root", self.0.id()));
            File::open(root.join(path.strip_prefix("/").unwrap())).unwrap()
        }
    }

    impl Drop for Elsewhere {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }

    #[test]
    fn other_mounts() {
        let site = Site::new("mounts");
        let [workspace, alias, outside] =
            ["workspace", "alias", "outside"].map(|name| site.path(name));
        let read_only = |from: &Path, to: &Path| {
            let (from, to) = (from.display(), to.display());
            format!("mount --bind {from} {to} && mount -o remount,bind,ro {to}")
        };
        let Some(beside) = Elsewhere::new(&read_only(&workspace, &outside)) else { return };
        let file = beside.open(&outside.join("file"));
        site.check("the workspace's, read-only at another place", file, Passing::Relayed);

        // The agent in a container has the workspace at another path.
        let Some(agent) = Elsewhere::new(&read_only(&workspace, &alias)) else { return };
        let file = agent.open(&alias.join("sub/file"));
        site.check("the workspace's as the agent sees it", file, Passing::Passes);
        site.check("what lies there for us", site.open("alias/file"), Passing::Relayed);

        // The tool may write to that file by its path, and through the descriptor nobody may.
        let Some(above) = Elsewhere::new(&read_only(&workspace, &workspace)) else { return };
        let file = above.open(&workspace.join("file"));
        site.check("the workspace's, read-only at its own place", file, Passing::Passes);

        let Some(disguised) = Elsewhere::new(&read_only(&outside, &workspace)) else { return };
        let file = disguised.open(&workspace.join("file"));
        site.check("another one in the place of the workspace's", file, Passing::Relayed);
    }

    #[test]
    fn a_place_that_is_not_there() {
        let site = Site::new("names");
        for names in [vec![site.path("no-such-folder")], vec![site.path("outside/file")], vec![]] {
            assert!(SharedPlaces::new(site.path("workspace"), [names]).is_err());
        }
    }
}
