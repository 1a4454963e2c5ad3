//! Counts instructions, which do not change with the machine's load, with valgrind.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell;

/// Returns the instructions of a program's first process from its start to its exit; `None` without valgrind.
/// Its streams are not those of `program`.
pub(crate) fn instructions(program: &Command) -> Result<Option<f64>> {
    let Some(valgrind) = shell::find_in_path("valgrind") else { return Ok(None) };
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program.get_program()).args(program.get_args()).stdin(Stdio::null());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = program.get_current_dir() {
        command.current_dir(directory);
    }
    let output = command.output()?;
    // A line `==7== Collected : 66021`.
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} ended with {}:\n{report}", shell::line(program), output.status);
    }
    let count = report.split_once("Collected : ").and_then(|(_, rest)| rest.lines().next());
    let count = count.with_context(|| format!("callgrind printed no count:\n{report}"))?;
    Ok(Some(count.trim().parse()?))
}
