//! What `aifo-shim` says under its own name.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::install::install;
use crate::shim_exit::ShimExit;
use crate::{log, shim};

const HELP: &str = "\
aifo-shim: runs a tool in its sidecar

Link it under a tool's name (cargo, node, python3, make, ...) in a folder that stands first in PATH.
Called so, every argument is the tool's.

  aifo-shim --install DIR
                         copy itself into DIR and link every tool's name to it there
  aifo-shim --call TOOL [ARG..]
                         be that tool, as by its link
  aifo-shim --version    version, build and the protocols it speaks
  aifo-shim --help       this text

Environment: AIFO_TOOLEEXEC_URL and AIFO_TOOLEEXEC_TOKEN (or AIFO_TOOLEEXEC_TOKEN_FILE) say where the
proxy is; AIFO_TOOLCHAIN_VERBOSE=1 tells what is done. AIFO_SHIM_PROTO=2 calls by the older protocol,
AIFO_SHIM_RELAY=1 passes no descriptor, AIFO_SHIM_ENV=NAME,PREFIX* names further variables for tools.

Exit codes: the tool's own, and its very signal if one ended it; 86 nothing ran; 124 the tool ran
into the time limit; 125 its ending is unknown; 126 it could not be executed; 127 it was not found.
";

/// Is the tool that the first word names, whatever we are called.
pub(crate) fn call(words: &[OsString], closed: [bool; 3]) -> ShimExit {
    match words.split_first() {
        Some((tool, args)) => shim::run(tool.as_bytes(), args, closed),
        None => {
            log::line("--call needs the name of a tool; see 'aifo-shim --help'");
            ShimExit::Code(USAGE)
        }
    }
}

pub(crate) fn run(args: &[OsString]) -> ShimExit {
    let text = match args {
        [only] if only == "--version" || only == "-V" => {
            let build = option_env!("AIFO_COMMIT").unwrap_or("local build");
            format!("aifo-shim {} ({build}), protocols 1 2 3\n", env!("CARGO_PKG_VERSION"))
        }
        [flag, directory] if flag == "--install" => match install(Path::new(directory)) {
            Ok(count) => format!("{count} links to aifo-shim in {}\n", directory.display()),
            Err(error) => {
                log::line(format_args!("cannot install into '{}': {error}", directory.display()));
                return ShimExit::Code(1);
            }
        },
        [only] if only == "--help" || only == "-h" => HELP.to_owned(),
        _ => {
            log::line("called by its own name, it runs nothing; see 'aifo-shim --help'");
            return ShimExit::Code(USAGE);
        }
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ShimExit::Code(0),
        Err(_) => ShimExit::Code(1),
    }
}

/// The command line was wrong.
const USAGE: u8 = 2;
