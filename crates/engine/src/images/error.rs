//! Errors of builds and updates.

use std::io;
use std::path::{Path, PathBuf};

/// Why images could not be built, or the lock file not be renewed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// No recipe has this name.
    #[error("unknown image '{name}'\nhint: {hint}")]
    Unknown {
        /// The name as given.
        name: String,
        /// The name that may be meant, or all names.
        hint: String,
    },
    /// The text after `@` is empty, or the image has no package to which it could apply.
    #[error(
        "'{name}' takes no version '{version}'\n\
         hint: only agents take one: codex@1.2.3; `aifo-coder run --toolchain-image KIND=IMAGE` takes \
         any image"
    )]
    NoVersion {
        /// The name as given.
        name: String,
        /// The version as given.
        version: String,
    },
    /// The lock file lacks a package.
    #[error("{recipe}: {package} is not in the lock file{locked}\nhint: {hint}")]
    NotLocked {
        /// The recipe.
        recipe: String,
        /// The package, with its version if one was requested.
        package: String,
        /// `, which has ..`, or empty.
        locked: String,
        /// The command that adds it.
        hint: String,
    },
    /// No base: the registry does not answer, and mmdebstrap is missing.
    #[error(
        "cannot get the base '{image}': {reason}\n\
         hint: install mmdebstrap (Debian: apt-get install mmdebstrap), which builds it from Debian's \
         packages; or name an image that the engine has, with --base IMAGE"
    )]
    NoBase {
        /// The image.
        image: String,
        /// The engine's error.
        reason: String,
    },
    /// mmdebstrap was requested and is missing.
    #[error("'mmdebstrap' is not installed\nhint: apt-get install mmdebstrap")]
    NoMmdebstrap,
    /// mmdebstrap may not create a root file system.
    #[error(
        "mmdebstrap cannot create '{0}' as this user\n\
         hint: install uidmap (Debian: apt-get install uidmap) and give your user a range in \
         /etc/subuid and /etc/subgid, or build as root"
    )]
    NoUserIds(String),
    /// A command failed. Its output was written before.
    #[error("{what} failed: {reason}")]
    Failed {
        /// The image, or the step.
        what: String,
        /// The last line of its output, or its exit status.
        reason: String,
    },
    /// The Rust toolchain of this machine has no directory of its own.
    #[error(
        "the Rust toolchain in '{}' is the distribution's and cannot be copied\n\
         hint: install one with rustup, or build without --rust-from-host", .0.display()
    )]
    SystemToolchain(PathBuf),
    /// A file could not be read or written.
    #[error("cannot {action} '{}': {source}", path.display())]
    File {
        /// `read`, `write`, ..
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The lock file, or a package index's answer, is malformed.
    #[error("{what} is malformed: {reason}")]
    Malformed {
        /// The text.
        what: String,
        /// The parser's error.
        reason: String,
    },
    /// An image to push is not there.
    #[error("{engine} has no image '{image}'\nhint: build it with: {command}")]
    NotBuilt {
        /// The engine.
        engine: &'static str,
        /// The image.
        image: String,
        /// The command that builds it.
        command: String,
    },
    /// No image is there to push.
    #[error("{engine} has no image to push\nhint: build them with: {command}")]
    NonePushed {
        /// The engine.
        engine: &'static str,
        /// A command that builds one.
        command: String,
    },
    /// A registry did not take an image.
    #[error("cannot push '{image}': {reason}\nhint: {hint}")]
    Rejected {
        /// The image name in the registry.
        image: String,
        /// The engine's error.
        reason: String,
        /// The remedy.
        hint: String,
    },
    /// The system's error.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl ImageError {
    /// Returns a function that adds action and path to a system's error.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| ImageError::File { action, path, source }
    }

    pub(crate) fn malformed(what: impl Into<String>, reason: impl ToString) -> Self {
        ImageError::Malformed { what: what.into(), reason: reason.to_string() }
    }
}
