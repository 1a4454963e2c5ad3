//! Replaces the shim by a local runtime (`spec/shim.md#local-runtimes`).

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

/// Executes the runtime in this process, with the same pid, signal dispositions and descriptors.
/// Returns only on failure.
pub(crate) fn become_runtime(local: &Local, args: &[OsString]) -> ShimExit {
    let runtime = local.runtime.display();
    let pid = std::process::id().to_string();
    // exec keeps the pid and fork does not, so the own pid here means that the runtime is the shim.
    if std::env::var(env::LOCAL_GUARD).is_ok_and(|guard| guard == pid) {
        log::line(format_args!(
            "'{runtime}' runs aifo-shim again\nhint: install a runtime there, or remove the link"
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

/// Calls `execve`. The standard library's `exec` would change inherited signal dispositions.
fn execute(runtime: &OsStr, args: &[OsString], pid: &str) -> nix::Result<Infallible> {
    let of = |text: &OsStr| CString::new(text.as_bytes());
    let program = of(runtime).map_err(|_| Errno::ENOENT)?;
    // Runtimes find their installation by argv[0], so it is the absolute path.
    let args = [program.clone()].into_iter().chain(args.iter().filter_map(|arg| of(arg).ok()));
    let args: Vec<_> = args.collect();
    let inherited = std::env::vars_os().filter(|(name, _)| name != env::LOCAL_GUARD);
    let guard = [(env::LOCAL_GUARD.into(), pid.into())];
    let environment = inherited.chain(guard).filter_map(|(name, value)| variable(&name, &value));
    execve(&program, &args, &environment.collect::<Vec<_>>())
}
