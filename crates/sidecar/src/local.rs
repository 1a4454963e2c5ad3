//! Sidecars as child processes: no container, no engine.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use aifo_process::{Group, ResourceLimit, Restriction, Spawn, variable};
use aifo_types::proxy_variables::PROXY_VARIABLES;
use aifo_types::{Kind, env};
use aifo_wire::Setup;
use nix::fcntl::OFlag;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{Pid, pipe2};

use crate::backend::{Backend, Starting};
use crate::caches::Caches;
use crate::error::SidecarError;
use crate::hidden::hidden_paths;
use crate::local_network::{LocalNetwork, LocalStack};
use crate::local_process::{MESSAGES_TIME, c_string, log_lines, obstacle, reap};
use crate::places::{Places, Site};
use crate::progress::{OutdatedCause, Progress};
use crate::runner::Runner;

/// Sidecars on this machine. Each is a runner under a guard, which outlives it.
///
/// A tool has the user's home and the given PATH. A confined tool can write only to the session's
/// directories and caches. Every tool can read what the user can read.
#[derive(Clone, Debug)]
pub struct LocalBackend {
    /// The `aifo-shim` binary, which is also the runner.
    pub runner_program: PathBuf,
    /// The workspace root; a real path.
    pub workspace: PathBuf,
    /// The session's temporary directory; a real path, and the tools' TMPDIR. With `None` tools keep the
    /// caller's TMPDIR and start only in the workspace.
    pub tmp: Option<PathBuf>,
    /// The tools' PATH, without the shims' directory.
    pub path: OsString,
    /// The tools' limit of open files.
    pub open_files: ResourceLimit,
    /// Confinement of tools.
    pub confinement: LocalConfinement,
    /// The restrictions of system calls, for confined tools.
    pub restrictions: Vec<Restriction>,
    /// The transport of the control connections.
    pub transport: Transport,
    /// The caches of downloads and builds.
    pub caches: Caches,
    /// The network of tools; `None` for this machine's.
    pub network: Option<LocalNetwork>,
}

/// The transport of a runner's control connection (`spec/runner.md#stream-transport`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// A unix socket: frames with descriptors.
    #[default]
    Descriptors,
    /// Two pipes: frames alone. Local sidecars use it only to test runners without descriptors.
    Stream,
}

/// The write access of the tools of local sidecars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalConfinement {
    /// The workspace, the session's temporary directory and caches.
    Confined,
    /// The same, in a namespace in which the user's keys are hidden, too.
    Namespace,
    /// Everything that the user may write to.
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
        let (local_end, guard_end) = Ends::create(self.transport).map_err(failed)?;
        let (stderr, guard_stderr) =
            pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let stack = match &self.network {
            Some(network) => Some(network.stack(&kind, &self.runner_program).await?),
            None => None,
        };
        let guard = self.spawn_guard(&kind, stack.as_ref(), &guard_end, guard_stderr.as_fd());
        let guard = guard.map_err(failed)?;
        drop((guard_end, guard_stderr));
        let messages = tokio::spawn(log_lines(kind.clone(), stderr));
        let setup = Setup {
            workspace: vec![bytes(&self.workspace)],
            tmp: self.tmp.iter().map(|tmp| bytes(tmp)).collect(),
            kind: kind.to_string(),
        };
        let connected = local_end.connect(kind, &setup).await;
        // The guard ends when this end of the connection is closed.
        let lost = connected.as_ref().ok().map(Runner::lost);
        if lost.is_none() {
            // The cause is logged before the failure.
            let _ = tokio::time::timeout(MESSAGES_TIME, messages).await;
        }
        tokio::spawn(async move {
            if let Some(lost) = lost {
                lost.await;
            }
            reap(guard).await;
        });
        let runner = connected?;
        Ok(match stack {
            Some(stack) => {
                stack.watch(&runner);
                runner.with_outdated(move || stack.is_lost().then_some(OutdatedCause::LostStack))
            }
            None => runner,
        })
    }

    fn spawn_guard(
        &self,
        kind: &Kind,
        stack: Option<&LocalStack>,
        control: &Ends,
        stderr: BorrowedFd<'_>,
    ) -> io::Result<Pid> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
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
        if self.confinement != LocalConfinement::Unconfined {
            let session = [self.workspace.clone()].into_iter().chain(self.tmp.clone());
            for path in session.chain(places.writable.clone()) {
                argv.extend([WRITE.into(), path.into_os_string()]);
            }
            argv.extend(restriction_words(&self.restrictions));
        }
        if self.confinement == LocalConfinement::Namespace {
            argv.extend(hide_words());
        }
        argv.extend(stack.iter().flat_map(|stack| stack.words()));
        let program = c_string(self.runner_program.as_os_str())?;
        let argv = argv.iter().map(|word| c_string(word)).collect::<io::Result<_>>()?;
        let spawn = Spawn {
            stdio: [Some(stdin), Some(stdout), Some(stderr)],
            // Ctrl-C at the terminal must reach only the agent; tools have no controlling terminal.
            group: Group::Session,
            limits: vec![self.open_files],
            ..Spawn::new(program, argv, self.environment(&places))
        };
        spawn.spawn().map_err(io::Error::other)
    }

    /// Returns the launcher environment without `AIFO_` variables, with the variables of the kind. A
    /// stack of its own does not reach a proxy, so its tools have no proxy variable.
    fn environment(&self, places: &Places) -> Vec<CString> {
        let tmp = self.tmp.clone().map(|tmp| ("TMPDIR", tmp.into_os_string()));
        let own = [("PATH", self.path.clone())].into_iter().chain(tmp);
        let own: Vec<_> = own.map(|(name, value)| (OsString::from(name), value)).collect();
        let inherited = std::env::vars_os().filter(|(name, _)| {
            let is_own = name.as_bytes().starts_with(env::PREFIX.as_bytes());
            let is_proxy = PROXY_VARIABLES.iter().any(|proxy| name == *proxy);
            let is_own = is_own || is_proxy && self.network.is_some();
            !is_own && own.iter().all(|(own, _)| own != name)
        });
        let added = places.variables.iter();
        let added = added.map(|(name, value)| (OsString::from(name), value.clone()));
        let all = inherited.chain(added).chain(own.iter().cloned());
        all.filter_map(|(name, value)| variable(&name, &value)).collect()
    }
}

