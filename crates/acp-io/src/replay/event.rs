//! Events of a replay.

use std::time::Duration;

use aifo_acp::{Event, Id, Message, SendError, reports};
use serde_json::{Value, json};

/// An event of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayEvent {
    /// The time since the log's first entry.
    pub at: Duration,
    /// The line in its file.
    pub line: u64,
    /// The event.
    pub kind: ReplayEventKind,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayEventKind {
    /// An event of the client.
    Event(Box<Event>),
    /// A message that was sent then and is sent now.
    Sent(Message),
    /// A logged permission decision, as a report.
    Decision(Value),
    /// A line of the agent's stderr.
    Stderr(String),
    /// The replay differs from the log.
    Mismatch(ReplayMismatch),
}

/// A difference between log and replay.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayMismatch {
    /// Not a line of a log.
    #[error("not a line of a log")]
    Unreadable,
    /// Files of the log are missing.
    #[error("missing log files between part {after} and part {before}")]
    Gap {
        /// The last part found, 0 for none.
        after: u64,
        /// The next part found.
        before: u64,
    },
    /// The sent line is not a message.
    #[error("not a message of a client")]
    NotAMessage,
    /// A notification that the client never sends.
    #[error("the client never sends '{method}'")]
    UnexpectedNotification {
        /// The method.
        method: String,
    },
    /// The client rejects the request.
    #[error("the client does not send '{method}': {why}")]
    NotSent {
        /// The method.
        method: String,
        /// The error.
        #[source]
        why: SendError,
    },
    /// No turn is running, or it was already cancelled.
    #[error("no turn to cancel")]
    NothingToCancel,
    /// The answered request is not pending.
    #[error("request {} is not pending", .id.to_value())]
    NotPending {
        /// The request's id.
        id: Id,
    },
    /// The client answers differently.
    #[error("request {} is answered differently", .id.to_value())]
    DifferentAnswer {
        /// The request's id.
        id: Id,
    },
    /// The client sends a message that was not logged.
    #[error("not in the log: {}", .0.to_value())]
    NotInLog(Box<Message>),
}

impl ReplayEvent {
    /// Returns [`reports`] with two more members: `at`, in milliseconds, and
    /// `line`.
    pub fn reports(&self) -> Vec<Value> {
        let mut reports = match &self.kind {
            ReplayEventKind::Event(event) => reports(event),
            ReplayEventKind::Sent(Message::Request { id, method, .. }) => {
                vec![json!({"type": "sent", "id": id.to_value(), "method": method})]
            }
            ReplayEventKind::Sent(Message::Notification { method, .. }) => {
                vec![json!({"type": "sent", "method": method})]
            }
            ReplayEventKind::Sent(Message::Response { id, outcome }) => {
                let error = outcome.as_ref().err().map(|error| error.code);
                vec![json!({"type": "sent", "id": id.to_value(), "error": error})]
            }
            ReplayEventKind::Sent(Message::Invalid(_)) => Vec::new(),
            ReplayEventKind::Decision(report) => vec![report.clone()],
            ReplayEventKind::Stderr(text) => vec![json!({"type": "stderr", "text": text})],
            ReplayEventKind::Mismatch(mismatch) => {
                vec![json!({"type": "misfit", "why": mismatch.to_string()})]
            }
        };
        let at = u64::try_from(self.at.as_millis()).unwrap_or(u64::MAX);
        for members in reports.iter_mut().filter_map(Value::as_object_mut) {
            members.insert("at".to_owned(), at.into());
            members.insert("line".to_owned(), self.line.into());
        }
        reports
    }
}
