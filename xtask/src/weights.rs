//! `cargo xtask weights`: sizes, memory at rest, and instructions of starts. A machine's speed and load change
//! none of them, so `cargo xtask ci` checks them, with this build's programs.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::{Dist, Libc};
use crate::serve::{self, Options, Serve};
use crate::{callgrind, elf, host, shell, table, test_program};

/// A figure of a program.
enum Figure {
    /// What the kernel maps of a file of this name, in MiB.
    Size(&'static str),
    /// The memory of `serve` that no file has, before its first call, in MiB.
    MemoryAtRest,
    /// The instructions of `aifo-coder` with these arguments, in millions. Not of a command that reads a
    /// workspace: valgrind lacks `openat2`.
    Start(&'static [&'static str]),
}

/// Figures, what was seen of each with the pinned toolchain and Debian's C library, and what it may rise: less than
/// 2 MiB of heap, a fifth of the instructions, or 1 MiB of a file.
const ROWS: &[(Figure, f64, f64)] = &[
    (Figure::Size("aifo-coder"), 59.4, 0.9),
    (Figure::Size("aifo-shim"), 3.6, 0.3),
    (Figure::MemoryAtRest, 3.5, 1.0),
    (Figure::Start(&["--version"]), 3.6, 0.5),
    (Figure::Start(&["cleanup", "--help"]), 8.1, 1.0),
];

impl Figure {
    fn name(&self) -> String {
        match self {
            Figure::Size(name) => format!("size of {name}"),
            Figure::MemoryAtRest => "memory of serve at rest".to_owned(),
            Figure::Start(words) => format!("aifo-coder {}", words.join(" ")),
        }
    }

    fn unit(&self) -> &'static str {
        match self {
            Figure::Size(_) | Figure::MemoryAtRest => "MiB",
            Figure::Start(_) => "million instructions",
        }
    }
}

/// Measures all rows, prints them, and fails if one is above its bound.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask weights");
    }
    shell::run(&mut test_program::cargo_build())?;
    let programs = Programs::of_this_build()?;
    let mut lines = Vec::new();
    let mut over = 0;
    for (figure, seen, margin) in ROWS {
        let bound = seen + margin;
        let measured = programs.measure(figure).with_context(|| figure.name())?;
        let verdict = match measured {
            None => "no valgrind",
            Some(value) if value > bound => "OVER",
            Some(_) => "ok",
        };
        over += usize::from(verdict == "OVER");
        let shown = measured.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        lines.push([
            figure.name(),
            shown,
            format!("<= {bound:.2} {}", figure.unit()),
            verdict.to_owned(),
        ]);
    }
    print!("{}", table::layout(["figure", "measured", "bound", ""], &lines));
    if over > 0 {
        bail!(
            "{over} figures are above their bound\n\
             hint: find what a change added; a higher figure in xtask/src/weights.rs is a line of a commit of its own"
        );
    }
    Ok(())
}

/// The programs of this build, with a home and a workspace that are empty.
struct Programs {
    dist: Dist,
    scratch: tempfile::TempDir,
}

impl Programs {
    fn of_this_build() -> Result<Self> {
        let this = std::env::current_exe()?;
        let profile = this.parent().context("a program lies in its profile's directory")?;
        let [shim, coder] = ["aifo-shim", "aifo-coder"].map(|name| profile.join(name));
        let scratch = aifo_engine::images::scratch()?;
        fs::create_dir(scratch.path().join("work"))?;
        Ok(Programs { dist: Dist { shim, coder, libc: Libc::Glibc }, scratch })
    }

    fn measure(&self, figure: &Figure) -> Result<Option<f64>> {
        match figure {
            Figure::Size(name) => {
                let path = self.dist.coder.with_file_name(name);
                Ok(Some(elf::loaded_bytes(&path)? as f64 / f64::from(1 << 20)))
            }
            Figure::MemoryAtRest => self.memory_at_rest().map(Some),
            Figure::Start(words) => {
                let mut command = Command::new(&self.dist.coder);
                command.args(*words).current_dir(self.workspace()).env("HOME", self.scratch.path());
                Ok(callgrind::instructions(&command)?.map(|count| count / 1e6))
            }
        }
    }

    fn memory_at_rest(&self) -> Result<f64> {
        let serve = Serve::start(&Options {
            dist: &self.dist,
            workspace: &self.workspace(),
            kinds: &["c-cpp"],
            backend: serve::Backend::Local,
            path: std::env::var_os("PATH").unwrap_or_default(),
            arguments: &[],
            variables: &[("HOME", self.scratch.path())],
            log: self.scratch.path().join("serve.log"),
        })?;
        let memory = host::memory(serve.pid(), "RssAnon");
        serve.stop()?;
        memory
    }

    fn workspace(&self) -> PathBuf {
        self.scratch.path().join("work")
    }
}
