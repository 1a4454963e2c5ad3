//! `aifo-runner`: the other half of this binary, inside a sidecar.
//!
//! Whoever starts it hands over its control connection as stdin:
//! `aifo-runner guard|serve [--guarded-by PID] [--write PATH]..`

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use aifo_process::{Confinement, confine, die_with_parent, take_fd};
use aifo_runner::GUARDED_BY;
use aifo_types::Signal;
use nix::unistd::Pid;

use crate::ending::ShimEnd;
use crate::tell;

pub(crate) fn run(args: &[OsString]) -> ShimEnd {
    let Some((role, options)) = args.split_first() else { return usage() };
    let ended = match role.to_str() {
        Some("guard") => take_fd(0).and_then(|control| aifo_runner::guard(control, options)),
        Some("monitor") => take_fd(0).and_then(aifo_runner::monitor),
        Some("serve") => match Options::parse(options) {
            Some(options) => serve(&options),
            None => return usage(),
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

/// What a runner is told on its command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The guard, which ends what this runner leaves behind.
    guard: Option<i32>,
    /// Where tools may write; `None` for everywhere.
    confinement: Option<Confinement>,
}

impl Options {
    fn parse(words: &[OsString]) -> Option<Self> {
        let mut options = Options::default();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return None };
            match name.to_str() {
                Some(GUARDED_BY) => options.guard = Some(value.to_str()?.parse().ok()?),
                Some(aifo_runner::WRITE) => {
                    let confinement = options.confinement.get_or_insert_default();
                    confinement.writable.push(PathBuf::from(value));
                }
                _ => return None,
            }
        }
        Some(options)
    }
}

fn serve(options: &Options) -> io::Result<()> {
    let control = take_fd(0)?;
    if let Some(guard) = options.guard {
        die_with_parent(Pid::from_raw(guard), Signal::Term)?;
    }
    // Before there is a thread or a tool, so that none is outside.
    if let Some(confinement) = &options.confinement {
        confine(confinement).map_err(io::Error::other)?;
    }
    aifo_runner::serve(control).map_err(io::Error::other)
}

fn usage() -> ShimEnd {
    tell::line("aifo-runner is started by aifo-coder, with its control connection as stdin");
    ShimEnd::Code(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let parse =
            |words: &[&str]| Options::parse(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(parse(&[]), Some(Options::default()));
        let both = parse(&[GUARDED_BY, "7", aifo_runner::WRITE, "/a", aifo_runner::WRITE, "/b"]);
        let writable = vec![PathBuf::from("/a"), PathBuf::from("/b")];
        let confinement = Some(Confinement { writable });
        assert_eq!(both, Some(Options { guard: Some(7), confinement }));
        for words in [&["--x", "1"][..], &[GUARDED_BY], &[GUARDED_BY, "x"]] {
            assert_eq!(parse(words), None, "{words:?}");
        }
    }
}
