//! The guard: the parent of a runner that outlives it.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use aifo_process::{
    ChildEvent, Spawn, become_subreaper, end_descendants, forbid_tracing, reap, reset_dispositions,
    variable,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpid};

use crate::control::ControlTransport;

/// Starts a runner on `control`, and kills everything below this process once the runner has ended,
/// or has not ended a few seconds after the proxy. Returns when no descendant is left.
///
/// Outside of a container, a tool whose runner was killed would continue. The guard is the
/// subreaper that adopts it.
///
/// `options` are passed on to the runner. The guard itself is not confined, because it must be able
/// to signal confined processes.
pub fn guard(control: ControlTransport, options: &[OsString]) -> io::Result<()> {
    reset_dispositions()?;
    become_subreaper()?;
    // Tools run as the same user and must not access the control connection.
    forbid_tracing()?;
    let watched = SigSet::from_iter([Number::SIGCHLD, Number::SIGTERM]);
    watched.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&watched, flags)?;
    let runner = spawn_runner(&control, options)?;

    // The guard only polls the connection for the proxy's hang-up. Its copy stays open until the
    // guard ends, so the proxy sees the end of the connection once no descendant is left.
    let mut deadline: Option<Instant> = None;
    loop {
        let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        if deadline.is_none() {
            watched.push(PollFd::new(control.input(), PollFlags::empty()));
        }
        match poll(&mut watched, wait_time(deadline)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let proxy_gone = watched.get(1).and_then(PollFd::any).unwrap_or(false);
        let mut terminated = false;
        while let Some(info) = signals.read_signal()? {
            terminated |= info.ssi_signo == Number::SIGTERM as u32;
        }
        if runner_ended(runner) || deadline.is_some_and(|at| at <= Instant::now()) {
            break;
        }
        if proxy_gone || terminated {
            deadline.get_or_insert(Instant::now() + RUNNER_SHUTDOWN_TIME);
        }
        if terminated {
            aifo_process::signal_process(runner, aifo_types::Signal::Term);
        }
    }
    end_descendants();
    Ok(())
}

/// The option that makes stdin and stdout the control connection: two pipes without descriptors.
pub const STREAM: &str = "--stream";

/// The option before the path of a socket to connect to.
pub const CONNECT: &str = "--connect";

/// The option before the seconds for which [`CONNECT`] retries.
pub const CONNECT_SECS: &str = "--connect-secs";

/// The option before a directory that must be writable for the runner user.
pub const WRITABLE: &str = "--writable";

/// The option before `DEVICE:INODE:PATH`: this file must be at the path.
pub const EXPECT: &str = "--expect";

/// The option before `DEVICE:INODE:PATH`: the null device must be at the path, and this be its directory.
pub const COVER: &str = "--cover";

/// The option of a sidecar that lacks certificates of this machine.
pub const LACKS_CERTIFICATES: &str = "--lacks-certificates";

/// The option before a path that tools may write to; without it, they may write everywhere.
pub const WRITE: &str = "--write";

/// The option before a path to hide from tools, in a namespace.
pub const HIDE: &str = "--hide";

/// The option before the pid of the process whose network stack to join.
pub const JOIN_STACK: &str = "--join-stack";

/// The option before the resolver's configuration in a joined stack.
pub const RESOLVER: &str = "--resolver";

/// The option before a path to hide from tools in a joined stack.
pub const MASK: &str = "--mask";

/// The option before the names of restrictions of system calls, with commas between them.
pub const RESTRICT: &str = "--restrict";

/// The option before the variable of exec tags.
pub const TAG: &str = "--tag";

/// The option before the pid of the guard.
pub const GUARDED_BY: &str = "--guarded-by";

/// The runner's own shutdown time, and a little more.
const RUNNER_SHUTDOWN_TIME: Duration = Duration::from_secs(5);

fn spawn_runner(control: &ControlTransport, options: &[OsString]) -> io::Result<Pid> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let stderr = io::stderr();
    let stdout = match control {
        ControlTransport::Socket(_) => null.as_fd(),
        ControlTransport::Stream { output, .. } => output.as_fd(),
    };
    let variables = std::env::vars_os().filter_map(|(name, value)| variable(&name, &value));
    let own = ["aifo-runner", "serve", GUARDED_BY, &getpid().to_string()].map(OsString::from);
    let argv = own.iter().chain(options).map(|word| CString::new(word.as_bytes()));
    let argv = argv.collect::<Result<Vec<_>, _>>().map_err(io::Error::from)?;
    // This executable, even if its path was replaced.
    let program = CString::new("/proc/self/exe").map_err(io::Error::from)?;
    let spawn = Spawn {
        stdio: [Some(control.input()), Some(stdout), Some(stderr.as_fd())],
        ..Spawn::new(program, argv, variables.collect())
    };
    spawn.spawn().map_err(io::Error::other)
}

fn runner_ended(runner: Pid) -> bool {
    let mut ended = false;
    while let Some(event) = reap() {
        ended |= matches!(event, ChildEvent::Ended(reaped) if reaped.pid == runner);
    }
    ended
}

fn wait_time(deadline: Option<Instant>) -> PollTimeout {
    let Some(deadline) = deadline else { return PollTimeout::NONE };
    let wait = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)
}
