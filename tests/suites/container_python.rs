//! The package for Python: its own tests, with the runner under test.
//!
//! Proves `spec/sandbox.md#connection`, `spec/sandbox.md#programs`, `spec/sandbox.md#users` and
//! `spec/sandbox.md#files`, and `spec/sandbox.md#as-the-engines-exec`.

use std::path::Path;
use std::process::Command;

use aifo_tests::{Engine, Outcome, Scratch, binaries, can_run};

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_package_for_python() {
    let test = "the_package_for_python";
    let Some(engine) = Engine::of_run(test) else { return };
    let has_pytest = |python: &str| {
        let asked = Command::new(python).args(["-m", "pytest", "--version"]).output();
        asked.is_ok_and(|asked| asked.status.success())
    };
    // The first in PATH may be another than the distribution's, which alone has its packages.
    let pythons = ["python3", "/usr/bin/python3"];
    let python = pythons.into_iter().find(|python| has_pytest(python)).unwrap_or(pythons[0]);
    if !can_run(test, &[python, "-m", "pytest", "--version"]) {
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("clients/python");
    let mut pytest = Command::new(python);
    // Podman's monitor leaves a file in its directory when memory runs out.
    let scratch = Scratch::new();
    pytest.args(["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]).current_dir(scratch.path());
    pytest.arg(package.join("tests"));
    pytest.env("PYTHONPATH", package.join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    pytest.env("AIFO_RUNNER", &binaries().shim).env("AIFO_TEST_IMAGE", "aifo-test-debian");
    pytest.env("AIFO_TEST_ENGINE", if engine.is_podman() { "podman" } else { "docker" });
    let outcome = Outcome::of(&mut pytest);
    assert_eq!(outcome.code(), Some(0), "{}{}", outcome.text(), outcome.stderr);
}
