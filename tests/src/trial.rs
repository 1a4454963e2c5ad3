//! Stories that only some machines can tell.

use std::io::Write;
use std::process::{Command, Stdio};

/// Whether this machine lets us do what `story` needs, as far as a trial command can tell. Where it
/// does not, the story is named as left out, also when the test's output is captured.
pub fn possible(story: &str, trial: &[&str]) -> bool {
    let (program, args) = trial.split_first().expect("a trial is a command");
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let possible = command.status().is_ok_and(|status| status.success());
    if !possible {
        let trial = trial.join(" ");
        // Nobody is left to be told that stderr is gone.
        let _ = writeln!(std::io::stderr(), "left out: {story} ('{trial}' is not possible here)");
    }
    possible
}
