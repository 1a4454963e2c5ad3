//! `aifo-shim`: the static binary in every container.
//!
//! The last component of `argv[0]` selects the program: `aifo-shim` prints help or installs links,
//! `aifo-runner` is the exec server of a sidecar, `aifo-agent` executes the agent in its container,
//! and any other name is a tool, which runs in a sidecar. The program blocks and has one thread and no
//! async runtime: it starts once per tool call (`spec/shim.md`).
//!
//! Unit tests use the standard library's `main`.
#![cfg_attr(not(test), no_main)]
#![cfg_attr(test, allow(dead_code))]

mod agent;
mod attached;
mod call_path;
mod cli;
mod connection;
mod descriptors;
mod early_start;
mod expected_file;
mod failure;
mod fd_writer;
mod frame_connection;
mod in_place;
mod inherited;
mod install;
mod local_runtime;
mod log;
mod no_network;
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

use crate::in_place::InPlaceCall;
use crate::shim_exit::ShimExit;

// The tool inherits the parent's descriptors and signal dispositions; the standard library's start
// changes both.
#[cfg(not(test))]
aifo_process::entry!(run, early_start::begin);
#[cfg(test)]
aifo_process::usual_entry!();

fn run() -> ! {
    let begun = early_start::take();
    let closed = aifo_process::closed_standard_fds();
    let mut args = arguments().into_iter();
    let name = args.next().unwrap_or_default();
    // Some agents execute a shim by its full path as argv[0].
    let name = Path::new(&name).file_name().unwrap_or_default().to_owned();
    let args: Vec<OsString> = args.collect();
    if let Some(ending) = run_in_place() {
        ending.end()
    }
    if let Some(begun) = begun {
        shim::carry_on(begun, name.as_bytes(), &args).end()
    }
    let ending = match name.as_bytes() {
        b"aifo-shim" | b"" => match args.split_first() {
            Some((flag, call)) if flag == "--call" => cli::call(call, closed),
            Some((flag, words)) if flag == "--without-network" => no_network::run(words),
            _ => cli::run(&args),
        },
        b"aifo-agent" => agent::become_agent(&args),
        b"aifo-runner" => {
            aifo_process::ignore_broken_pipes();
            runner::run(&args)
        }
        tool => shim::run(tool, &args, closed),
    };
    ending.end()
}

/// Runs a tool in place, if the program was executed as one.
fn run_in_place() -> Option<ShimExit> {
    let link = aifo_process::executed_path()?.as_os_str().as_bytes();
    if !in_place::is_in_place(link) {
        return None;
    }
    let args = arguments();
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    let environment = aifo_process::environment();
    let call = InPlaceCall { args: &args, environment: &environment, link };
    Some(in_place::run(&call, early_start::take_question()))
}

/// Returns argv. Reads it from the kernel if the C library does not pass it to a program that
/// starts without the standard library.
fn arguments() -> Vec<OsString> {
    let args: Vec<OsString> = std::env::args_os().collect();
    if !args.is_empty() {
        return args;
    }
    let text = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let args = text.strip_suffix(b"\0").unwrap_or_default().split(|byte| *byte == 0);
    args.map(|arg| OsString::from_vec(arg.to_vec())).collect()
}
