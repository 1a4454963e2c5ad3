//! `cargo xtask bench`: what a proxied call costs against a native one.
//!
//! One process measures everything in one run, native and proxied in turns, because figures of
//! different runs do not compare. The bounds stand beside the figures.

mod measure;
mod report;
pub(crate) mod stats;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::dist::{self, Libc};
use crate::scratch::Scratch;
use crate::serve::{self, Options, Serve};
use crate::{host, shell};
use measure::Bench;
use report::Figure;

/// Measures, prints the table and writes the JSON file. Over a bound is a failure only if asked.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let flags = Flags::parse(args)?;
    let dist = dist::build(&shell::root().join("target/bench-bin"))?;
    let scratch = Scratch::new("aifo-bench")?;
    let workspace = scratch.dir("work")?;
    let tools = scratch.dir("tools")?;
    measure::make_tools(&tools)?;
    let serve = Serve::start(&Options {
        dist: &dist,
        workspace: &workspace,
        kinds: &["c-cpp"],
        path: serve::path_with(&tools)?,
        log: scratch.file("serve.log"),
    })?;
    let shims = scratch.links("shims", measure::TOOLS, &dist.shim)?;
    // Every call is made from here. A folder per command would cost each spawn more, natively too,
    // and flatter the ratio.
    std::env::set_current_dir(&workspace)?;
    let bench = Bench { serve: &serve, tools, shims, workspace, depth: flags.depth };
    let size = std::fs::metadata(&dist.shim)?.len() as f64 / f64::from(1 << 20);
    let figures = figures(&bench, dist.libc, size)
        .with_context(|| format!("the session said:\n{}", serve.log_tail()))?;
    serve.stop()?;

    print!("\n{}", report::table(&figures));
    let json = flags.json.unwrap_or_else(|| shell::root().join("target/bench.json"));
    report::write(&json, dist.libc, &figures)?;
    eprintln!("\nwritten to {}", json.display());
    let over = figures.iter().filter(|figure| figure.is_over()).count();
    if over > 0 && flags.verdict == Verdict::Counts {
        bail!("{over} figures are over their bound");
    }
    Ok(())
}

/// All figures, in the order they are measured; the memory ones tell of the session so far.
fn figures(bench: &Bench<'_>, libc: Libc, size_mib: f64) -> Result<Vec<Figure>> {
    let (true_bound, size_bound) = match libc {
        Libc::Musl => (2.0, 1.2),
        Libc::Glibc => (2.6, 2.0),
    };
    let pid = bench.serve.pid();
    let held = |name| Ok::<_, anyhow::Error>(Figure::mib(name, host::memory(pid, "VmRSS")?));
    let peak = |name| Ok::<_, anyhow::Error>(Figure::mib(name, host::memory(pid, "VmHWM")?));

    let mut figures = vec![Figure::mib("shim size", size_mib).at_most(size_bound)];
    figures.push(held("proxy at rest, before")?.at_most(4.0));
    let (many, few) = bench.depth.rounds();
    figures.push(Figure::pairs("true", &bench.true_calls(many)?).at_most(true_bound));
    figures.push(Figure::pairs("64 at once", &bench.burst(64, few)?));
    figures.push(Figure::pairs("Ctrl-C, to native true", &bench.interrupts(few)?).at_most(5.0));
    let pour = format!("{} MiB of output", bench.depth.pour() >> 20);
    figures.push(Figure::pairs(&pour, &bench.pours(3)?).at_most(2.5));
    figures.push(held("proxy at rest, after")?.at_most(4.0));
    let transfer = 256 << 20;
    host::reset_peak(pid);
    bench.transfer_v2(transfer)?;
    figures.push(peak("proxy peak, 256 MiB v2")?.at_most(16.0));
    host::reset_peak(pid);
    bench.transfer_v1(transfer)?;
    figures.push(peak("proxy peak, 256 MiB v1")?.at_most(16.0));
    Ok(figures)
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Full,
    Quick,
}

impl Depth {
    /// Rounds for what takes a millisecond, and for what takes some.
    fn rounds(self) -> (usize, usize) {
        match self {
            Depth::Full => (500, 30),
            Depth::Quick => (100, 10),
        }
    }

    /// Bytes of the output part.
    fn pour(self) -> u64 {
        match self {
            Depth::Full => 1 << 30,
            Depth::Quick => 64 << 20,
        }
    }
}

/// Whether a figure over its bound fails the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Counts,
    IsTold,
}

struct Flags {
    depth: Depth,
    verdict: Verdict,
    json: Option<PathBuf>,
}

impl Flags {
    fn parse(args: &[OsString]) -> Result<Self> {
        let mut flags = Flags { depth: Depth::Full, verdict: Verdict::IsTold, json: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--quick") => flags.depth = Depth::Quick,
                Some("--check") => flags.verdict = Verdict::Counts,
                Some("--json") => {
                    let file = args.next().context("--json takes a file")?;
                    flags.json = Some(std::path::absolute(file)?);
                }
                _ => bail!("usage: cargo xtask bench [--quick] [--check] [--json FILE]"),
            }
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags() {
        let parse = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            Flags::parse(&words)
        };
        let flags = parse(&["--quick", "--json", "/x", "--check"]).unwrap();
        assert_eq!((flags.depth, flags.verdict), (Depth::Quick, Verdict::Counts));
        assert_eq!(flags.json, Some(PathBuf::from("/x")));
        assert!(parse(&["--json"]).is_err());
        assert!(parse(&["fast"]).is_err());
    }
}
