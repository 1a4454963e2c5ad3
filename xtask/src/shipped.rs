//! `cargo xtask test shipped`: the black-box suites, and the shim's tests against a scripted proxy, on the binaries of
//! `cargo xtask dist`.

use anyhow::{Result, bail};

use crate::dist::{self, Libc};
use crate::shell;
use crate::test_program::{BINARIES, PACKAGE, run_tests};

/// Builds the binaries and runs the tests on them; `args` go to the test programs. Returns the C library that was linked.
pub(crate) fn run(args: &[String]) -> Result<Libc> {
    let scratch = aifo_engine::images::scratch()?;
    let libc = dist::build(scratch.path())?.libc;
    let test = |what: &[&str]| {
        run_tests(
            |args| {
                let mut test = shell::cargo(["test", "--no-fail-fast"]);
                test.args(what).env(BINARIES, scratch.path()).arg("--").args(args);
                test
            },
            args,
        )
    };
    // The features of dependencies are those of the workspace's tests, so nothing is compiled again.
    let shim = ["--workspace", "--exclude", PACKAGE, "--test", "early_start", "--test", "relay"];
    let failures: Vec<String> = [test(&["-p", PACKAGE, "--all-targets"]), test(&shim)]
        .into_iter()
        .filter_map(|result| Some(format!("{:#}", result.err()?)))
        .collect();
    if !failures.is_empty() {
        bail!("with {}: {}", libc.linked(), failures.join("\n"));
    }
    eprintln!("all tests passed on release binaries with {}", libc.linked());
    Ok(libc)
}
