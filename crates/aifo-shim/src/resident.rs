//! `aifo-runner`: the other half of this binary, inside a sidecar.
//!
//! Whoever starts it hands over its control connection as stdin, or says where to connect:
//! `aifo-runner guard|serve [--guarded-by PID] [--stream] [--unlink] [--connect PATH] [--write PATH]..
//! [--writable PATH].. [--isolate-network SUBNET]..`; `aifo-runner watch` waits for the end of the launcher.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use aifo_process::{Confinement, confine, set_parent_death_signal, take_fd};
use aifo_runner::{ControlTransport, GUARDED_BY, Owner};
use aifo_types::{Signal, Subnet};
use nix::unistd::{AccessFlags, Pid, access};

use crate::ending::ShimEnd;
use crate::tell;

pub(crate) fn run(args: &[OsString]) -> ShimEnd {
    let Some((role, words)) = args.split_first() else { return usage() };
    let ended = match role.to_str() {
        Some("guard") => match Options::parse(words) {
            // The runner below could not connect once more.
            Some(Options { way: Way::Connect(_), .. }) | None => return usage(),
            Some(options) => options.control().and_then(|it| aifo_runner::guard(it, words)),
        },
        Some("monitor") => take_fd(0).and_then(aifo_runner::monitor),
        Some("chown") => match parse_chown(words) {
            Some((owner, places)) => aifo_runner::chown_tree(owner, &places),
            None => return usage(),
        },
        Some("serve") => match Options::parse(words) {
            Some(options) => {
                if let Some(place) = options.not_writable() {
                    tell::line(format_args!("runner: not writable: {}", place.display()));
                    return ShimEnd::Code(NOT_WRITABLE);
                }
                serve(&options)
            }
            None => return usage(),
        },
        Some("watch") if words.is_empty() => take_fd(0).and_then(aifo_runner::watch_launcher),
        Some("unlink") if words.is_empty() => aifo_runner::unlink_executable(),
        _ => return usage(),
    };
    match ended {
        Ok(()) => ShimEnd::Code(0),
        Err(error) => {
            tell::line(format_args!("runner: {error}"));
            ShimEnd::Code(1)
        }
    }
}

/// The exit code of a runner that was promised a place to write and has none.
const NOT_WRITABLE: u8 = 3;

/// What a runner is told on its command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The guard, which ends what this runner leaves behind.
    guard: Option<i32>,
    way: Way,
    /// Where tools may write; `None` for everywhere.
    confinement: Option<Confinement>,
    /// Where tools must be able to write.
    writable: Vec<PathBuf>,
    /// What the engine takes the networks of others from.
    network_pools: Vec<Subnet>,
    lifetime: Lifetime,
}

/// How long the file is needed that the runner was started from.
#[derive(Debug, Default, PartialEq, Eq)]
enum Lifetime {
    /// It is installed.
    #[default]
    Installed,
    /// It was only put there to be started.
    UntilStarted,
}

/// Where the control connection is.
#[derive(Debug, Default, PartialEq, Eq)]
enum Way {
    /// Stdin, a socket.
    #[default]
    Inherited,
    /// Stdin and stdout, which carry no descriptors.
    Stream,
    /// The socket that listens here.
    Connect(PathBuf),
}

impl Options {
    fn parse(words: &[OsString]) -> Option<Self> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(name) = words.next() {
            if name == aifo_runner::STREAM {
                options.way = Way::Stream;
                continue;
            }
            if name == aifo_runner::UNLINK {
                options.lifetime = Lifetime::UntilStarted;
                continue;
            }
            let value = words.next()?;
            match name.to_str() {
                Some(GUARDED_BY) => options.guard = Some(value.to_str()?.parse().ok()?),
                Some(aifo_runner::CONNECT) => options.way = Way::Connect(PathBuf::from(value)),
                Some(aifo_runner::WRITE) => {
                    let confinement = options.confinement.get_or_insert_default();
                    confinement.writable.push(PathBuf::from(value));
                }
                Some(aifo_runner::WRITABLE) => options.writable.push(PathBuf::from(value)),
                Some(aifo_runner::ISOLATE_NETWORK) => {
                    options.network_pools.push(value.to_str()?.parse().ok()?)
                }
                _ => return None,
            }
        }
        Some(options)
    }

    /// The first place that our user cannot write to, though tools are to.
    fn not_writable(&self) -> Option<&PathBuf> {
        let may = AccessFlags::W_OK | AccessFlags::X_OK;
        self.writable.iter().find(|place| access(place.as_path(), may).is_err())
    }

    fn control(&self) -> io::Result<ControlTransport> {
        match &self.way {
            Way::Inherited => Ok(ControlTransport::Socket(take_fd(0)?)),
            Way::Stream => Ok(ControlTransport::Stream { input: take_fd(0)?, output: take_fd(1)? }),
            Way::Connect(path) => {
                let connected = UnixStream::connect(path).map_err(|error| {
                    let told = format!("cannot connect to '{}': {error}", path.display());
                    io::Error::new(error.kind(), told)
                })?;
                Ok(ControlTransport::Socket(connected.into()))
            }
        }
    }
}

