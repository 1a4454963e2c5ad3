//! `aifo-runner`: the command line of the exec server in a sidecar (`spec/runner.md`).
//!
//! `aifo-runner guard|serve [--guarded-by PID] [--stream] [--unlink] [--connect PATH
//! [--connect-secs N]] [--write PATH].. [--writable PATH].. [--expect DEVICE:INODE:PATH].. [--cover DEVICE:INODE:PATH].. [--isolate-network SUBNET]..
//! [--tag NAME] [--restrict NAME,..] [--hide PATH].. [--join-stack PID --resolver PATH [--mask PATH]..]` gets its
//! control connection as stdin or connects itself; `aifo-runner hold-stack` does the same in a network
//! stack of its own; `aifo-runner watch` waits for the launcher to exit; `aifo-runner try-confinement`
//! and `try-stack` only do that.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use aifo_process::{
    Confinement, Restriction, confine, create_network_stack, join_network_stack,
    restore_private_mode, restrict_system_calls, set_parent_death_signal, take_fd,
    try_network_stack,
};
use aifo_runner::{ControlTransport, GUARDED_BY, Owner, ServeOptions};
use aifo_types::{Signal, Subnet, container_path};
use nix::unistd::{AccessFlags, Pid, access};

use crate::expected_file::ExpectedFile;
use crate::log;
use crate::shim_exit::ShimExit;

pub(crate) fn run(args: &[OsString]) -> ShimExit {
    let Some((role, words)) = args.split_first() else { return usage() };
    let ended = match role.to_str() {
        Some("guard") => match Options::parse(words) {
            None => return usage(),
            // The runner below it inherits the connection.
            Some(options) => {
                options.control().and_then(|it| aifo_runner::guard(it, &without_connection(words)))
            }
        },
        Some("monitor") => take_fd(aifo_runner::MONITOR_FD).and_then(aifo_runner::monitor),
        Some("chown") => match parse_chown(words) {
            Some((owner, paths)) => aifo_runner::chown_tree(owner, &paths),
            None => return usage(),
        },
        Some("serve") => match Options::parse(words) {
            Some(options) => {
                if let Some(path) = options.not_writable() {
                    log::line(format_args!("runner: not writable: {}", path.display()));
                    return ShimExit::Code(NOT_WRITABLE);
                }
                if let Some(file) = options.replaced() {
                    let path = file.path.display();
                    log::line(format_args!(
                        "runner: error: '{path}' was replaced during the start"
                    ));
                    return ShimExit::Code(1);
                }
                serve(&options)
            }
            None => return usage(),
        },
        Some("try-confinement") => match Options::parse(words) {
            Some(Options { confinement: Some(confinement), .. }) => {
                confine(&confinement).map_err(|error| {
                    log::to_launcher(&error);
                    io::Error::other(error)
                })
            }
            _ => return usage(),
        },
        Some("hold-stack") => hold_stack(words),
        Some("try-stack") if words.is_empty() => try_network_stack().map_err(|error| {
            log::to_launcher(&error);
            io::Error::other(error)
        }),
        Some("watch") if words.is_empty() => take_fd(0).and_then(aifo_runner::watch_launcher),
        Some("unlink") if words.is_empty() => aifo_runner::unlink_executable(),
        _ => return usage(),
    };
    match ended {
        Ok(()) => ShimExit::Code(0),
        Err(error) => {
            log::line(format_args!("runner: {error}"));
            ShimExit::Code(1)
        }
    }
}

/// Exit code if a `--writable` directory is not writable.
const NOT_WRITABLE: u8 = 3;

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The pid of the guard, with which this runner ends.
    guard: Option<i32>,
    source: ControlSource,
    /// How long a refused connection is tried again: the listener may start later.
    connect_time: Duration,
    /// The confinement of tools, if they are confined.
    confinement: Option<Confinement>,
    /// The network stack of tools, if it is not the machine's.
    stack: Option<JoinedStack>,
    /// Directories that must be writable.
    writable: Vec<PathBuf>,
    /// Files that must be at their paths.
    expected: Vec<ExpectedFile>,
    /// The directories of the null devices that cover sockets, and their paths.
    covers: Vec<ExpectedFile>,
    /// Subnets to isolate the network from.
    network_pools: Vec<Subnet>,
    /// The restrictions of system calls.
    restrictions: Vec<Restriction>,
    lifetime: Lifetime,
    serving: ServeOptions,
}

/// The network stack of another process.
#[derive(Debug, Default, PartialEq, Eq)]
struct JoinedStack {
    holder: i32,
    /// The resolver's configuration.
    resolver: PathBuf,
    /// The paths to hide.
    hidden: Vec<PathBuf>,
}

