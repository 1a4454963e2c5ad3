//! Reading and forwarding agents' messages, relative to `serde_json` with the same bytes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Depth;
use super::measure::Bench;
use super::report::Measured::{self, Slowdown};
use super::stats::Pairs;
use crate::shell;

/// Splits a stream into lines, scans JSON in bounded memory, and classifies messages. The crate's
/// example `stream` measures the time itself.
pub(super) fn against_parsing(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, "serde_json", "messages")
}

/// The same on the way to an editor with path mapping, relative to parsing and writing.
pub(super) fn relayed_against_rewriting(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, "rewrite", "relay")
}

fn measure(bench: &Bench<'_>, baseline: &'static str, ours: &'static str) -> Result<Measured> {
    let stream = build()?;
    let mib = match bench.depth {
        Depth::Full => "200",
        Depth::Quick => "50",
    };
    let pass = |transport| {
        let stream = &stream;
        move || {
            let nanos = shell::read(Command::new(stream).args([transport, mib]))?;
            Ok(Duration::from_nanos(
                nanos.parse().with_context(|| format!("expected nanoseconds, got '{nanos}'"))?,
            ))
        }
    };
    Pairs::measure(1, pass(baseline), pass(ours))?;
    Pairs::measure(bench.depth.long(), pass(baseline), pass(ours)).map(Slowdown)
}

fn build() -> Result<PathBuf> {
    let dir = shell::root().join("target/dist");
    let mut cargo = shell::cargo(["build", "--release", "-p", "aifo-acp", "--example", "stream"]);
    shell::run(cargo.arg("--target-dir").arg(&dir))?;
    Ok(dir.join("release/examples/stream"))
}
