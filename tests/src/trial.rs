//! Tests that need features of the machine.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// True if runners receive descriptors, which `test` needs. With `AIFO_TEST_TRANSPORT=stdio` they
/// do not, and the test is reported as skipped.
pub fn passes_descriptors(test: &str) -> bool {
    let passes = std::env::var(TRANSPORT).map_or(true, |transport| transport != "stdio");
    if !passes {
        report_skipped(test, "no descriptor reaches a runner by stdio");
    }
    passes
}

/// True if a trial command succeeds, which `test` needs. If not, reports the test as skipped, even
/// if the test's output is captured.
pub fn can_run(test: &str, trial: &[&str]) -> bool {
    let (program, args) = trial.split_first().expect("a trial is a command");
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let possible = command.status().is_ok_and(|status| status.success());
    if !possible {
        report_skipped(test, &format!("'{}' failed", trial.join(" ")));
    }
    possible
}

fn report_skipped(test: &str, why: &str) {
    // A closed stderr does not matter.
    let _ = writeln!(std::io::stderr(), "skipped: {test} ({why})");
}

/// Sets the runner transport of every session.
pub(crate) const TRANSPORT: &str = "AIFO_TEST_TRANSPORT";

/// The absolute path of a program of the machine.
pub fn program(name: &str) -> Option<PathBuf> {
    PLACES.iter().map(|place| Path::new(place).join(name)).find(|path| path.is_file())
}

/// Directories of the machine's programs.
const PLACES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];
