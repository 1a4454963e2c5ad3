//! The guard: a process above the runner that outlives it.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use aifo_process::{
    ChildEvent, Group, Spawn, become_subreaper, end_descendants, forbid_tracing, reap,
    reset_dispositions, variable,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpid};

use crate::control::ControlTransport;

/// Starts a runner on `control` and ends everything below it once the runner is gone, or has not
/// managed to go within a few seconds of the proxy. Returns when nothing is left.
///
/// On a machine that is no container nothing else would: a tool whose runner was killed becomes a
/// child of the nearest subreaper, which is us.
///
/// `options` are the runner's own, which the guard only passes on: it is not confined itself, for it
/// has to be able to end what is.
pub fn guard(control: ControlTransport, options: &[OsString]) -> io::Result<()> {
    reset_dispositions()?;
    become_subreaper()?;
    // The control connection is not for tools, which have our user id.
    forbid_tracing()?;
    let watched = SigSet::from_iter([Number::SIGCHLD, Number::SIGTERM]);
    watched.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&watched, flags)?;
    let runner = spawn_runner(&control, options)?;

    // Our copy of the connection only tells when the proxy is gone. That it stays open until we
    // end means that the proxy sees the end of the connection when nothing is left below us.
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

/// The argument that makes stdin and stdout the control connection, two pipes without descriptors.
pub const STREAM: &str = "--stream";

/// The argument before the path of the socket that a runner connects to.
pub const CONNECT: &str = "--connect";

/// The argument before a place where the runner's user must be able to write.
pub const WRITABLE: &str = "--writable";

/// The argument before a path where tools may write; with none, they may write everywhere.
pub const WRITE: &str = "--write";

/// The argument after which a runner finds the pid of its guard.
pub const GUARDED_BY: &str = "--guarded-by";

/// What the runner itself needs to close, and a little more.
const RUNNER_SHUTDOWN_TIME: Duration = Duration::from_secs(5);

fn spawn_runner(control: &ControlTransport, options: &[OsString]) -> io::Result<Pid> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let stderr = io::stderr();
    let stdout = match control {
        ControlTransport::Socket(_) => null.as_fd(),
        ControlTransport::Stream { output, .. } => output.as_fd(),
    };
    let text = |text: &str| CString::new(text).map_err(io::Error::from);
    let variables = std::env::vars_os().filter_map(|(name, value)| variable(&name, &value));
    let own = ["aifo-runner", "serve", GUARDED_BY, &getpid().to_string()].map(OsString::from);
    let argv = own.iter().chain(options).map(|word| CString::new(word.as_bytes()));
    let argv = argv.collect::<Result<Vec<_>, _>>().map_err(io::Error::from)?;
    let spawn = Spawn {
        // The file we run from, even if its name leads elsewhere by now.
        program: text("/proc/self/exe")?,
        argv,
        env: variables.collect(),
        cwd: None,
        stdio: [Some(control.input()), Some(stdout), Some(stderr.as_fd())],
        group: Group::New,
        limits: Vec::new(),
        umask: None,
        nice: None,
        ignored: 0,
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
