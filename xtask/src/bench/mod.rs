//! `cargo xtask bench`: the cost of a proxied call relative to a native one.
//!
//! One process measures everything in one run, native and proxied in turns, because results of
//! different runs do not compare. Each result is printed with its bound.

mod builds;
mod call;
mod containers;
mod cpu;
mod frames;
mod history;
mod in_place;
mod mailbox;
mod measure;
mod messages;
mod network;
mod parents;
mod report;
mod rows;
mod rules;
mod sandbox;
pub(crate) mod stats;
mod version1;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use call::{Calls, Tool};
use measure::Bench;
use report::Figure;
use rows::{ROWS, Row};

use crate::serve::{self, Options, Serve};
use crate::{dist, shell};

/// Measures, prints the table and writes the JSON file. With `--check`, fails if a bound is
/// exceeded.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let flags = Flags::parse(args)?;
    let rows = selected(&flags.only)?;
    let dist = dist::build(&shell::root().join("target/bench-bin"))?;
    let scratch = aifo_engine::images::scratch()?;
    // Canonical, as calls name the directory that the kernel reports.
    let root = scratch.path().canonicalize()?;
    let [workspace, tools, shims] = ["work", "tools", "shims"].map(|name| root.join(name));
    fs::create_dir(&workspace)?;
    fs::create_dir(&tools)?;
    Tool::make_all(&tools)?;
    let serve = Serve::start(&Options {
        dist: &dist,
        workspace: &workspace,
        kinds: &["c-cpp"],
        backend: serve::Backend::Local,
        path: serve::path_with(&tools)?,
        arguments: &[],
        variables: &[],
        log: root.join("serve.log"),
    })?;
    dist.link_shims(&shims, Tool::NAMES)?;
    // All calls start in this directory. A directory per command would slow every spawn, also
    // natively, and flatter the ratio.
    std::env::set_current_dir(&workspace)?;
    let calls = Calls { tools, shims, client_env: serve.client_env().to_vec() };
    let depth = flags.depth;
    let bench = Bench { dist: &dist, serve: &serve, calls, workspace, depth };
    let figures = figures(&bench, &rows)
        .with_context(|| format!("the session's log:\n{}", serve.log_tail()))?;
    serve.stop()?;

    print!("\n{}", report::text(&figures, dist.libc, depth));
    let json = flags.json.unwrap_or_else(|| shell::root().join("target/bench.json"));
    report::write(&json, &figures, dist.libc, depth)?;
    eprintln!("\nwritten to {}", json.display());
    let over = figures.iter().filter(|figure| figure.is_over()).count();
    if over > 0 && flags.verdict == Verdict::Counts {
        bail!("{over} figures exceed their bound");
    }
    Ok(())
}

/// The rows whose name contains one of these parts; all if there are none.
fn selected(only: &[String]) -> Result<Vec<&'static Row>> {
    let named = |row: &&Row| only.is_empty() || only.iter().any(|part| row.name.contains(part));
    if let Some(part) = only.iter().find(|part| !ROWS.iter().any(|row| row.name.contains(*part))) {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        bail!("no row is named '{part}'\nhint: the rows are:\n  {}", names.join("\n  "));
    }
    Ok(ROWS.iter().filter(named).collect())
}

fn figures(bench: &Bench<'_>, rows: &[&Row]) -> Result<Vec<Figure>> {
    let figure = |row: &&Row| {
        eprintln!("{}", row.name);
        let measured = (row.measure)(bench).with_context(|| row.name)?;
        Ok(Figure::new(row.name, measured, row.bound))
    };
    rows.iter().map(figure).collect()
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Full,
    Quick,
}

impl Depth {
    /// Pairs of calls that take a few milliseconds.
    fn calls(self) -> usize {
        match self {
            Depth::Full => 500,
            Depth::Quick => 100,
        }
    }

    /// Pairs of longer measurements: enough to see both modes of a pipe more than once.
    fn long(self) -> usize {
        match self {
            Depth::Full => 31,
            Depth::Quick => 11,
        }
    }

    /// Pairs of builds, which take seconds.
    fn builds(self) -> usize {
        match self {
            Depth::Full => 5,
            Depth::Quick => 3,
        }
    }

    /// Pairs of series for the CPU time, and calls per series.
    fn series(self) -> (usize, u32) {
        match self {
            Depth::Full => (11, 500),
            Depth::Quick => (5, 200),
        }
    }

    /// Bytes of a tool output.
    fn output(self) -> u64 {
        match self {
            Depth::Full => 1 << 30,
            Depth::Quick => 64 << 20,
        }
    }
}

/// Selects whether an exceeded bound fails the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Counts,
    IsTold,
}

const USAGE: &str = "usage: cargo xtask bench [--quick] [--check] [--only NAME].. [--json FILE]";

struct Flags {
    depth: Depth,
    verdict: Verdict,
    /// Parts of the names of rows to measure; empty for all.
    only: Vec<String>,
    json: Option<PathBuf>,
}

impl Flags {
    fn parse(args: &[OsString]) -> Result<Self> {
        let mut flags =
            Flags { depth: Depth::Full, verdict: Verdict::IsTold, only: Vec::new(), json: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--quick") => flags.depth = Depth::Quick,
                Some("--check") => flags.verdict = Verdict::Counts,
                Some("--only") => {
                    let name = args.next().context("--only takes a row's name, or a part of it")?;
                    flags.only.push(name.to_str().context("a name is text")?.to_owned());
                }
                Some("--json") => {
                    let file = args.next().context("--json takes a file")?;
                    flags.json = Some(std::path::absolute(file)?);
                }
                _ => bail!("{USAGE}"),
            }
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_parts_of_their_names() {
        let names = |only: &[&str]| -> Vec<&str> {
            let only: Vec<String> = only.iter().copied().map(str::to_owned).collect();
            selected(&only).unwrap().iter().map(|row| row.name).collect()
        };
        assert_eq!(names(&[]).len(), ROWS.len());
        assert_eq!(names(&["output, passed"]), ["output, passed"]);
        assert_eq!(names(&["CPU of all", "true, passed"]), ["true, passed", "CPU of all parties"]);
        assert!(selected(&["nonsense".to_owned()]).is_err());
    }

    #[test]
    fn flags() {
        let parse = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            Flags::parse(&words)
        };
        let flags = parse(&["--quick", "--only", "CPU", "--json", "/x", "--check"]).unwrap();
        assert_eq!((flags.depth, flags.verdict), (Depth::Quick, Verdict::Counts));
        assert_eq!(flags.json, Some(PathBuf::from("/x")));
        assert_eq!(flags.only, ["CPU"]);
        assert!(parse(&["--only"]).is_err());
        assert!(parse(&["--json"]).is_err());
        assert!(parse(&["fast"]).is_err());
    }
}
