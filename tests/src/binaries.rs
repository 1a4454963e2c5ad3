//! The programs under test, built once per test process.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The programs' paths.
#[derive(Debug)]
pub struct Binaries {
    /// `aifo-coder`
    pub coder: PathBuf,
    /// `aifo-shim`
    pub shim: PathBuf,
    /// The suites' fake tool.
    pub tool: PathBuf,
    /// The suites' fake ACP agent.
    pub agent: PathBuf,
}

/// The programs of this build, or those in `AIFO_TEST_BIN_DIR`.
///
/// `cargo test` builds only the binaries of the tested package, so this builds the others. That
/// takes a fraction of a second if they are current.
pub fn binaries() -> &'static Binaries {
    static BINARIES: OnceLock<Binaries> = OnceLock::new();
    BINARIES.get_or_init(|| {
        assert!(
            env::var_os("AIFO_TEST_START").is_some(),
            "a test program was started otherwise than by cargo\n\
             hint: put 'tests/run_test_program.py' in front of it"
        );
        let profile = profile_dir();
        let under_test = match env::var_os("AIFO_TEST_BIN_DIR") {
            Some(dir) => PathBuf::from(dir),
            None => {
                // With an example, as without one cargo leaves out the features of tests.
                build(&profile, &["--bins", "--example", "embed"]);
                profile.clone()
            }
        };
        let binaries = Binaries {
            coder: under_test.join("aifo-coder"),
            shim: under_test.join("aifo-shim"),
            tool: profile.join("aifo-test-tool"),
            agent: profile.join("aifo-test-agent"),
        };
        for path in [&binaries.coder, &binaries.shim, &binaries.tool, &binaries.agent] {
            assert!(path.is_file(), "'{}' was not built", path.display());
        }
        binaries
    })
}

/// An example of `aifo-launch`, built on demand.
pub fn example(name: &str) -> PathBuf {
    let profile = profile_dir();
    build(&profile, &["--example", name]);
    profile.join("examples").join(name)
}

/// This test's profile directory: `target/debug` of `target/debug/deps/streaming-0123`.
fn profile_dir() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    test.ancestors().nth(2).expect("a test lies in target/<profile>/deps").to_path_buf()
}

/// Builds with the features of the whole workspace, as `cargo test --workspace` has done, and without the variables of
/// this package: build scripts that watch them would run again, and all that depends on them be built again.
fn build(profile: &Path, what: &[&str]) {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--workspace"])
        .args(what)
        .arg("--target-dir")
        .arg(profile.parent().expect("a profile directory lies in a target directory"));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "cargo build ended with {status}");
}
