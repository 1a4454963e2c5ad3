//! The test program of the black-box suites: its suites, its tests, and its runs.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// The package of the suites.
pub(crate) const PACKAGE: &str = "aifo-tests";

/// The variable of the directory with the programs under test, for release binaries and copies.
pub(crate) const BINARIES: &str = "AIFO_TEST_BIN_DIR";

/// The test program that holds all suites as modules.
const PROGRAM: &str = "suites";

/// Returns `cargo test` of the suites' program, without arguments of its own.
pub(crate) fn cargo_test() -> Command {
    shell::cargo(["test", "--workspace", "--test", PROGRAM])
}

/// Returns `cargo build` of all programs. With an example, as without one cargo leaves out the features of tests.
pub(crate) fn cargo_build() -> Command {
    shell::cargo(["build", "--workspace", "--bins", "--example", "embed"])
}

/// The names of all suites: the modules of the test program.
pub(crate) fn suites() -> Result<Vec<String>> {
    let root = shell::root().join("tests/suites/main.rs");
    let text =
        fs::read_to_string(&root).with_context(|| format!("cannot read {}", root.display()))?;
    let module = |line: &str| Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned());
    Ok(text.lines().filter_map(module).collect())
}

/// Runs all suites in one process with `run`, except the tests that a suite's row leaves out: the next suite
/// need not wait for the longest test of the one before.
///
/// A filter of the test program matches any part of a name, and modules of other suites may have the
/// suite's name, so the tests are selected here and passed by their full names.
pub(crate) fn run_all<'a>(
    suites: impl IntoIterator<Item = (&'a str, &'a [String])>,
    args: &Arguments,
    run: impl Fn(&[String]) -> Result<()>,
) -> Result<()> {
    let list = shell::read(cargo_test().args(["--", "--list", "--format", "terse"]))?;
    let all: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let names = suites.into_iter().flat_map(|(suite, left_out)| args.select(&all, suite, left_out));
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        bail!("no test matches {:?}", args.filters);
    }
    let exact = args.options.iter().cloned().chain(["--exact".to_owned()]);
    run(&exact.chain(names).collect::<Vec<_>>())
}

/// The failed tests of a run that run a second time. More of them are no accident.
const MAX_FLAKY: usize = 3;

/// Runs a command that runs tests with these arguments, and fails with the names of those that failed.
///
/// A few failed tests run once more, alone. If they pass, the run succeeds and reports them as flaky.
pub(crate) fn run_tests(
    command: impl Fn(&[String]) -> Command,
    arguments: &[String],
) -> Result<()> {
    let (status, report) = shell::capture(&mut command(arguments))?;
    let failed = failures(&report);
    if status.success() {
        return Ok(());
    }
    if may_be_flaky(&failed) {
        let options = Arguments::parse(arguments).options.into_iter();
        let names = failed.iter().map(|&name| name.to_owned());
        let alone: Vec<String> = options.chain(["--exact".to_owned()]).chain(names).collect();
        let (status, report) = shell::capture(&mut command(&alone))?;
        if status.success() && failed.iter().all(|name| has_passed(&report, name)) {
            eprintln!("flaky, passed when run again: {}", failed.join(" "));
            return Ok(());
        }
    }
    match failed.as_slice() {
        [] => bail!("the tests did not run: {status}"),
        names => bail!("{} tests failed:\n  {}", names.len(), names.join("\n  ")),
    }
}

/// True for so few failed tests that they run a second time.
pub(crate) fn may_be_flaky(failed: &[&str]) -> bool {
    (1..=MAX_FLAKY).contains(&failed.len())
}

fn has_passed(report: &str, name: &str) -> bool {
    report.lines().any(|line| line.strip_prefix("test ") == Some(&format!("{name} ... ok")))
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
    /// True if filters are whole names.
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
        assert!(has_passed(report, "a::one"));
        assert!(!has_passed(report, "a::two") && !has_passed(report, "one"));
    }

    /// Runs a script as the tests; its first argument is a directory for its own use.
    fn run_script(body: &str) -> Result<()> {
        let scratch = tempfile::tempdir().unwrap();
        let command = |args: &[String]| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", body]).arg(scratch.path()).args(args);
            command
        };
        run_tests(command, &["--test-threads".to_owned(), "1".to_owned(), "some".to_owned()])
    }

    #[test]
    fn a_failed_test_runs_once_more_alone() {
        let flaky = r#"
            [ -e "$0/ran" ] || { : > "$0/ran"; echo "test a::one ... FAILED"; exit 101; }
            [ "$*" = "--test-threads 1 --exact a::one" ] && echo "test a::one ... ok""#;
        run_script(flaky).unwrap();
        let broken = run_script("echo 'test a::one ... FAILED'; exit 101").unwrap_err();
        assert_eq!(broken.to_string(), "1 tests failed:\n  a::one");
        let not_run = r#"[ -e "$0/ran" ] && exit; : > "$0/ran"; echo "test a ... FAILED"; exit 1"#;
        assert!(run_script(not_run).is_err());
        assert!(run_script("exit 101").unwrap_err().to_string().contains("did not run"));
    }
}
