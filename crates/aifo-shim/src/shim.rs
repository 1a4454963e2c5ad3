//! Runs a tool: locally, in a sidecar, or as a notification.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use aifo_decide::{Decision, FileFacts, ToolCall, decide};
use aifo_process::is_executable;
use aifo_types::exit;

use crate::attached::{self, CallOutcome};
use crate::settings::{Protocol, Settings};
use crate::shim_exit::ShimExit;
use crate::{local_runtime, log, notification, streamed};

/// Runs `tool` where [`decide`] places it and returns how it exited. `closed` are the standard
/// descriptors that the parent left closed.
pub(crate) fn run(tool: &[u8], args: &[OsString], closed: [bool; 3]) -> ShimExit {
    let settings = Settings::read(tool);
    let cwd = match std::env::current_dir() {
        Ok(cwd) => cwd,
        Err(error) => {
            log::line(format_args!("cannot determine the current directory: {error}"));
            return ShimExit::Code(exit::NOTHING_RAN);
        }
    };
    let bytes: Vec<Vec<u8>> = args.iter().map(|arg| arg.clone().into_vec()).collect();
    let decided =
        decide(&ToolCall { tool, args: &bytes, cwd: &cwd }, &settings.decide, &FileSystem);
    let decision = match decided {
        Ok(decision) => decision,
        Err(no_runtime) => {
            log::line(&no_runtime);
            return ShimExit::Code(no_runtime.exit_code());
        }
    };
    if settings.verbose {
        log::line(decision.log_line(tool));
    }
    match decision {
        Decision::Local(local) => local_runtime::become_runtime(&local, args),
        Decision::Notify(notify) => notification::run(&settings, &notify.command, &bytes),
        Decision::Proxy(_) => match settings.protocol {
            Protocol::V2 => streamed::run(&settings, tool, &bytes, &cwd),
            Protocol::V3 => match attached::run(&settings, tool, &bytes, &cwd, closed) {
                CallOutcome::Done(end) => end,
                CallOutcome::VersionRefused => streamed::run(&settings, tool, &bytes, &cwd),
            },
        },
    }
}

struct FileSystem;

impl FileFacts for FileSystem {
    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_executable(&self, path: &Path) -> bool {
        is_executable(path)
    }
}
