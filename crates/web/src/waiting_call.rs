//! Calls of this user's sessions that wait for approval (`spec/web.md#waiting-calls`).

use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::media;

/// A call that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// The id of its session (`spec/questions.md#control-socket`).
    pub session: String,
    /// The id of the question in its session.
    pub question: String,
    /// The session workspace.
    pub workspace: String,
    /// The command in one line, with every word quoted.
    pub command: String,
    /// The directory.
    pub directory: String,
    /// The rule and its reason.
    pub reason: String,
    /// The answers: id, kind and name of each.
    pub options: Vec<(String, String, String)>,
    /// True if the client has left.
    pub left: bool,
    /// The change of the user's file that *always* makes; or why it makes none.
    pub change: Result<String, String>,
}

/// An answer from a browser.
#[derive(Debug)]
pub struct CallAnswer {
    /// The session id.
    pub session: String,
    /// The question id.
    pub question: String,
    /// The id of the option.
    pub option: String,
    /// The change that the browser has shown, for *always*.
    pub change: Option<String>,
    /// Gets the result. Errors: a text for the user.
    pub reply: oneshot::Sender<Result<(), String>>,
}

/// The end of a waiting call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnd {
    /// The option; `None` if the question was withdrawn.
    pub option: Option<String>,
    /// The sender of the answer, or why it was withdrawn.
    pub by: String,
    /// True if the turns of this server's agent end.
    pub ends_turns: bool,
}

impl WaitingCall {
    /// Returns the id of the question on the page.
    pub(crate) fn id(&self) -> String {
        call_id(&self.session, &self.question)
    }

    /// Returns the name of the shown change.
    pub(crate) fn change_id(&self) -> Option<String> {
        let change = self.change.as_ref().ok()?;
        Some(media::hex(&Sha256::digest(change)).chars().take(32).collect())
    }
}

pub(crate) fn call_id(session: &str, question: &str) -> String {
    format!("{session}.{question}")
}
