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
use crate::{agents, container_gate, shell};

/// The package of the suites.
pub(crate) const PACKAGE: &str = "aifo-tests";

/// The test program that holds all suites as modules.
const PROGRAM: &str = "suites";

/// `[SUITE] [-- ARGS]`: all suites, one, `pending`, the container suites of an engine, or the agent
/// suites. ARGS go to the test program.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (ours, theirs) = match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (&args[..], &[][..]),
    };
    match ours {
        [] => run_tests(cargo_test().arg("--").args(theirs)),
        [name] if name == "pending" => pending(),
        [name, agents @ ..] if name == "agents" => agents::run(agents, theirs),
        [name, suites @ ..] if Engine::parse(name).is_ok() => {
            container_gate::run(Engine::parse(name)?, suites, theirs)
        }
        [name] => {
            let suites = suites()?;
            if !suites.contains(name) {
                bail!("unknown suite '{name}'\nhint: the suites are: {}", suites.join(" "));
            }
            let run = |args: &[String]| run_tests(cargo_test().arg("--").args(args));
            run_each([(name.as_str(), &[][..])], &Arguments::parse(theirs), run)
        }
        _ => {
            bail!(
                "usage: cargo xtask test [SUITE | docker [SUITE..] | podman [SUITE..] | \
                 agents [docker|podman] [AGENT..]] [-- ARGS]"
            )
        }
    }
}

/// Returns `cargo test` of the suites' program, without arguments of its own.
pub(crate) fn cargo_test() -> Command {
    shell::cargo(["test", "-p", PACKAGE, "--test", PROGRAM])
}

/// The names of all suites: the modules of the test program.
pub(crate) fn suites() -> Result<Vec<String>> {
    let root = shell::root().join("tests/suites/main.rs");
    let text =
        fs::read_to_string(&root).with_context(|| format!("cannot read {}", root.display()))?;
    let module = |line: &str| Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned());
    Ok(text.lines().filter_map(module).collect())
}

/// Runs each suite in its own process with `run`, except the tests that its row leaves out, and fails
/// with the names of all tests that failed.
///
/// A filter of the test program matches any part of a name, and modules of other suites may have the
/// suite's name, so the tests are selected here and passed by their full names.
pub(crate) fn run_each<'a>(
    suites: impl IntoIterator<Item = (&'a str, &'a [String])>,
    args: &Arguments,
    run: impl Fn(&[String]) -> Result<()>,
) -> Result<()> {
    let list = shell::read(cargo_test().args(["--", "--list", "--format", "terse"]))?;
    let all: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let mut count = 0;
    let mut failures = Vec::new();
    for (suite, left_out) in suites {
        let names = args.select(&all, suite, left_out);
        if names.is_empty() {
            continue;
        }
        count += names.len();
        let exact = args.options.iter().cloned().chain(["--exact".to_owned()]);
        if let Err(error) = run(&exact.chain(names).collect::<Vec<_>>()) {
            failures.push(format!("{suite}: {error:#}"));
        }
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    if count == 0 {
        bail!("no test matches {:?}", args.filters);
    }
    Ok(())
}

/// Runs a command that runs tests, and fails with the names of those that failed.
pub(crate) fn run_tests(command: &mut Command) -> Result<()> {
    let (status, report) = shell::capture(command)?;
    match failures(&report).as_slice() {
        _ if status.success() => Ok(()),
        [] => bail!("the tests did not run: {status}"),
        names => bail!("{} tests failed:\n  {}", names.len(), names.join("\n  ")),
    }
}

/// Returns the names of the tests that a report lists as failed.
pub(crate) fn failures(report: &str) -> Vec<&str> {
    let name = |line| str::strip_suffix(str::strip_prefix(line, "test ")?, " ... FAILED");
    report.lines().filter_map(name).collect()
}

/// Arguments of the test program: options, and the tests that they select.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// Options beside `--exact` and `--skip`.
    pub(crate) options: Vec<String>,
    filters: Vec<String>,
    skipped: Vec<String>,
    /// Whether filters are whole names.
    exact: bool,
}

impl Arguments {
    pub(crate) fn parse(args: &[String]) -> Self {
        /// Options whose value is the next argument.
        const WITH_VALUE: [&str; 6] =
            ["--color", "--format", "--logfile", "--shuffle-seed", "--test-threads", "-Z"];
        let mut parsed = Arguments::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--exact" => parsed.exact = true,
                "--skip" => parsed.skipped.extend(args.next().cloned()),
                option if WITH_VALUE.contains(&option) => {
                    parsed.options.extend([arg].into_iter().chain(args.next()).cloned());
                }
                option if option.starts_with('-') => parsed.options.push(arg.clone()),
                _ => parsed.filters.push(arg.clone()),
            }
        }
        parsed
    }

    /// Returns the suite's tests that the arguments select, by their full names.
    fn select(&self, all: &[&str], suite: &str, left_out: &[String]) -> Vec<String> {
        let within = |name: &&str| Some(name.strip_prefix(suite)?.strip_prefix("::")?.to_owned());
        let matches = |filter: &String, test: &str| match self.exact {
            true => test == filter || format!("{suite}::{test}") == *filter,
            false => format!("{suite}::{test}").contains(filter.as_str()),
        };
        let is_selected = |test: &String| {
            !left_out.contains(test)
                && !self.skipped.iter().any(|filter| matches(filter, test))
                && (self.filters.is_empty()
                    || self.filters.iter().any(|filter| matches(filter, test)))
        };
        let tests = all.iter().filter_map(within).filter(is_selected);
        tests.map(|test| format!("{suite}::{test}")).collect()
    }
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

/// Whether a test program reported this test with this word, in any module.
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
    fn every_file_is_a_module_of_the_program() {
        let entries = fs::read_dir(shell::root().join("tests/suites")).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let stem = |name: String| name.strip_suffix(".rs").map(str::to_owned);
        let mut files: Vec<String> = names.filter_map(stem).filter(|name| name != "main").collect();
        files.sort();
        assert_eq!(suites().unwrap(), files);
    }

    #[test]
    fn tests_are_selected_within_a_suite() {
        let all = ["log::one", "log::sub::two", "acp_agent::log::one", "catalog::one"];
        let rows: [(&[&str], &[&str], &[&str]); 6] = [
            (&[], &[], &["log::one", "log::sub::two"]),
            (&["two"], &[], &["log::sub::two"]),
            (&["--test-threads", "1", "one"], &[], &["log::one"]),
            (&["--skip", "one"], &[], &["log::sub::two"]),
            (&["--exact", "two"], &[], &[]),
            (&[], &["sub::two"], &["log::one"]),
        ];
        let owned =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (args, left_out, expected) in rows {
            let args = Arguments::parse(&owned(args));
            assert_eq!(args.select(&all, "log", &owned(left_out)), expected, "{args:?}");
        }
        let args = Arguments::parse(&owned(&["--nocapture", "--test-threads", "1", "one"]));
        assert_eq!(args.options, ["--nocapture", "--test-threads", "1"]);
    }

    #[test]
    fn failed_tests_are_listed_by_name() {
        let report = "test a::one ... ok\ntest a::two ... FAILED\nfailures:\n    a::two\n";
        assert_eq!(failures(report), ["a::two"]);
    }

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
