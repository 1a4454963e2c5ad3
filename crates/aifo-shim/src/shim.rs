//! Runs a tool: locally, in a sidecar, or as a notification.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use aifo_decide::{Decision, FileFacts, ToolCall, decide};
use aifo_process::{ignore_broken_pipes, is_executable};
use aifo_types::exit;

use crate::attached::{self, CallOutcome};
use crate::early_start::BegunCall;
use crate::settings::{Protocol, Settings};
use crate::shim_exit::ShimExit;
use crate::{call_path, local_runtime, log, notification, streamed};

/// Runs `tool` where [`decide`] places it and returns how it exited. `closed` are the standard
/// descriptors that the parent left closed.
pub(crate) fn run(tool: &[u8], args: &[OsString], closed: [bool; 3]) -> ShimExit {
    let cwd = match std::env::current_dir() {
        Ok(cwd) => cwd,
        Err(error) => return no_directory(&error),
    };
    let program = call_path::program(&cwd, &FileSystem);
    let settings = Settings::read(tool, program.as_deref());
    let bytes: Vec<Vec<u8>> = args.iter().map(|arg| arg.clone().into_vec()).collect();
    let call = ToolCall { tool, program: program.as_deref(), args: &bytes, cwd: &cwd };
    let decided = decide(&call, &settings.decide, &FileSystem);
    let decision = match decided {
        Ok(decision) => decision,
        Err(no_runtime) => {
            log::line(&no_runtime);
            return ShimExit::Code(no_runtime.exit_code());
        }
    };
    if settings.verbose {
        log::verbose(decision.log_line(tool));
    }
    match decision {
        Decision::Local(local) => local_runtime::become_runtime(&local, args),
        Decision::Notify(notify) => notification::run(&settings, &notify.command, &bytes),
        Decision::Proxy(_) => match settings.protocol {
            Protocol::V2 => run_streamed(&settings, &call),
            Protocol::V3 => match attached::run(&settings, &call, closed) {
                CallOutcome::Done(end) => end,
                CallOutcome::VersionRefused => run_streamed(&settings, &call),
            },
        },
    }
}

/// Carries on a call of `tool` that began before the C library started.
pub(crate) fn carry_on(begun: BegunCall, tool: &[u8], args: &[OsString]) -> ShimExit {
    ignore_broken_pipes();
    let BegunCall { settings, sent, received } = begun;
    match attached::carry_on(&settings, sent, &received) {
        CallOutcome::Done(end) => end,
        CallOutcome::VersionRefused => match std::env::current_dir() {
            Ok(cwd) => {
                let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.clone().into_vec()).collect();
                run_streamed(&settings, &ToolCall { tool, program: None, args: &args, cwd: &cwd })
            }
            Err(error) => no_directory(&error),
        },
    }
}

fn no_directory(error: &std::io::Error) -> ShimExit {
    log::line(format_args!("cannot determine the current directory: {error}"));
    ShimExit::Code(exit::NOTHING_RAN)
}

/// Runs a call by version 2, which has no field for a program's path.
fn run_streamed(settings: &Settings, call: &ToolCall<'_>) -> ShimExit {
    if let Some(program) = call.program {
        log::line(format_args!(
            "protocol 2 cannot carry the path of '{}'\nhint: call {} by its name, or use protocol 3",
            program.display(),
            String::from_utf8_lossy(call.tool)
        ));
        return ShimExit::Code(exit::NOTHING_RAN);
    }
    streamed::run(settings, call.tool, call.args, call.cwd)
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
        is_executable(path) && !call_path::is_covered(path)
    }
}