/// Lifetime of the runner's executable.
#[derive(Debug, Default, PartialEq, Eq)]
enum Lifetime {
    #[default]
    Installed,
    /// It is removed after the start.
    UntilStarted,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum ControlSource {
    /// A socket as stdin.
    #[default]
    Inherited,
    /// Stdin and stdout, which cannot pass descriptors.
    Stream,
    /// A listening socket at this path.
    Connect(PathBuf),
}

impl Options {
    fn parse(words: &[OsString]) -> Option<Self> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(name) = words.next() {
            if name == aifo_runner::STREAM {
                options.source = ControlSource::Stream;
                continue;
            }
            if name == aifo_runner::UNLINK {
                options.lifetime = Lifetime::UntilStarted;
                continue;
            }
            if name == aifo_runner::LACKS_CERTIFICATES {
                options.serving.notes.lacks_certificates = true;
                continue;
            }
            let value = words.next()?;
            match name.to_str() {
                Some(GUARDED_BY) => options.guard = Some(value.to_str()?.parse().ok()?),
                Some(aifo_runner::CONNECT) => {
                    options.source = ControlSource::Connect(PathBuf::from(value));
                }
                Some(aifo_runner::TAG) => options.serving.tag = variable_name(value)?.to_owned(),
                Some(aifo_runner::CONNECT_SECS) => {
                    options.connect_time = Duration::from_secs(value.to_str()?.parse().ok()?);
                }
                Some(aifo_runner::WRITE) => {
                    let confinement = options.confinement.get_or_insert_default();
                    confinement.writable.push(PathBuf::from(value));
                }
                Some(aifo_runner::HIDE) => {
                    let confinement = options.confinement.get_or_insert_default();
                    confinement.namespace.get_or_insert_default().push(PathBuf::from(value));
                }
                Some(aifo_runner::JOIN_STACK) => {
                    options.stack.get_or_insert_default().holder = value.to_str()?.parse().ok()?;
                }
                Some(aifo_runner::RESOLVER) => {
                    options.stack.get_or_insert_default().resolver = PathBuf::from(value);
                }
                Some(aifo_runner::MASK) => {
                    options.stack.get_or_insert_default().hidden.push(PathBuf::from(value));
                }
                Some(aifo_runner::WRITABLE) => options.writable.push(PathBuf::from(value)),
                Some(aifo_runner::EXPECT) => options.expected.push(ExpectedFile::parse(value)?),
                Some(aifo_runner::COVER) => options.covers.push(ExpectedFile::parse(value)?),
                Some(aifo_runner::ISOLATE_NETWORK) => {
                    options.network_pools.push(value.to_str()?.parse().ok()?);
                }
                Some(aifo_runner::RESTRICT) => {
                    let names = value.to_str()?.split(',').map(str::parse);
                    options.restrictions = names.collect::<Result<_, _>>().ok()?;
                }
                _ => return None,
            }
        }
        let is_complete = |stack: &JoinedStack| stack.holder > 0 && stack.resolver.is_absolute();
        options.stack.as_ref().is_none_or(is_complete).then_some(options)
    }

    /// Returns the first file that the engine did not mount as it was to.
    fn replaced(&self) -> Option<&ExpectedFile> {
        let mut covers = self.covers.iter();
        let expected = self.expected.iter().find(|file| !file.is_there());
        expected.or_else(|| covers.find(|cover| !cover.is_covered()))
    }

    /// Returns the first directory that is not writable for this user. First restores the mode of those
    /// that are the user's, which a tool may have changed.
    fn not_writable(&self) -> Option<&PathBuf> {
        let may = AccessFlags::W_OK | AccessFlags::X_OK;
        self.writable.iter().for_each(|path| restore_private_mode(path));
        self.writable.iter().find(|path| access(path.as_path(), may).is_err())
    }

    fn control(&self) -> io::Result<ControlTransport> {
        match &self.source {
            ControlSource::Inherited => Ok(ControlTransport::Socket(take_fd(0)?)),
            ControlSource::Stream => {
                Ok(ControlTransport::Stream { input: take_fd(0)?, output: take_fd(1)? })
            }
            ControlSource::Connect(path) => {
                let connected = connect(path, self.connect_time).map_err(|error| {
                    let message = format!("cannot connect to '{}': {error}", path.display());
                    io::Error::new(error.kind(), message)
                })?;
                Ok(ControlTransport::Socket(connected.into()))
            }
        }
    }
}

/// Connects to a socket. Retries while it does not exist or is not served, for at most `time`.
fn connect(path: &Path, time: Duration) -> io::Result<UnixStream> {
    let deadline = Instant::now() + time;
    loop {
        match UnixStream::connect(path) {
            Err(error) if is_unserved(&error) && Instant::now() < deadline => {
                if path.with_file_name(container_path::LAUNCHER_ENDED).exists() {
                    return Err(io::Error::other("the launcher has ended"));
                }
                std::thread::sleep(CONNECT_PAUSE);
            }
            result => return result,
        }
    }
}