/// One end of a control connection.
enum Ends {
    Socket(OwnedFd),
    Pipes { reader: OwnedFd, writer: OwnedFd },
}

impl Ends {
    /// Creates the launcher's end and the guard's; both are close-on-exec.
    fn create(transport: Transport) -> io::Result<(Ends, Ends)> {
        match transport {
            Transport::Descriptors => {
                let flags = SockFlag::SOCK_CLOEXEC;
                let (local, guard) =
                    socketpair(AddressFamily::Unix, SockType::Stream, None, flags)?;
                Ok((Ends::Socket(local), Ends::Socket(guard)))
            }
            Transport::Stream => {
                let (local_reader, guard_writer) = pipe2(OFlag::O_CLOEXEC)?;
                let (guard_reader, local_writer) = pipe2(OFlag::O_CLOEXEC)?;
                let local = Ends::Pipes { reader: local_reader, writer: local_writer };
                Ok((local, Ends::Pipes { reader: guard_reader, writer: guard_writer }))
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

/// The runner's option for a control connection on stdin and stdout (`spec/runner.md#options`).
const STREAM: &str = "--stream";

/// The runner's option before a path that tools may write to (`spec/runner.md#options`).
const WRITE: &str = "--write";

/// The runner's option before a path to hide from tools (`spec/runner.md#options`).
const HIDE: &str = "--hide";

fn hide_words() -> impl Iterator<Item = OsString> {
    let hidden = hidden_paths(|name| std::env::var_os(name)).into_iter();
    hidden.flat_map(|path| [HIDE.into(), path.into_os_string()])
}

/// Returns why tools with write access to a workspace cannot run in a [namespace] here, with a line
/// `hint: ..`; `None` if they can.
///
/// [namespace]: LocalConfinement::Namespace
pub fn namespace_obstacle(runner_program: &Path, workspace: &Path) -> Option<String> {
    let mut command = std::process::Command::new(runner_program);
    command.arg0("aifo-runner").args(["try-confinement", WRITE]).arg(workspace).args(hide_words());
    obstacle(&mut command)
}

/// Returns the runner's option for restrictions of system calls (`spec/runner.md#options`).
pub(crate) fn restriction_words(restrictions: &[Restriction]) -> Vec<OsString> {
    let names: Vec<&str> = restrictions.iter().map(|one| one.name()).collect();
    match names.is_empty() {
        true => Vec::new(),
        false => vec!["--restrict".into(), names.join(",").into()],
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}
