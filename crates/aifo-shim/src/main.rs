//! `aifo-shim`: the one static binary that goes where the agent and the tools are.
//!
//! Its name decides what it is: under a tool's name it is that tool, run in a sidecar, or in a mailbox a
//! command of the host; as `aifo-runner` it is the resident server inside a sidecar; as `aifo-agent` it
//! becomes the agent in its container; as `aifo-shim` it tells about itself. It is
//! a short blocking program without a runtime or threads, because it starts once per tool call.
//!
//! Its unit tests start as such do, so nothing there comes from `run`.
#![cfg_attr(not(test), no_main)]
#![cfg_attr(test, allow(dead_code))]

mod agent;
mod cli;
mod connection;
mod descriptors;
mod failure;
mod fd_writer;
mod frame_connection;
mod inherited;
mod install;
mod local;
mod log;
mod mailbox;
mod native;
mod notification;
mod output_forwarder;
mod parent_shell;
mod polling;
mod relay;
mod runner;
mod settings;
mod shim;
mod shim_exit;
mod signal_forwarder;
mod signals;
mod standard_fd;
mod stdin_forwarder;
mod streamed;
mod terminal_input;
mod variables;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

// A tool is to inherit what our parent gave us, so nothing may come before us and change it.
#[cfg(not(test))]
aifo_process::entry!(run);

fn run() -> ! {
    let closed = aifo_process::closed_standard_fds();
    let mut args = arguments().into_iter();
    let name = args.next().unwrap_or_default();
    // Some agents execute a shim by its full path as argv[0].
    let name = Path::new(&name).file_name().unwrap_or_default().to_owned();
    let args: Vec<OsString> = args.collect();
    let ending = match name.as_bytes() {
        b"aifo-shim" | b"" => match args.split_first() {
            Some((flag, call)) if flag == "--call" => cli::call(call, closed),
            _ => cli::run(&args),
        },
        b"aifo-agent" => agent::become_agent(&args),
        b"aifo-runner" => {
            aifo_process::ignore_broken_pipes();
            runner::run(&args)
        }
        tool => match mailbox::MailboxCommand::detect() {
            Some(command) => mailbox::run(&command, &args, closed),
            None => shim::run(tool, &args, closed),
        },
    };
    ending.end()
}

/// What we were called with, from the kernel where the C library does not tell those who start
/// without the standard library's help.
fn arguments() -> Vec<OsString> {
    let args: Vec<OsString> = std::env::args_os().collect();
    if !args.is_empty() {
        return args;
    }
    let text = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let args = text.strip_suffix(b"\0").unwrap_or_default().split(|byte| *byte == 0);
    args.map(|arg| OsString::from_vec(arg.to_vec())).collect()
}
