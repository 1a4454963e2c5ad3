//! The launcher's search for its shim; it rejects one of another build.
//!
//! Proves `spec/cli.md#options`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{Outcome, SessionSetup, binaries, copy_executable, write_script};

const OURS: &str = env!("CARGO_PKG_VERSION");

/// A setup with an installation: `bin/aifo-coder`, and shims as required.
struct Installation {
    setup: SessionSetup,
    root: PathBuf,
}

impl Installation {
    fn new() -> Self {
        let setup = SessionSetup::new();
        let root = setup.scratch().join("installed");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("lib/aifo")).unwrap();
        copy_executable(&binaries().coder, root.join("bin/aifo-coder"));
        Installation { setup, root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Installs the real shim.
    fn real_shim(self, name: &str) -> Self {
        symlink(&binaries().shim, self.path(name)).unwrap();
        self
    }

    /// Installs a script that prints `version`.
    fn fake_shim(self, name: &str, version: &str) -> Self {
        self.script(name, &format!("echo 'aifo-shim {version} (x), protocols 1 2'"))
    }

    fn script(self, name: &str, body: &str) -> Self {
        write_script(self.path(name), body);
        self
    }

    /// `aifo-coder run -- make say hi`, by its installed path or another.
    fn run(&self, coder: &Path, shim_bin: Option<&Path>) -> Outcome {
        let model = self.setup.coder();
        let mut command = Command::new(coder);
        command.current_dir(self.setup.workspace()).env_clear();
        command.envs(model.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env_remove("AIFO_SHIM_BIN");
        if let Some(path) = shim_bin {
            command.env("AIFO_SHIM_BIN", path);
        }
        Outcome::of(command.args(["run", "--toolchain", "c-cpp", "--", "make", "say", "hi"]))
    }

    #[track_caller]
    fn check_works(&self, coder: &Path, shim_bin: Option<&Path>) {
        let outcome = self.run(coder, shim_bin);
        assert_eq!((outcome.exited(0).text().as_str(), outcome.stderr.as_str()), ("hi\n", ""));
    }

    /// Nothing runs, and the error contains all of `parts`.
    #[track_caller]
    fn check_fails(&self, shim_bin: Option<&Path>, parts: &[&str]) {
        let outcome = self.run(&self.path("bin/aifo-coder"), shim_bin);
        assert_eq!(outcome.exited(86).text(), "");
        for part in parts {
            assert!(outcome.stderr.contains(part), "{part} is not in {}", outcome.stderr);
        }
        let left = aifo_tests::files_below(&self.setup.runtime());
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn beside_the_launcher_or_in_lib() {
    for place in ["bin/aifo-shim", "lib/aifo/aifo-shim"] {
        let installation = Installation::new().real_shim(place);
        installation.check_works(&installation.path("bin/aifo-coder"), None);
    }
}

#[test]
fn beside_the_launcher_comes_before_lib() {
    let installation =
        Installation::new().real_shim("bin/aifo-shim").fake_shim("lib/aifo/aifo-shim", "9.9.9");
    installation.check_works(&installation.path("bin/aifo-coder"), None);
}

/// `/usr/local/bin/aifo-coder` may be a link to the installation.
#[test]
fn it_is_sought_where_the_launcher_really_lies() {
    let installation = Installation::new().real_shim("lib/aifo/aifo-shim");
    let link = installation.setup.workspace().join("aifo-coder");
    symlink(installation.path("bin/aifo-coder"), &link).unwrap();
    installation.check_works(&link, None);
}

#[test]
fn the_environment_wins() {
    let installation =
        Installation::new().fake_shim("bin/aifo-shim", "9.9.9").real_shim("lib/aifo/aifo-shim");
    let coder = installation.path("bin/aifo-coder");
    installation.check_works(&coder, Some(&installation.path("lib/aifo/aifo-shim")));

    let installation = Installation::new().real_shim("bin/aifo-shim").fake_shim("other", "9.9.9");
    installation.check_fails(Some(&installation.path("other")), &["9.9.9"]);
}

#[test]
fn another_version_is_refused_and_both_are_named() {
    let installation = Installation::new().fake_shim("bin/aifo-shim", "9.9.9");
    let shim = installation.path("bin/aifo-shim");
    let parts = [shim.to_str().unwrap(), "version 9.9.9", &format!("version {OURS}"), "\nhint: "];
    installation.check_fails(None, &parts);
}

#[test]
fn a_program_without_a_version_is_refused() {
    let installation = Installation::new().script("silent", "exit 3");
    let silent = installation.path("silent");
    installation.check_fails(Some(&silent), &[silent.to_str().unwrap(), "--version"]);
}

#[test]
fn where_there_is_none_the_places_are_named_with_a_hint() {
    let installation = Installation::new();
    let beside = installation.path("bin/aifo-shim");
    let parts = [beside.to_str().unwrap(), "lib/aifo/aifo-shim", "\nhint: ", "AIFO_SHIM_BIN"];
    installation.check_fails(None, &parts);
    installation.check_fails(Some(Path::new("/no/such/shim")), &["/no/such/shim", "\nhint: "]);
}
