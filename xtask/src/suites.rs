//! `cargo xtask test`: the black-box suites and the pending tests.
//!
//! The container suites are in `container_gate.rs`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::images::Engine;
use crate::test_program::{Arguments, cargo_test, run_all, run_tests, suites};
use crate::{agents, container_gate, kubernetes, shell, shipped};

/// `[SUITE] [-- ARGS]`: all suites, one, `pending`, `shipped`, the container suites of an engine, or the agent
/// suites. ARGS go to the test program.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (ours, theirs) = match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (&args[..], &[][..]),
    };
    match ours {
        [] => run_tests(with_arguments, theirs),
        [name] if name == "pending" => pending(),
        [name] if name == "shipped" => shipped::run(theirs).map(drop),
        [name, agents @ ..] if name == "agents" => agents::run(agents, theirs),
        [name, words @ ..] if name == "kubernetes" => kubernetes::run(words, theirs),
        [name, suites @ ..] if Engine::parse(name).is_ok() => {
            container_gate::run(Engine::parse(name)?, suites, theirs)
        }
        [name] => {
            let suites = suites()?;
            if !suites.contains(name) {
                bail!("unknown suite '{name}'\nhint: the suites are: {}", suites.join(" "));
            }
            let run = |args: &[String]| run_tests(with_arguments, args);
            run_all([(name.as_str(), &[][..])], &Arguments::parse(theirs), run)
        }
        _ => {
            bail!(
                "usage: cargo xtask test [SUITE | pending | shipped | docker [SUITE..] | podman [SUITE..] | \
                 agents [docker|podman] [AGENT..] | \
                 kubernetes [OPTIONS] [SUITE..]] [-- ARGS]"
            )
        }
    }
}

fn with_arguments(args: &[String]) -> Command {
    let mut command = cargo_test();
    command.arg("--").args(args);
    command
}

/// Runs the tests that are ignored as `pending: ..` and fails if one passes: then its attribute
/// must be removed.
pub(crate) fn pending() -> Result<()> {
    let names = pending_tests(&shell::root().join("tests"))?;
    if names.is_empty() {
        eprintln!("no test is pending");
        return Ok(());
    }
    let mut command = cargo_test();
    command.args(["--", "--ignored"]).args(&names);
    eprintln!("$ {}", shell::line(&command));
    let output = command.output().context("cannot run cargo")?;
    let report = String::from_utf8_lossy(&output.stdout);
    let verdict = |name: &String, word: &str| has_verdict(&report, name, word);
    let passed: Vec<&String> = names.iter().filter(|name| verdict(name, "ok")).collect();
    if !passed.is_empty() {
        bail!("pending tests pass: {passed:?}\nhint: remove their #[ignore] attribute");
    }
    let silent: Vec<&String> = names.iter().filter(|name| !verdict(name, "FAILED")).collect();
    if !silent.is_empty() {
        bail!("pending tests did not run: {silent:?}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    eprintln!("{} pending tests fail, as expected", names.len());
    Ok(())
}

/// The names of pending tests in the sources below a directory.
fn pending_tests(dir: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            names.extend(pending_tests(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(pending_names(&fs::read_to_string(&path)?));
        }
    }
    Ok(names)
}

fn pending_names(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if !line.trim_start().starts_with("#[ignore = \"pending:") {
            continue;
        }
        let function = lines.by_ref().find_map(|line| line.split_once("fn ")?.1.split('(').next());
        names.extend(function.map(str::to_owned));
    }
    names
}

/// Returns whether a test program reported this test with this word, in any module.
fn has_verdict(report: &str, name: &str, word: &str) -> bool {
    report.lines().any(|line| {
        let Some((path, rest)) = line.strip_prefix("test ").and_then(|l| l.split_once(" ... "))
        else {
            return false;
        };
        path.rsplit("::").next() == Some(name) && rest.trim() == word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_tests_are_named_by_their_attribute() {
        let source = "
            #[test]
            #[ignore = \"docker: cargo xtask test routing\"]
            fn gated() {}

            #[test]
            #[ignore = \"pending: protocol v3\"]
            fn stdin_crosses() -> Result<()> {}
        ";
        assert_eq!(pending_names(source), ["stdin_crosses"]);
    }

    #[test]
    fn verdicts_are_read_from_the_report() {
        let report = "test v3::stdin_crosses ... FAILED\ntest stdin ... ok\n";
        assert!(has_verdict(report, "stdin_crosses", "FAILED"));
        assert!(!has_verdict(report, "stdin_crosses", "ok"));
        assert!(has_verdict(report, "stdin", "ok"));
    }
}
