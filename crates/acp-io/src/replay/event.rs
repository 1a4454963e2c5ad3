//! What a replay tells.

use std::time::Duration;

use aifo_acp::{Event, Id, Message, SendError, reports};
use serde_json::{Value, json};

/// Something that came of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayEvent {
    /// When, after the log's first entry.
    pub at: Duration,
    /// The line of its file that it came of.
    pub line: u64,
    /// What.
    pub kind: ReplayEventKind,
}

/// What came of a line of a log.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayEventKind {
    /// An event of the client.
    Event(Box<Event>),
    /// A message of ours that was sent then, and is now.
    Sent(Message),
    /// How a permission was decided then, and why, as a report.
    Decision(Value),
    /// What the agent printed beside it.
    Stderr(String),
    /// Something is not as it was.
    Mismatch(ReplayMismatch),
}

/// How a replay differs from what was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayMismatch {
    /// The line is none of a log.
    #[error("no line of a log")]
    Unreadable,
    /// Files of the log are missing.
    #[error("of the log's files those between {after} and {before} are missing")]
    Gap {
        /// The last one there is, 0 for none.
        after: u64,
        /// The next one there is.
        before: u64,
    },
    /// What was sent was no message.
    #[error("no message of a client")]
    NotAMessage,
    /// A notification that a client of ours never sends.
    #[error("'{method}' is nothing that is sent")]
    UnexpectedNotification {
        /// Its name.
        method: String,
    },
    /// A request of ours is not sent any more.
    #[error("'{method}' is not sent: {why}")]
    NotSent {
        /// What was asked for.
        method: String,
        /// Why.
        #[source]
        why: SendError,
    },
    /// No turn runs any more, or it has been cancelled.
    #[error("there is no turn to cancel")]
    NothingToCancel,
    /// An answer to a request of the agent that does not wait.
    #[error("no request {} waits for an answer", .id.to_value())]
    NotPending {
        /// Its id.
        id: Id,
    },
    /// A request of the agent is answered otherwise.
    #[error("request {} is answered otherwise", .id.to_value())]
    DifferentAnswer {
        /// Its id.
        id: Id,
    },
    /// A message is sent that was not.
    #[error("not in the log: {}", .0.to_value())]
    NotInLog(Box<Message>),
}

impl ReplayEvent {
    /// What is told, as [reports](aifo_acp::reports) with two members more: `at`, in milliseconds,
    /// and the `line`.
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
