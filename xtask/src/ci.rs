//! `cargo xtask ci`: every required check, the fastest first.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::container_gate::{self, Outcome};
use crate::images::Engine;
use crate::{shell, suites, test_program, tidy, weights, workspace};

/// A step: its title, the command that reruns it, and its function.
struct Step {
    title: &'static str,
    rerun: &'static str,
    run: fn() -> Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step { title: "format", rerun: "cargo fmt --all", run: || passed(format()) },
    Step { title: "tidy", rerun: "cargo xtask tidy", run: || passed(tidy::run(&[])) },
    Step {
        title: "lints",
        rerun: "cargo clippy --workspace --all-targets -- -D warnings",
        run: || passed(lints()),
    },
    Step { title: "tests", rerun: "cargo test --workspace --all-targets", run: || passed(tests()) },
    Step { title: "doctests", rerun: "cargo test --workspace --doc", run: || passed(doctests()) },
    Step {
        title: "pending tests",
        rerun: "cargo xtask test pending",
        run: || passed(suites::pending()),
    },
    Step {
        title: "docs",
        rerun: "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps",
        run: || passed(docs()),
    },
    Step { title: "weights", rerun: "cargo xtask weights", run: || passed(weights::run(&[])) },
    Step { title: "images", rerun: "cargo xtask images test", run: container_gate::images },
    Step {
        title: "docker",
        rerun: "cargo xtask test docker",
        run: || container_gate::all(Engine::Docker),
    },
    Step {
        title: "podman",
        rerun: "cargo xtask test podman",
        run: || container_gate::all(Engine::Podman),
    },
];

/// Runs all steps, prints a summary, and fails with the reasons of those that failed.
pub(crate) fn run(_args: &[OsString]) -> Result<()> {
    let mut summary = Vec::new();
    let mut failures = Vec::new();
    for step in STEPS {
        eprintln!("\n== {} ==", step.title);
        let start = Instant::now();
        let result = (step.run)();
        let time = start.elapsed();
        eprintln!("-- {}: {:.1} s", step.title, time.as_secs_f64());
        let verdict = match result {
            Ok(Outcome::Passed) => "ok",
            Ok(Outcome::Skipped) => "skipped",
            Err(_) => "FAILED",
        };
        summary.push(line(step, time, verdict));
        if let Err(error) = result {
            eprintln!("{}: {error:#}", step.title);
            failures
                .push(format!("{}: {error:#}\nhint: rerun it with: {}", step.title, step.rerun));
        }
    }
    eprintln!("\n{}", summary.join("\n"));
    if !failures.is_empty() {
        bail!("{} of {} steps failed\n\n{}", failures.len(), STEPS.len(), failures.join("\n\n"));
    }
    Ok(())
}

fn line(step: &Step, time: Duration, verdict: &str) -> String {
    format!("{:<14} {verdict:<7} {:>6.1} s", step.title, time.as_secs_f64())
}

/// The outcome of a step that is never skipped.
fn passed(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Passed)
}

fn format() -> Result<()> {
    shell::run(&mut shell::cargo(["fmt", "--all", "--check"]))
}

fn lints() -> Result<()> {
    let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    shell::run(&mut shell::cargo(args))
}

fn tests() -> Result<()> {
    let command = |args: &[String]| {
        let mut command =
            shell::cargo(["test", "--workspace", "--all-targets", "--no-fail-fast", "--"]);
        command.args(args);
        command
    };
    test_program::run_tests(command, &[])
}

fn docs() -> Result<()> {
    let args = ["doc", "--workspace", "--no-deps"];
    shell::run(shell::cargo(args).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs the doctests and fails if a library has none: a manifest or a fence can switch them off
/// silently.
fn doctests() -> Result<()> {
    let args = ["test", "--workspace", "--doc", "--no-fail-fast"];
    let run = || shell::capture(&mut shell::cargo(args));
    let (mut status, mut report) = run()?;
    // As with other tests, a few that fail run once more.
    if test_program::may_be_flaky(&test_program::failures(&report)) {
        (status, report) = run()?;
    }
    if !status.success() {
        bail!("doctests failed:\n{}", test_program::failures(&report).join("\n"));
    }
    let counts = doctest_counts(&report);
    let ran = |library: &&str| counts.get(*library).is_some_and(|count| *count > 0);
    let packages = workspace::packages()?;
    let libraries =
        packages.iter().filter(|p| p.is_product()).flat_map(|package| package.targets_of("lib"));
    let silent: Vec<&str> = libraries.filter(|library| !ran(library)).collect();
    if !silent.is_empty() {
        bail!("no doctest ran in {}", silent.join(", "));
    }
    Ok(())
}

/// Counts passed doctests by library, from the output of `cargo test --doc`.
fn doctest_counts(report: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    let mut library = None;
    for line in report.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("Doc-tests ") {
            library = Some(name);
        } else if let Some(rest) = line.strip_prefix("test result: ok. ")
            && let Some(name) = library
        {
            let count = rest.split(' ').next().and_then(|word| word.parse::<usize>().ok());
            *counts.entry(name).or_default() += count.unwrap_or(0);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctests_are_counted_by_library() {
        let report = "\
   Doc-tests aifo_types

running 2 tests
test crates/types/src/lib.rs - (line 10) ... ok

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.5s

   Doc-tests aifo_wire

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s
";
        let expected = BTreeMap::from([("aifo_types", 2), ("aifo_wire", 0)]);
        assert_eq!(doctest_counts(report), expected);
    }
}
