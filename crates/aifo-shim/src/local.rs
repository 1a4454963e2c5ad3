//! Becoming a runtime of the agent's own place.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use aifo_decide::Local;
use aifo_types::{env, exit};

use crate::ending::ShimEnd;
use crate::tell;

/// Replaces this process by the runtime: same pid, same signals, same fds, nothing of us left.
/// Returns only if that fails.
pub(crate) fn become_runtime(local: &Local, args: &[OsString]) -> ShimEnd {
    let runtime = local.runtime.display();
    let pid = std::process::id().to_string();
    // An exec keeps the pid, a fork does not: finding our own there, we came by that very path.
    if std::env::var(env::LOCAL_GUARD).is_ok_and(|guard| guard == pid) {
        tell::line(format_args!(
            "'{runtime}' leads back to aifo-shim; install a real runtime there, or take the link away"
        ));
        return ShimEnd::Code(exit::NOTHING_RAN);
    }
    // The runtime finds its own installation by argv[0], so that is its path.
    let mut command = Command::new(&local.runtime);
    command.arg0(&local.runtime).args(args).env(env::LOCAL_GUARD, pid);
    // It also restores what Rust changed at our start: SIGPIPE is not ignored any more.
    let error = command.exec();
    tell::line(format_args!("cannot execute '{runtime}': {error}"));
    ShimEnd::Code(match error.kind() {
        std::io::ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    })
}
