//! The launcher's `aifo-shim` binary.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use aifo_process::descriptor_path;
use aifo_types::env;

use crate::trusted::TrustedPrograms;

/// The `aifo-shim` binary: target of all shims, and the runner of every sidecar.
///
/// It is opened once, and local processes are started from that descriptor, so a file that replaces
/// it later is not executed.
#[derive(Clone, Debug)]
pub struct ShimBinary {
    path: PathBuf,
    /// `None` for a script around the shim: its interpreter opens it by path.
    file: Option<Arc<File>>,
}

/// Reasons for which no shim can be used.
#[derive(Debug, thiserror::Error)]
pub enum ShimBinaryError {
    /// It is in none of the expected places.
    #[error(
        "aifo-shim was not found: searched {searched}\n\
         hint: set {name} to its path, or keep it beside aifo-coder",
        name = env::SHIM_BIN
    )]
    NotFound {
        /// The paths.
        searched: String,
    },
    /// It does not run.
    #[error("'{}' does not run: {why}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// It is of another build.
    #[error(
        "'{}' is version {found}, aifo-coder is version {expected}\n\
         hint: install both from the same build", path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The launcher version.
        expected: String,
    },
}

impl ShimBinary {
    /// Searches `AIFO_SHIM_BIN` or, if that is not set, the directory of the running executable,
    /// `../lib/aifo` from there, and PATH, of which only trusted entries count. Checks
    /// that the version is the launcher's.
    pub fn find(programs: impl FnOnce() -> TrustedPrograms) -> Result<Self, ShimBinaryError> {
        let places = candidates();
        let searches_path = std::env::var_os(env::SHIM_BIN).is_none();
        let in_path = || programs().program(SHIM).ok().filter(|_| searches_path);
        let found = places.iter().find(|path| path.is_file()).cloned().or_else(in_path);
        let found = found.and_then(|path| path.canonicalize().ok());
        let Some(path) = found else {
            let mut searched: Vec<_> =
                places.iter().map(|path| format!("'{}'", path.display())).collect();
            searched.extend(searches_path.then(|| "PATH".to_owned()));
            return Err(ShimBinaryError::NotFound { searched: searched.join(" and ") });
        };
        let opened = open_program(&path);
        let file = opened.map_err(|error| broken(&path, error.to_string()))?.map(Arc::new);
        let shim = ShimBinary { path, file };
        shim.check_version()?;
        Ok(shim)
    }

    /// Returns a value for tests that start nothing.
    #[doc(hidden)]
    pub fn stand_in() -> Self {
        ShimBinary { path: "/shim".into(), file: None }
    }

    /// Returns its absolute path without links, for links and mounts. Local processes are started
    /// from [`program`](Self::program).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path of the opened descriptor, for child processes of this process.
    pub fn program(&self) -> PathBuf {
        match &self.file {
            Some(file) => descriptor_path(file),
            None => self.path.clone(),
        }
    }

    fn check_version(&self) -> Result<(), ShimBinaryError> {
        let broken = |why| broken(&self.path, why);
        let mut command = Command::new(self.program());
        command.arg0("aifo-shim").arg("--version").env_clear();
        let output = command.output().map_err(|error: io::Error| broken(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let found = text.strip_prefix("aifo-shim ").and_then(|rest| rest.split_whitespace().next());
        match found {
            Some(env!("CARGO_PKG_VERSION")) => Ok(()),
            Some(found) => Err(ShimBinaryError::Version {
                path: self.path.clone(),
                found: found.to_owned(),
                expected: env!("CARGO_PKG_VERSION").to_owned(),
            }),
            None => Err(broken(format!("'--version' ended with {}", output.status))),
        }
    }
}

/// The name of the binary.
const SHIM: &str = "aifo-shim";

/// Opens a program; `None` if it is a script.
fn open_program(path: &Path) -> io::Result<Option<File>> {
    let file = File::open(path)?;
    let mut start = [0; 2];
    let length = file.read_at(&mut start, 0)?;
    Ok((start[..length] != *b"#!").then_some(file))
}

fn broken(path: &Path, why: String) -> ShimBinaryError {
    ShimBinaryError::Broken { path: path.to_owned(), why }
}

/// Returns the paths to search, in order.
pub(crate) fn candidates() -> Vec<PathBuf> {
    std::env::var_os(env::SHIM_BIN).map_or_else(beside_executable, |path| vec![PathBuf::from(path)])
}

fn beside_executable() -> Vec<PathBuf> {
    let executable = std::env::current_exe().and_then(|path| path.canonicalize());
    let directory = executable.ok().and_then(|path| path.parent().map(PathBuf::from));
    directory
        .map(|directory| vec![directory.join("aifo-shim"), directory.join("../lib/aifo/aifo-shim")])
        .unwrap_or_default()
}
