//! The labels by which we know our own.

use std::path::{Path, PathBuf};

/// A label's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The id of the session it belongs to.
    Session,
    /// The kind of the sidecar.
    Kind,
    /// The user that started it: an engine may serve several.
    User,
    /// The session's directory, which tells whether it still runs.
    Directory,
}

impl Label {
    /// As the engine knows it.
    pub fn name(self) -> &'static str {
        match self {
            Label::Session => "dev.aifo.session",
            Label::Kind => "dev.aifo.kind",
            Label::User => "dev.aifo.user",
            Label::Directory => "dev.aifo.folder",
        }
    }
}

/// What everything that a session makes carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// The session's id.
    pub session: String,
    /// The session's directory.
    pub directory: PathBuf,
}

impl Labels {
    /// Of a session with this directory.
    pub fn of_session(session: &str, directory: &Path) -> Self {
        Labels { session: session.to_owned(), directory: directory.to_owned() }
    }

    /// As `name=value` words.
    pub(crate) fn to_words(&self) -> [String; 3] {
        [
            format!("{}={}", Label::Session.name(), self.session),
            format!("{}={}", Label::User.name(), nix::unistd::getuid()),
            format!("{}={}", Label::Directory.name(), self.directory.display()),
        ]
    }
}