fn serve(options: &Options) -> io::Result<()> {
    // While nothing else is here, and before anybody is told that we are.
    if !options.network_pools.is_empty() {
        aifo_runner::isolate_network(&options.network_pools)?;
    }
    let control = options.control()?;
    if let Some(guard) = options.guard {
        set_parent_death_signal(Pid::from_raw(guard), Signal::Term)?;
    }
    // Before there is a thread or a tool, so that none is outside.
    if let Some(confinement) = &options.confinement {
        confine(confinement).map_err(io::Error::other)?;
    }
    if options.lifetime == Lifetime::UntilStarted {
        // Who may not remove it is not root, and root does it in our place.
        let _ = aifo_runner::unlink_executable();
    }
    aifo_runner::serve(control).map_err(io::Error::other)
}

/// `UID:GID PATH..`
fn parse_chown(words: &[OsString]) -> Option<(Owner, Vec<PathBuf>)> {
    let (owner, places) = words.split_first()?;
    let (uid, gid) = owner.to_str()?.split_once(':')?;
    let owner = Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? };
    Some((owner, places.iter().map(PathBuf::from).collect()))
}

fn usage() -> ShimEnd {
    tell::line("aifo-runner is started by aifo-coder, with its control connection as stdin");
    ShimEnd::Code(2)
}

#[cfg(test)]
mod tests {
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
        let confinement = Some(Confinement { writable });
        assert_eq!(guarded, Some(Options { guard: Some(7), confinement, ..Options::default() }));
        let contained = parse(&[aifo_runner::CONNECT, "/c", aifo_runner::WRITABLE, "/d"]);
        let (way, writable) = (Way::Connect("/c".into()), vec![PathBuf::from("/d")]);
        assert_eq!(contained, Some(Options { way, writable, ..Options::default() }));
        let streamed = parse(&[aifo_runner::STREAM, GUARDED_BY, "7"]);
        let (way, guard) = (Way::Stream, Some(7));
        assert_eq!(streamed, Some(Options { way, guard, ..Options::default() }));
        let isolated = parse(&[
            aifo_runner::ISOLATE_NETWORK,
            "10.88.0.0/16",
            aifo_runner::ISOLATE_NETWORK,
            "10.89.0.0/16",
        ]);
        let pools = ["10.88.0.0/16", "10.89.0.0/16"].map(|pool| pool.parse().unwrap()).to_vec();
        assert_eq!(isolated, Some(Options { network_pools: pools, ..Options::default() }));
        assert_eq!(parse(&[aifo_runner::ISOLATE_NETWORK, "10.88.0.0"]), None);
        let lifetime = Lifetime::UntilStarted;
        let unlinked = Some(Options { lifetime, ..Options::default() });
        assert_eq!(parse(&[aifo_runner::UNLINK]), unlinked);
        for words in [&["--x", "1"][..], &[GUARDED_BY], &[GUARDED_BY, "x"], &[aifo_runner::CONNECT]]
        {
            assert_eq!(parse(words), None, "{words:?}");
        }
    }

    #[test]
    fn places_that_must_be_writable() {
        let options = |path: &str| Options { writable: vec![path.into()], ..Options::default() };
        assert_eq!(options(std::env::temp_dir().to_str().unwrap()).not_writable(), None);
        // What not even root can write into.
        for path in ["/proc/self/status", "/nonexistent"] {
            assert_eq!(options(path).not_writable(), Some(&PathBuf::from(path)));
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
