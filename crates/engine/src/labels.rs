//! Labels of the containers and networks of sessions.

use std::path::{Path, PathBuf};

/// A label's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The session id.
    Session,
    /// The kind of the sidecar.
    Kind,
    /// The uid of the session user, because an engine can serve several users.
    User,
    /// The session directory, whose lock shows whether the session runs.
    Directory,
}

impl Label {
    /// Returns the label's name on the engine.
    pub fn name(self) -> &'static str {
        match self {
            Label::Session => "dev.aifo.session",
            Label::Kind => "dev.aifo.kind",
            Label::User => "dev.aifo.user",
            Label::Directory => "dev.aifo.folder",
        }
    }
}

/// The labels of everything that one session creates on an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// The session id.
    pub session: String,
    /// The session directory.
    pub directory: PathBuf,
}

impl Labels {
    /// Returns the labels of a session.
    pub fn of_session(session: &str, directory: &Path) -> Self {
        Labels { session: session.to_owned(), directory: directory.to_owned() }
    }

    pub(crate) fn to_words(&self) -> [String; 3] {
        [
            format!("{}={}", Label::Session.name(), self.session),
            format!("{}={}", Label::User.name(), nix::unistd::getuid()),
            format!("{}={}", Label::Directory.name(), self.directory.display()),
        ]
    }
}

/// The kind of an agent container.
const AGENT: &str = "agent";
/// The kind of the container that holds a session network. That of a further network stack has the
/// stack's name behind a dot, which no sidecar's kind has.
pub const POD: &str = "net";

/// Returns the name of a session container of a kind.
pub fn container_name(kind: &str, session: &str) -> String {
    match kind {
        AGENT => format!("aifo-agent-{session}"),
        POD => format!("aifo-pod-{session}"),
        kind => match kind.split_once('.') {
            Some((POD, stack)) => format!("aifo-pod-{stack}-{session}"),
            _ => format!("aifo-tc-{kind}-{session}"),
        },
    }
}

/// Returns the name of a session network.
pub fn network_name(session: &str) -> String {
    format!("aifo-net-{session}")
}
