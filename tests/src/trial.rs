//! Stories that only some machines can tell.

use std::io::Write;
use std::process::{Command, Stdio};

/// Whether runners are reached by descriptors, which `test` is about. Where `AIFO_TEST_TRANSPORT` says
/// otherwise, the story is named as left out.
pub fn passes_descriptors(test: &str) -> bool {
    let passes = std::env::var(TRANSPORT).map_or(true, |transport| transport != "stdio");
    if !passes {
        report_skipped(test, "no descriptor reaches a runner by stdio");
    }
    passes
}

/// Whether this machine lets us do what `test` needs, as far as a trial command can tell. Where it
/// does not, the story is named as left out, also when the test's output is captured.
pub fn can_run(test: &str, trial: &[&str]) -> bool {
    let (program, args) = trial.split_first().expect("a trial is a command");
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let possible = command.status().is_ok_and(|status| status.success());
    if !possible {
        report_skipped(test, &format!("'{}' is not possible here", trial.join(" ")));
    }
    possible
}

fn report_skipped(test: &str, why: &str) {
    // Nobody is left to be told that stderr is gone.
    let _ = writeln!(std::io::stderr(), "left out: {test} ({why})");
}

/// The variable of the suites by which every session has its runners reached in some way.
pub(crate) const TRANSPORT: &str = "AIFO_TEST_TRANSPORT";
