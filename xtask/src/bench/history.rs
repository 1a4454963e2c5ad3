//! Checkpoints: the time that they add to a call.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use super::call::{Calls, Side, Tool, Transport, expect_success};
use super::measure::{Bench, WARM_UP};
use super::report::Measured::{self, Added};
use super::rules::Session;
use super::stats::Pairs;

/// Files in the workspace.
const FILES: usize = 10_000;

/// Adds to a call before which `changed` files of the workspace were changed, to a call in a session without
/// checkpoints.
pub(super) fn added(bench: &Bench<'_>, changed: usize) -> Result<Measured> {
    let with = Session::start(bench, "", &[])?;
    let without = Session::start(bench, "[history]\nenabled = false\n", &[])?;
    for session in [&with, &without] {
        for number in 0..FILES {
            let path = file(&session.workspace, number);
            if number % 50 == 0 {
                fs::create_dir_all(path.parent().unwrap_or(&session.workspace))?;
            }
            fs::write(path, format!("{number:0200}"))?;
        }
    }
    // A call after them waits for their checkpoint.
    let (with_calls, without_calls) = (with.calls(bench), without.calls(bench));
    let number = Cell::new(0);
    let call = |session: &Session, calls: &Calls| {
        for _ in 0..changed {
            number.set(number.get() + 1);
            let content = format!("{:0200}x", number.get());
            fs::write(file(&session.workspace, number.get() % FILES), content)?;
        }
        let mut command = calls.command(Side::Proxied, Transport::Passed, Tool::True);
        command.current_dir(&session.workspace);
        let start = Instant::now();
        let output = command.output()?;
        let time = start.elapsed();
        expect_success(&output)?;
        Ok(time)
    };
    let pairs = |rounds| {
        Pairs::measure(rounds, || call(&without, &without_calls), || call(&with, &with_calls))
    };
    pairs(WARM_UP)?;
    pairs(bench.depth.calls()).map(Added)
}

fn file(workspace: &Path, number: usize) -> std::path::PathBuf {
    workspace.join(format!("d{}/f{number}", number / 50))
}