fn is_unserved(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

const CONNECT_PAUSE: Duration = Duration::from_millis(20);

fn serve(options: &Options) -> io::Result<()> {
    // Before any other process runs here, and before the runner reports that it is ready.
    if !options.network_pools.is_empty() {
        aifo_runner::isolate_network(&options.network_pools)?;
    }
    // Before the confinement, which forbids it.
    if let Some(stack) = &options.stack {
        join_network_stack(Pid::from_raw(stack.holder), &stack.resolver, &stack.hidden)
            .map_err(io::Error::other)?;
    }
    if !options.restrictions.is_empty() {
        restrict_system_calls(&options.restrictions).map_err(|error| {
            let message = format!("cannot restrict system calls: {error}");
            io::Error::new(error.kind(), message)
        })?;
    }
    // Before any thread or tool exists, so that all are confined. A change of the user namespace may
    // clear the signal that is set next.
    if let Some(confinement) = &options.confinement {
        confine(confinement).map_err(io::Error::other)?;
    }
    let control = options.control()?;
    if let Some(guard) = options.guard {
        set_parent_death_signal(Pid::from_raw(guard), Signal::Term)?;
    }
    if options.lifetime == Lifetime::UntilStarted {
        // Only root may remove it; if this is not root, a root process does.
        let _ = aifo_runner::unlink_executable();
    }
    aifo_runner::serve(control, options.serving.clone()).map_err(io::Error::other)
}

/// Creates a network stack and executes `serve` in it.
fn hold_stack(words: &[OsString]) -> io::Result<()> {
    create_network_stack().map_err(io::Error::other)?;
    let mut serve = Command::new("/proc/self/exe");
    Err(serve.arg0("aifo-runner").arg("serve").args(words).exec())
}

fn parse_chown(words: &[OsString]) -> Option<(Owner, Vec<PathBuf>)> {
    let (owner, paths) = words.split_first()?;
    let (uid, gid) = owner.to_str()?.split_once(':')?;
    let owner = Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? };
    Some((owner, paths.iter().map(PathBuf::from).collect()))
}

/// Leaves out the options of a connection.
fn without_connection(words: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some(aifo_runner::CONNECT | aifo_runner::CONNECT_SECS) => _ = words.next(),
            _ => kept.push(word.clone()),
        }
    }
    kept
}

/// Returns the name of a variable, of letters, digits and `_`.
fn variable_name(value: &OsStr) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    value.to_str().filter(|name| !name.is_empty() && name.bytes().all(is_plain))
}

