//! Sidecars as child processes: no container, no engine.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_process::{Group, ResourceLimit, Spawn, variable};
use aifo_types::{Kind, env};
use aifo_wire::Setup;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, pipe2};

use crate::backend::{Backend, SidecarError, Starting};
use crate::caches::Caches;
use crate::places::{Places, Site};
use crate::progress::Progress;
use crate::runner::{Runner, pair};

/// Sidecars on this machine, each a runner below a guard that outlives it.
///
/// A tool sees the user's own home and the given PATH. Confined, it can write only in its place;
/// either way it can read whatever the user can.
#[derive(Clone, Debug)]
pub struct LocalBackend {
    /// The `aifo-shim` binary, which is the runner too.
    pub runner_program: PathBuf,
    /// The workspace root; a real path.
    pub workspace: PathBuf,
    /// The session's temporary directory; a real path, and the tools' TMPDIR. `None`: tools have the
    /// caller's own, and start in the workspace alone.
    pub tmp: Option<PathBuf>,
    /// The PATH in which tools are found. The shims' folder must not be in it.
    pub path: OsString,
    /// The limit on open files that tools get.
    pub open_files: ResourceLimit,
    /// Whether tools are held to their place.
    pub confinement: LocalConfinement,
    /// What the control connections carry.
    pub transport: Transport,
    /// Where tools keep downloads and builds.
    pub caches: Caches,
}

/// What a runner's control connection carries (`spec/runner.md#stream-transport`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Frames, and descriptors with them: a unix socket.
    #[default]
    Descriptors,
    /// Frames alone: two pipes. No machine needs it for processes of its own; it is there to see what
    /// runners do that no descriptor reaches.
    Stream,
}

/// Whether the tools of local sidecars may write where the user may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalConfinement {
    /// Only below the workspace, in the session's temporary directory and in caches.
    Confined,
    /// Wherever the user may.
    Unconfined,
}

impl Backend for LocalBackend {
    fn start(&self, kind: Kind, _progress: Progress) -> Starting {
        let local = self.clone();
        Box::pin(async move { local.start_runner(kind).await })
    }
}

impl LocalBackend {
    async fn start_runner(self, kind: Kind) -> Result<Runner, SidecarError> {
        let failed = |source| SidecarError::Start { kind: kind.clone(), source };
        let (ours, theirs) = Ends::make(self.transport).map_err(failed)?;
        let guard = self.spawn_guard(&kind, &theirs).map_err(failed)?;
        drop(theirs);
        let setup = Setup {
            workspace: vec![bytes(&self.workspace)],
            tmp: self.tmp.iter().map(|tmp| bytes(tmp)).collect(),
            kind: kind.to_string(),
        };
        let connected = ours.connect(kind, &setup).await;
        // Without our end of the connection the guard goes by itself.
        let lost = connected.as_ref().ok().map(Runner::lost);
        tokio::spawn(async move {
            if let Some(lost) = lost {
                lost.await;
            }
            reap_guard(guard).await;
        });
        connected
    }

    fn spawn_guard(&self, kind: &Kind, control: &Ends) -> io::Result<Pid> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let stderr = io::stderr();
        let site =
            Site { caches: &self.caches, workspace: &self.workspace, tmp: self.tmp.as_deref() };
        let places = Places::of(kind, site, |name| std::env::var_os(name));
        let mut argv = ["aifo-runner", "guard"].map(OsString::from).to_vec();
        let (stdin, stdout) = match control {
            Ends::Socket(socket) => (socket.as_fd(), null.as_fd()),
            Ends::Pipes { reader, writer } => {
                argv.push(STREAM.into());
                (reader.as_fd(), writer.as_fd())
            }
        };
        if self.confinement == LocalConfinement::Confined {
            let session = [self.workspace.clone()].into_iter().chain(self.tmp.clone());
            for path in session.chain(places.writable.clone()) {
                argv.extend([WRITE.into(), path.into_os_string()]);
            }
        }
        let spawn = Spawn {
            program: c_string(self.runner_program.as_os_str())?,
            argv: argv.iter().map(|word| c_string(word)).collect::<io::Result<_>>()?,
            env: self.environment(&places),
            cwd: None,
            stdio: [Some(stdin), Some(stdout), Some(stderr.as_fd())],
            // A terminal's Ctrl-C is for the agent, and a tool finds no terminal here.
            group: Group::Session,
            limits: vec![self.open_files],
            umask: None,
            nice: None,
            ignored: 0,
        };
        spawn.spawn().map_err(io::Error::other)
    }

    /// Ours, without what is ours alone, and what this kind of sidecar adds.
    fn environment(&self, places: &Places) -> Vec<CString> {
        let tmp = self.tmp.clone().map(|tmp| ("TMPDIR", tmp.into_os_string()));
        let own = [("PATH", self.path.clone())].into_iter().chain(tmp);
        let own: Vec<_> = own.map(|(name, value)| (OsString::from(name), value)).collect();
        let inherited = std::env::vars_os().filter(|(name, _)| {
            let ours = name.as_bytes().starts_with(env::PREFIX.as_bytes());
            !ours && own.iter().all(|(own, _)| own != name)
        });
        let added = places.variables.iter();
        let added = added.map(|(name, value)| (OsString::from(name), value.clone()));
        let all = inherited.chain(added).chain(own.iter().cloned());
        all.filter_map(|(name, value)| variable(&name, &value)).collect()
    }
}

/// Either end of a control connection.
enum Ends {
    Socket(OwnedFd),
    Pipes { reader: OwnedFd, writer: OwnedFd },
}

impl Ends {
    /// Ours, and the guard's; neither survives an exec.
    fn make(transport: Transport) -> io::Result<(Ends, Ends)> {
        match transport {
            Transport::Descriptors => {
                let (ours, theirs) = pair()?;
                Ok((Ends::Socket(ours), Ends::Socket(theirs)))
            }
            Transport::Stream => {
                let (to_us, from_them) = pipe2(OFlag::O_CLOEXEC)?;
                let (to_them, from_us) = pipe2(OFlag::O_CLOEXEC)?;
                let ours = Ends::Pipes { reader: to_us, writer: from_us };
                Ok((ours, Ends::Pipes { reader: to_them, writer: from_them }))
            }
        }
    }

    async fn connect(self, kind: Kind, setup: &Setup) -> Result<Runner, SidecarError> {
        match self {
            Ends::Socket(socket) => Runner::connect(kind, socket, setup).await,
            Ends::Pipes { reader, writer } => {
                Runner::connect_stream(kind, reader, writer, setup).await
            }
        }
    }
}

/// The option of a runner whose control connection is stdin and stdout (`spec/runner.md#options`).
const STREAM: &str = "--stream";

/// The runner's option before a path where tools may write (`spec/runner.md#options`).
const WRITE: &str = "--write";

/// Collects the guard, which ends right after it has closed its end of the connection.
async fn reap_guard(guard: Pid) {
    for attempt in 0..REAP_ATTEMPTS {
        match waitpid(guard, Some(WaitPidFlag::WNOHANG)) {
            Ok(nix::sys::wait::WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
            _ => return,
        }
        tokio::time::sleep(std::time::Duration::from_millis(1 << attempt)).await;
    }
    tracing::warn!(%guard, "a sidecar's guard did not end");
}

/// 1, 2, 4 .. 8192 ms: 16 s in all.
const REAP_ATTEMPTS: u32 = 14;

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::from)
}
