//! The command line of `aifo-shim` (`spec/shim.md#names`).

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::install::install;
use crate::shim_exit::ShimExit;
use crate::{log, shim};

const HELP: &str = "\
aifo-shim - run a tool in its sidecar

USAGE
  TOOL [ARG..]                   run TOOL, a link to aifo-shim
  aifo-shim --call TOOL [ARG..]  run TOOL without a link
  aifo-shim --install DIR [NAME].. [--in-place NAME..]
                                 install links for all tools, and these names, in DIR; those
                                 after --in-place are judged, then run where they are
  aifo-shim --without-network CMD [ARG..]
                                 run CMD here, without network
  aifo-shim --version            print the version and protocols
  aifo-shim --help               print this help

  Put DIR first in PATH. A link passes all arguments to its tool.

ENVIRONMENT
  AIFO_TOOLEEXEC_URL          proxy: unix:///PATH or http://HOST:PORT/exec
  AIFO_TOOLEEXEC_TOKEN        access token
  AIFO_TOOLEEXEC_TOKEN_FILE   file with the access token
  AIFO_TOOLCHAIN_VERBOSE=1    log decisions to stderr
  AIFO_SHIM_PROTO=2           use protocol version 2
  AIFO_SHIM_RELAY=1           pass no descriptors
  AIFO_SHIM_ENV=NAME,PREFIX*  forward these variables, too

EXIT STATUS
  The tool's exit code or signal, or:
    2  invalid arguments
   86  nothing ran
  124  time limit exceeded
  125  exit status unknown
  126  tool not executable
  127  interpreter of the tool not found
";

pub(crate) fn call(words: &[OsString], closed: [bool; 3]) -> ShimExit {
    match words.split_first() {
        Some((tool, args)) => shim::run(tool.as_bytes(), args, closed),
        None => {
            log::line("--call requires a tool name; see 'aifo-shim --help'");
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
        [flag, directory, names @ ..] if flag == "--install" => {
            match install(Path::new(directory), names) {
                Ok(count) => format!("{count} links to aifo-shim in {}\n", directory.display()),
                Err(error) => {
                    let directory = directory.display();
                    log::line(format_args!("cannot install into '{directory}': {error}"));
                    return ShimExit::Code(1);
                }
            }
        }
        [only] if only == "--help" || only == "-h" => HELP.to_owned(),
        _ => {
            log::line("invalid arguments; see 'aifo-shim --help'");
            return ShimExit::Code(USAGE);
        }
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ShimExit::Code(0),
        Err(_) => ShimExit::Code(1),
    }
}

const USAGE: u8 = 2;
