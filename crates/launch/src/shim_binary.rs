//! Finding the shim that belongs to us.

use std::path::PathBuf;
use std::process::Command;

use aifo_types::env;

/// The `aifo-shim` binary: the shims' target and every sidecar's runner.
#[derive(Clone, Debug)]
pub struct ShimBinary {
    path: PathBuf,
}

/// Why there is no usable shim.
#[derive(Debug, thiserror::Error)]
pub enum ShimBinaryError {
    /// It is in none of the places.
    #[error(
        "aifo-shim was not found: looked at {looked_at}\n\
         hint: set {name} to its path, or keep it beside aifo-coder",
        name = env::SHIM_BIN
    )]
    NotFound {
        /// The places.
        looked_at: String,
    },
    /// It does not run.
    #[error("'{}' does not run: {why}", path.display())]
    Broken {
        /// Which file.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// It is of another build.
    #[error(
        "'{}' is version {theirs}, aifo-coder is version {ours}\n\
         hint: install both from the same build", path.display()
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        theirs: String,
        /// Our version.
        ours: String,
    },
}

impl ShimBinary {
    /// Looks where `AIFO_SHIM_BIN` says, else beside our own executable, else in `../lib/aifo` from
    /// there, and checks that what it finds is of our version.
    pub fn find() -> Result<Self, ShimBinaryError> {
        let places = match std::env::var_os(env::SHIM_BIN) {
            Some(path) => vec![PathBuf::from(path)],
            None => beside_us(),
        };
        let found = places.iter().find(|path| path.is_file());
        let found = found.and_then(|path| path.canonicalize().ok());
        let Some(path) = found else {
            let looked_at: Vec<_> =
                places.iter().map(|path| format!("'{}'", path.display())).collect();
            return Err(ShimBinaryError::NotFound { looked_at: looked_at.join(" and ") });
        };
        let shim = ShimBinary { path };
        shim.check_version()?;
        Ok(shim)
    }

    /// Where it is; an absolute path without links.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn check_version(&self) -> Result<(), ShimBinaryError> {
        let broken = |why: String| ShimBinaryError::Broken { path: self.path.clone(), why };
        let output = Command::new(&self.path)
            .arg("--version")
            .env_clear()
            .output()
            .map_err(|error| broken(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let theirs =
            text.strip_prefix("aifo-shim ").and_then(|rest| rest.split_whitespace().next());
        match theirs {
            Some(env!("CARGO_PKG_VERSION")) => Ok(()),
            Some(theirs) => Err(ShimBinaryError::Version {
                path: self.path.clone(),
                theirs: theirs.to_owned(),
                ours: env!("CARGO_PKG_VERSION").to_owned(),
            }),
            None => Err(broken(format!("'--version' ended with {}", output.status))),
        }
    }
}

fn beside_us() -> Vec<PathBuf> {
    let ours = std::env::current_exe().and_then(|path| path.canonicalize());
    let folder = ours.ok().and_then(|path| path.parent().map(PathBuf::from));
    folder
        .map(|folder| vec![folder.join("aifo-shim"), folder.join("../lib/aifo/aifo-shim")])
        .unwrap_or_default()
}
