//! `aifo-runner`: the other half of this binary, inside a sidecar.
//!
//! Whoever starts it hands over its control connection as stdin.

use std::ffi::OsString;
use std::io;

use aifo_process::{die_with_parent, take_fd};
use aifo_types::Signal;
use nix::unistd::Pid;

use crate::ending::ShimEnd;
use crate::tell;

pub(crate) fn run(args: &[OsString]) -> ShimEnd {
    let args: Vec<_> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let ended = match args.as_slice() {
        ["guard"] => control().and_then(aifo_runner::guard),
        ["serve"] => control().and_then(serve),
        ["serve", aifo_runner::GUARDED_BY, guard] => match guard.parse() {
            Ok(guard) => guarded(Pid::from_raw(guard)),
            Err(_) => return usage(),
        },
        _ => return usage(),
    };
    match ended {
        Ok(()) => ShimEnd::Code(0),
        Err(error) => {
            tell::line(format_args!("runner: {error}"));
            ShimEnd::Code(1)
        }
    }
}

/// A runner that is told when its guard dies, whose place it then takes.
fn guarded(guard: Pid) -> io::Result<()> {
    let control = control()?;
    die_with_parent(guard, Signal::Term)?;
    serve(control)
}

fn serve(control: std::os::fd::OwnedFd) -> io::Result<()> {
    aifo_runner::serve(control).map_err(io::Error::other)
}

fn control() -> io::Result<std::os::fd::OwnedFd> {
    take_fd(0)
}

fn usage() -> ShimEnd {
    tell::line("aifo-runner is started by aifo-coder, with its control connection as stdin");
    ShimEnd::Code(2)
}