fn usage() -> ShimExit {
    log::line("aifo-runner is started by aifo-coder, with its control connection as stdin");
    ShimExit::Code(2)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn options() {
        let parse = |options: &[&str]| Options::parse(&words(options));
        assert_eq!(parse(&[]), Some(Options::default()));
        let guarded = parse(&[GUARDED_BY, "7", aifo_runner::WRITE, "/a", aifo_runner::WRITE, "/b"]);
        let writable = vec![PathBuf::from("/a"), PathBuf::from("/b")];
        let confinement = Some(Confinement { writable: writable.clone(), namespace: None });
        assert_eq!(guarded, Some(Options { guard: Some(7), confinement, ..Options::default() }));
        let [write, hide] = [aifo_runner::WRITE, aifo_runner::HIDE];
        let hiding = parse(&[hide, "/c", write, "/a", write, "/b", hide, "/d"]);
        let namespace = Some(vec![PathBuf::from("/c"), PathBuf::from("/d")]);
        let confinement = Some(Confinement { writable, namespace });
        assert_eq!(hiding, Some(Options { confinement, ..Options::default() }));
        let contained = parse(&[aifo_runner::CONNECT, "/c", aifo_runner::WRITABLE, "/d"]);
        let (source, writable) = (ControlSource::Connect("/c".into()), vec![PathBuf::from("/d")]);
        assert_eq!(contained, Some(Options { source, writable, ..Options::default() }));
        let streamed = parse(&[aifo_runner::STREAM, GUARDED_BY, "7"]);
        let (source, guard) = (ControlSource::Stream, Some(7));
        assert_eq!(streamed, Some(Options { source, guard, ..Options::default() }));
        let isolated = parse(&[
            aifo_runner::ISOLATE_NETWORK,
            "10.88.0.0/16",
            aifo_runner::ISOLATE_NETWORK,
            "10.89.0.0/16",
        ]);
        let pools = ["10.88.0.0/16", "10.89.0.0/16"].map(|pool| pool.parse().unwrap()).to_vec();
        assert_eq!(isolated, Some(Options { network_pools: pools, ..Options::default() }));
        assert_eq!(parse(&[aifo_runner::ISOLATE_NETWORK, "10.88.0.0"]), None);
        let restricted = parse(&[aifo_runner::RESTRICT, "io-uring,set-id"]);
        let restrictions = vec![Restriction::IoUring, Restriction::SetId];
        assert_eq!(restricted, Some(Options { restrictions, ..Options::default() }));
        for names in ["", "io-uring,", "uring"] {
            assert_eq!(parse(&[aifo_runner::RESTRICT, names]), None);
        }
        let [join, resolver, mask] =
            [aifo_runner::JOIN_STACK, aifo_runner::RESOLVER, aifo_runner::MASK];
        let joined = parse(&[join, "7", mask, "/a", resolver, "/r", mask, "/b"]);
        let hidden = vec!["/a".into(), "/b".into()];
        let stack = Some(JoinedStack { holder: 7, resolver: "/r".into(), hidden });
        assert_eq!(joined, Some(Options { stack, ..Options::default() }));
        for incomplete in [&[join, "7"][..], &[resolver, "/r"], &[join, "-1", resolver, "/r"]] {
            assert_eq!(parse(incomplete), None, "{incomplete:?}");
        }
        let lifetime = Lifetime::UntilStarted;
        let unlinked = Some(Options { lifetime, ..Options::default() });
        assert_eq!(parse(&[aifo_runner::UNLINK]), unlinked);
        for words in [&["--x", "1"][..], &[GUARDED_BY], &[GUARDED_BY, "x"], &[aifo_runner::CONNECT]]
        {
            assert_eq!(parse(words), None, "{words:?}");
        }
    }

    #[test]
    fn directories_that_must_be_writable() {
        let options = |path: &str| Options { writable: vec![path.into()], ..Options::default() };
        let own = tempfile::tempdir().unwrap();
        assert_eq!(options(own.path().to_str().unwrap()).not_writable(), None);
        // Not even root can write here.
        for path in ["/proc/self/status", "/nonexistent"] {
            assert_eq!(options(path).not_writable(), Some(&PathBuf::from(path)));
        }
    }

    #[test]
    fn a_socket_that_is_served_later_is_connected_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        assert!(connect(&path, Duration::ZERO).is_err(), "without a retry");
        let late = path.clone();
        let listener = std::thread::spawn(move || {
            // Retried at least once in this time.
            std::thread::sleep(2 * CONNECT_PAUSE);
            std::os::unix::net::UnixListener::bind(late).unwrap()
        });
        connect(&path, Duration::from_secs(60)).unwrap();
        drop(listener.join().unwrap());
        std::fs::write(directory.path().join(container_path::LAUNCHER_ENDED), "").unwrap();
        let error = connect(&path, Duration::from_secs(600)).unwrap_err();
        assert_eq!(error.to_string(), "the launcher has ended");
        assert!(connect(&path, Duration::ZERO).is_err(), "the file is there, but not served");
    }

    #[test]
    fn files_that_must_be_mounted() {
        let found = std::env::temp_dir().symlink_metadata().unwrap();
        let path = std::env::temp_dir();
        let value = format!("{}:{}:{}", found.dev(), found.ino(), path.display());
        let options = Options::parse(&words(&[aifo_runner::EXPECT, &value])).unwrap();
        assert!(options.expected[0].is_there());
        assert!(!ExpectedFile { inode: found.ino() + 1, path, ..options.expected[0] }.is_there());
        for value in ["", "1:2", "1:x:/a", "1:2:a", "1:2:"] {
            assert_eq!(ExpectedFile::parse(OsStr::new(value)), None, "{value}");
        }
    }

    #[test]
    fn covers_are_those_of_their_directory() {
        let device = Path::new("/dev").symlink_metadata().unwrap();
        let is_covered = |path: &str, inode: u64| {
            let value = format!("{}:{inode}:{path}", device.dev());
            let options = Options::parse(&words(&[aifo_runner::COVER, &value])).unwrap();
            options.replaced().is_none()
        };
        assert!(is_covered("/dev/null", device.ino()));
        for (path, inode) in
            [("/dev/null", device.ino() + 1), ("/dev/zero", device.ino()), ("/dev/x", device.ino())]
        {
            assert!(!is_covered(path, inode), "{path}");
        }
    }

    #[test]
    fn owners() {
        let parse = |words: &[&str]| parse_chown(&self::words(words));
        let owner = Owner { uid: 1000, gid: 100 };
        assert_eq!(parse(&["1000:100", "/a", "/b"]), Some((owner, vec!["/a".into(), "/b".into()])));
        for words in [&[][..], &["1000", "/a"], &["1000:x", "/a"], &["-1:0", "/a"]] {
            assert_eq!(parse(words), None, "{words:?}");
        }
    }
}
