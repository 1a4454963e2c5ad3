//! Reading and passing on what agents send, against `serde_json` doing so with the same bytes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Depth;
use super::measure::Bench;
use super::report::Measured::{self, Slowdown};
use super::stats::Pairs;
use crate::shell;

/// Lines off a stream, JSON in bounded memory, and messages told apart. The program that does it, an
/// example of the crate, takes the time itself.
pub(super) fn against_parsing(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, "serde_json", "messages")
}

/// The same on its way to an editor, with paths to map, against parsing and writing it.
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
            Ok(Duration::from_nanos(nanos.parse().with_context(|| format!("said '{nanos}'"))?))
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
