//! Becoming a runtime of the agent's own place.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use aifo_decide::Local;
use aifo_process::variable;
use aifo_types::{env, exit};
use nix::errno::Errno;
use nix::unistd::execve;

use crate::log;
use crate::shim_exit::ShimExit;

/// Replaces this process by the runtime: same pid, same signals, same fds, nothing of us left.
/// Returns only if that fails.
pub(crate) fn become_runtime(local: &Local, args: &[OsString]) -> ShimExit {
    let runtime = local.runtime.display();
    let pid = std::process::id().to_string();
    // An exec keeps the pid, a fork does not: finding our own there, we came by that very path.
    if std::env::var(env::LOCAL_GUARD).is_ok_and(|guard| guard == pid) {
        log::line(format_args!(
            "'{runtime}' leads back to aifo-shim; install a real runtime there, or take the link away"
        ));
        return ShimExit::Code(exit::NOTHING_RAN);
    }
    let Err(errno) = execute(local.runtime.as_os_str(), args, &pid);
    log::line(format_args!("cannot execute '{runtime}': {}", std::io::Error::from(errno)));
    ShimExit::Code(match errno {
        Errno::ENOENT => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    })
}

/// A plain `execve`: the standard library's way would change signals that our parent arranged.
fn execute(runtime: &OsStr, args: &[OsString], pid: &str) -> nix::Result<Infallible> {
    let of = |text: &OsStr| CString::new(text.as_bytes());
    let program = of(runtime).map_err(|_| Errno::ENOENT)?;
    // The runtime finds its own installation by argv[0], so that is its path.
    let args = [program.clone()].into_iter().chain(args.iter().filter_map(|arg| of(arg).ok()));
    let args: Vec<_> = args.collect();
    let inherited = std::env::vars_os().filter(|(name, _)| name != env::LOCAL_GUARD);
    let guard = [(env::LOCAL_GUARD.into(), pid.into())];
    let environment = inherited.chain(guard).filter_map(|(name, value)| variable(&name, &value));
    execve(&program, &args, &environment.collect::<Vec<_>>())
}
