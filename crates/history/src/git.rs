//! git on the store, which is a repository of aifo's own.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::HistoryError;

/// A bare repository with checkpoints.
#[derive(Clone, Debug)]
pub struct Store {
    git: PathBuf,
    /// PATH for git's own programs.
    path: OsString,
    directory: PathBuf,
}

impl Store {
    /// Arguments: git and the PATH for its own programs, none of which an agent can write to; the store.
    pub fn new(git: PathBuf, path: OsString, directory: PathBuf) -> Self {
        Store { git, path, directory }
    }

    /// Returns its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether it has been created.
    pub fn exists(&self) -> bool {
        self.directory.join("HEAD").exists()
    }

    /// Creates it with mode 0700, if it is missing.
    pub(crate) fn create(&self) -> Result<(), HistoryError> {
        let system = |source| HistoryError::System { action: "create the store", source };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).map_err(system)?;
        fs::set_permissions(&self.directory, Permissions::from_mode(0o700)).map_err(system)?;
        if !self.exists() {
            // Contents are named by SHA-256, so nobody can make two that count as the same.
            self.run(
                ["init", "--quiet", "--bare", "--object-format=sha256", "--template=", "."],
                "",
            )?;
        }
        Ok(())
    }

    /// Returns a command. Only the store's configuration applies.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.git);
        command
            .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
            .args(["-c", "fastimport.unpackLimit=0", "-c", "gc.auto=0"])
            .args(["-c", "core.quotePath=false", "-c", "core.compression=1"])
            .args(words)
            .current_dir(&self.directory)
            .env_clear()
            .env("PATH", &self.path)
            .env("GIT_DIR", &self.directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("LC_ALL", "C")
            // A terminal's signal is for the session.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs git with this input to its end, and returns its output.
    pub(crate) fn run<S: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Result<Vec<u8>, HistoryError> {
        let mut command = self.command(words);
        let system = |source| HistoryError::System { action: "run git", source };
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(system)?;
        let stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // Beside the reader: git may fill its output before it has read all.
            let writer =
                stdin.map(|mut stdin| scope.spawn(move || stdin.write_all(input.as_bytes())));
            let output = child.wait_with_output();
            if let Some(writer) = writer {
                // git's own message says why it did not read on.
                let _ = writer.join();
            }
            output
        });
        let output = output.map_err(system)?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(HistoryError::Git(last_line(&output.stderr))),
        }
    }

    /// As [`run`](Self::run), for output that is text.
    pub(crate) fn text<S: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
    ) -> Result<String, HistoryError> {
        let output = self.run(words, "")?;
        String::from_utf8(output).map_err(|_| HistoryError::Damaged("a name or note is no text"))
    }

    /// Returns its bytes on disk.
    pub fn size(&self) -> u64 {
        size_of(&self.directory).unwrap_or_default()
    }

    /// Removes the store. Errors: a part could not be removed.
    pub fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

fn size_of(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => size_of(&entry.path()).unwrap_or_default(),
            false => metadata.len(),
        };
    }
    Ok(bytes)
}

pub(crate) fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    aifo_types::escape_line(line)
}
