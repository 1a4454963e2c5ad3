//! `aifo-shim`: the one static binary that goes where the agent and the tools are.
//!
//! Its name decides what it is: under a tool's name it is that tool, run in a sidecar; as
//! `aifo-runner` it is the resident server inside one; as `aifo-shim` it tells about itself. It is
//! a short blocking program without a runtime or threads, because it starts once per tool call.

mod call;
mod connection;
mod ending;
mod install;
mod interrupts;
mod itself;
mod local;
mod notification;
mod outlet;
mod resident;
mod settings;
mod shell;
mod shim;
mod tell;
mod variables;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn main() -> ! {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    // Some agents execute a shim by its full path as argv[0].
    let name = Path::new(&name).file_name().unwrap_or_default().to_owned();
    let args: Vec<OsString> = args.collect();
    let ending = match name.as_bytes() {
        b"aifo-shim" | b"" => itself::tell(&args),
        b"aifo-runner" => resident::run(&args),
        tool => shim::run(tool, &args),
    };
    ending.end()
}
