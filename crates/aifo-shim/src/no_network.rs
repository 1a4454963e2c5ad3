//! `aifo-shim --without-network CMD [ARG..]`: executes a command without network
//! (`spec/confinement.md#no-network`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use aifo_process::{Lookup, close_network_sockets, find_in_path, give_up_network, kernel};
use aifo_types::exit;
use nix::errno::Errno;

use crate::failure::{not_executed, report_not_started};
use crate::log;
use crate::shim_exit::ShimExit;

/// Takes the network from this process, which runs `tool` next. Errors: the tool must not run.
pub(crate) fn enter(tool: &str) -> Result<(), ShimExit> {
    let refused = |why: &dyn std::fmt::Display| {
        report_not_started(format_args!("a rule runs '{tool}' without network only: {why}"))
    };
    match close_network_sockets() {
        Ok(None) => {}
        Ok(Some(number)) => {
            return Err(refused(&format_args!(
                "its descriptor {number} is a network connection\nhint: redirect it to a file or pipe"
            )));
        }
        Err(error) => return Err(refused(&format_args!("cannot read '/proc/self/fd': {error}"))),
    }
    give_up_network().map_err(|error| {
        refused(&format_args!(
            "cannot install a filter of system calls: {error}\n\
             hint: the kernel needs seccomp filters (CONFIG_SECCOMP_FILTER)"
        ))
    })
}

/// Replaces this process by the command. Returns only on failure.
pub(crate) fn run(words: &[OsString]) -> ShimExit {
    let Some(command) = words.first() else {
        log::line("--without-network requires a command; see 'aifo-shim --help'");
        return ShimExit::Code(2);
    };
    let program = match command.as_bytes().contains(&b'/') {
        true => PathBuf::from(command),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
            match find_in_path(command, &path) {
                Lookup::Found(program) => program,
                Lookup::NotExecutable(file) => {
                    return not_executed(file.as_os_str().as_bytes(), Errno::EACCES);
                }
                Lookup::Absent => {
                    log::line(format_args!("'{}' is not found in PATH", command.display()));
                    return ShimExit::Code(exit::NOT_FOUND);
                }
            }
        }
    };
    if let Err(refused) = enter(&command.to_string_lossy()) {
        return refused;
    }
    let args: Vec<&[u8]> = words.iter().map(|word| OsStr::as_bytes(word)).collect();
    let program = program.as_os_str().as_bytes();
    not_executed(program, kernel::execute(program, &args, &aifo_process::environment()))
}
