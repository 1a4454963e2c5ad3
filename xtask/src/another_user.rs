//! Runs suites as another user: the session's launcher need not be root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::images::Engine;
use crate::{shell, test_program};

/// A user id without files and without a passwd entry.
const UID: &str = "1000";

/// The socket whose group may use the Docker daemon.
const SOCKET: &str = "/var/run/docker.sock";

/// Starts test programs, as cargo's `runner`.
const RUNNER: &str = "run_test_program.py";

/// World-readable copies of the test program and the programs that it needs; removed on drop.
#[derive(Debug)]
pub(crate) struct Copies {
    dir: TempDir,
    program: PathBuf,
}

impl Copies {
    /// Builds and copies the programs, as the target directory may be in root's home. The copies
    /// keep their layout.
    pub(crate) fn new() -> Result<Self> {
        shell::run(&mut test_program::cargo_build())?;
        let mut test = test_program::cargo_test();
        let messages = shell::read(test.args(["--no-run", "--message-format=json"]))?;
        let program = executable(&messages).context("cargo names no test program")?;
        let profile = program.ancestors().nth(2).context("a test program lies in its profile")?;
        let name = program.file_name().context("a program has a name")?.to_string_lossy();
        let dir = tempfile::Builder::new().prefix("aifo-suites-").tempdir_in("/var/tmp")?;
        let copies = Copies { program: dir.path().join(format!("debug/deps/{name}")), dir };
        fs::create_dir_all(copies.dir.path().join("debug/deps"))?;
        for dir in ["", "debug", "debug/deps"] {
            let readable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(copies.dir.path().join(dir), readable)?;
        }
        for program in ["aifo-coder", "aifo-shim", "aifo-test-tool", "aifo-test-agent"] {
            copies.add(&profile.join(program), &format!("debug/{program}"))?;
        }
        copies.add(&program, &format!("debug/deps/{name}"))?;
        copies.add(&shell::root().join("tests").join(RUNNER), RUNNER)?;
        Ok(copies)
    }

    fn add(&self, program: &Path, name: &str) -> Result<()> {
        let copy = self.dir.path().join(name);
        fs::copy(program, &copy).with_context(|| format!("cannot copy {}", program.display()))?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Runs the copy as the other user, whose only group is the daemon's.
    pub(crate) fn run(&self, args: &[String], variables: &[(&str, &str)]) -> Result<()> {
        let group = fs::metadata(SOCKET).with_context(|| format!("no {SOCKET}"))?.gid().to_string();
        let command = |args: &[String]| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", UID, "--regid", UID, "--groups", &group]);
            command.arg("--").arg(self.dir.path().join(RUNNER)).arg(&self.program).args(args);
            command
                .current_dir("/var/tmp")
                .env(test_program::BINARIES, self.dir.path().join("debug"))
                .envs(variables.iter().copied());
            command
        };
        test_program::run_tests(command, args)
    }
}

/// Returns the test program in cargo's JSON messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut programs = messages.filter_map(|message: serde_json::Value| {
        let is_test = message["profile"]["test"].as_bool() == Some(true);
        let program = message["executable"].as_str().filter(|_| is_test)?;
        Some(PathBuf::from(program))
    });
    programs.next()
}

/// Fails with the reason if this engine cannot be used as another user.
pub(crate) fn possible(engine: Engine) -> Result<()> {
    if engine != Engine::Docker {
        bail!("an engine without a daemon is per user");
    }
    if shell::read(Command::new("id").arg("--user"))? != "0" {
        bail!("only root can switch users");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_program_is_found_among_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","profile":{"test":false},"executable":"/t/debug/tool"}
{"reason":"compiler-artifact","profile":{"test":true},"executable":"/t/debug/deps/argv-1"}
{"reason":"compiler-artifact","profile":{"test":true},"executable":null}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages), Some(PathBuf::from("/t/debug/deps/argv-1")));
    }
}
