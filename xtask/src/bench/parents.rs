//! Calls from the runtimes that agents use: each makes the calls and prints the times.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::call::{Calls, Side, Tool, Transport};
use super::stats::Pairs;
use crate::shell;

/// The runtime and the function that starts the tool.
#[derive(Clone, Copy)]
pub(super) enum Parent {
    NodeSpawn,
    NodeSpawnSync,
    Python,
}

impl Parent {
    /// The program's name in PATH.
    pub(super) fn program(self) -> &'static str {
        match self {
            Parent::NodeSpawn | Parent::NodeSpawnSync => "node",
            Parent::Python => "python3",
        }
    }

    /// Time from spawn to exit of a tool that exits at once, measured by this runtime; `None` if it
    /// is not installed. The first `warm_up` pairs do not count.
    pub(super) fn measure(
        self,
        calls: &Calls,
        warm_up: usize,
        rounds: usize,
    ) -> Result<Option<Pairs>> {
        let Some(program) = shell::find_in_path(self.program()) else { return Ok(None) };
        let mut command = Command::new(program);
        match self {
            Parent::NodeSpawn => command.args(["-e", NODE, "spawn"]),
            Parent::NodeSpawnSync => command.args(["-e", NODE, "spawnSync"]),
            Parent::Python => command.args(["-c", PYTHON]),
        };
        for side in [Side::Native, Side::Proxied] {
            command.arg(calls.program(side, Tool::True));
        }
        command.arg((warm_up + rounds).to_string());
        calls.set_environment(&mut command, Transport::Passed);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            bail!("{} failed: {}", self.program(), output.status);
        }
        let times = parse(&String::from_utf8(output.stdout)?)?;
        if times.len() != warm_up + rounds {
            bail!("'{}' reported {} calls", self.program(), times.len());
        }
        Ok(Some(times.into_iter().skip(warm_up).collect()))
    }
}

const NODE: &str = include_str!("parent.js");
const PYTHON: &str = include_str!("parent.py");

/// Parses a pair per line: nanoseconds, native and proxied.
fn parse(text: &str) -> Result<Vec<(Duration, Duration)>> {
    let pair = |line: &str| {
        let (native, proxied) = line.split_once(' ')?;
        let time = |digits: &str| Some(Duration::from_nanos(digits.parse().ok()?));
        Some((time(native)?, time(proxied)?))
    };
    text.lines().map(|line| pair(line).with_context(|| format!("invalid pair {line:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_pair() {
        let nanos = Duration::from_nanos;
        assert_eq!(parse("1 2\n30 40\n").unwrap(), [(nanos(1), nanos(2)), (nanos(30), nanos(40))]);
        for text in ["1\n", "1 2 3\n", "a b\n", "\n"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
