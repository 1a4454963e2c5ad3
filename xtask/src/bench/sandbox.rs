//! The package for Python: a call in a container of its own, against the engine's exec.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::containers::{BASE, unready};
use super::measure::Bench;
use super::report::Measured::{self, Absent, Slowdown};
use super::stats::Pairs;
use crate::shell;

/// Calls at the same time, each the median of its batch.
pub(super) fn calls(bench: &Bench<'_>, at_once: usize) -> Result<Measured> {
    if let Some(reason) = unready()? {
        return Ok(Absent(reason));
    }
    let Some(python) = shell::find_in_path("python3") else {
        return Ok(Absent("no python3".to_owned()));
    };
    let rounds = bench.depth.long();
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT, BASE, &at_once.to_string(), &rounds.to_string()]);
    command.env("PYTHONPATH", shell::root().join("clients/python/src"));
    command.env("AIFO_RUNNER", &bench.dist.shim).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        bail!("the script in python ended with {}", output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    let nanos = |text: &str| Ok::<_, anyhow::Error>(Duration::from_nanos(text.parse()?));
    let pair = |line: &str| {
        let (engine, package) = line.split_once(' ').context("a line has two times")?;
        Ok((nanos(engine)?, nanos(package)?))
    };
    text.lines().map(pair).collect::<Result<Pairs>>().map(Slowdown)
}

const SCRIPT: &str = include_str!("sandbox.py");
