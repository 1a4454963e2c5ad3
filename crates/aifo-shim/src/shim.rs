//! Being a tool: here, in a sidecar, or as a notification.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use aifo_decide::{Decision, FileFacts, ToolCall, decide};
use aifo_types::exit;
use nix::unistd::{AccessFlags, access};

use crate::ending::ShimEnd;
use crate::native::{self, Attempt};
use crate::settings::{Protocol, Settings};
use crate::{local, notification, streamed, tell};

/// Runs `tool` where it belongs and ends as it does. `closed` are the standard descriptors that our
/// parent left closed.
pub(crate) fn run(tool: &[u8], args: &[OsString], closed: [bool; 3]) -> ShimEnd {
    let settings = Settings::read(tool);
    let cwd = match std::env::current_dir() {
        Ok(cwd) => cwd,
        Err(error) => {
            tell::line(format_args!("cannot tell the current directory: {error}"));
            return ShimEnd::Code(exit::NOTHING_RAN);
        }
    };
    let bytes: Vec<Vec<u8>> = args.iter().map(|arg| arg.clone().into_vec()).collect();
    let decided =
        decide(&ToolCall { tool, args: &bytes, cwd: &cwd }, &settings.decide, &AgentsPlace);
    let decision = match decided {
        Ok(decision) => decision,
        Err(no_runtime) => {
            tell::line(&no_runtime);
            return ShimEnd::Code(no_runtime.exit_code());
        }
    };
    if settings.verbose {
        tell::line(decision.log_line(tool));
    }
    match decision {
        Decision::Local(local) => local::become_runtime(&local, args),
        Decision::Notify(notify) => notification::run(&settings, &notify.command, &bytes),
        Decision::Proxy(_) => match settings.protocol {
            Protocol::Two => streamed::run(&settings, tool, &bytes, &cwd),
            Protocol::Three => match native::run(&settings, tool, &bytes, &cwd, closed) {
                Attempt::Ended(end) => end,
                Attempt::TooNew => streamed::run(&settings, tool, &bytes, &cwd),
            },
        },
    }
}

/// The file system around us.
struct AgentsPlace;

impl FileFacts for AgentsPlace {
    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_executable(&self, path: &Path) -> bool {
        path.is_file() && access(path, AccessFlags::X_OK).is_ok()
    }
}
