//! A client of a session's control socket (`spec/questions.md#control-socket`).

use std::io;

use aifo_history::{UndoReport, UndoRequest};
use aifo_process::connect_unix;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use crate::running::SessionInfo;

/// The socket in a session directory, which no container mounts.
pub(crate) const SOCKET: &str = "control.sock";

/// A request, a line of JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ControlRequest {
    List(List),
    Watch(Watch),
    Answer {
        answer: String,
        option: String,
        #[serde(default)]
        from: AnswerSender,
    },
    Undo {
        undo: UndoRequest,
    },
    Checkpoint {
        checkpoint: bool,
    },
}

/// The kind of program that answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerSender {
    /// `aifo-coder approve`.
    #[default]
    Approve,
    /// A web page.
    Page,
}

impl AnswerSender {
    /// Returns the word for users.
    pub fn word(self) -> &'static str {
        match self {
            AnswerSender::Approve => "approve",
            AnswerSender::Page => "page",
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct List {
    list: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Watch {
    watch: bool,
}

/// The session line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlLine {
    /// An open question.
    Question(ListedQuestion),
    /// A question that was answered or withdrawn.
    Ended(EndedQuestion),
    /// The end of a list.
    End(bool),
    /// The question whose answer was accepted.
    Answered(String),
    /// The result of an undo.
    Undone(UndoReport),
    /// Why a request was rejected.
    Error(String),
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedQuestion {
    /// Its id.
    pub id: String,
    /// The command; words that are not UTF-8 are quoted.
    pub argv: Vec<String>,
    /// The directory.
    pub directory: String,
    /// The rule and its reason.
    pub reason: String,
    /// True if its client has left.
    pub left: bool,
}

/// A question that was answered or withdrawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedQuestion {
    /// Its id.
    pub id: String,
    /// The selected option; `None` if it was withdrawn.
    pub option: Option<String>,
    /// The sender of the answer, or why it was withdrawn.
    pub by: String,
}

/// Why a session did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The session has no rules, so it asks nothing.
    #[error(
        "session '{0}' has no rules, so no call waits for approval\nhint: see 'aifo-coder policy'"
    )]
    NoRules(String),
    /// The session closed the connection.
    #[error(
        "session '{0}' closed the connection\nhint: run this command outside of the session; its agent \
         and tools cannot answer"
    )]
    Closed(String),
    /// The session rejected the request.
    #[error("{0}")]
    Rejected(String),
    /// A system call failed.
    #[error("cannot reach session '{session}': {source}")]
    System {
        /// The session id.
        session: String,
        /// The system's error.
        source: io::Error,
    },
}

/// A connection to a session.
#[derive(Debug)]
pub struct ControlClient {
    session: String,
    stream: BufReader<UnixStream>,
}

impl ControlClient {
    /// Connects to a running session.
    pub fn connect(session: &SessionInfo) -> Result<Self, ControlError> {
        let id = session.id.clone();
        let system = |source| ControlError::System { session: id.clone(), source };
        let open = || -> io::Result<UnixStream> {
            let fd = connect_unix(&session.directory.join(SOCKET))?;
            let stream = std::os::unix::net::UnixStream::from(fd);
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        };
        match open() {
            Ok(stream) => Ok(ControlClient { session: id, stream: BufReader::new(stream) }),
            Err(error) if error.raw_os_error() == Some(Errno::ENOENT as i32) => {
                Err(ControlError::NoRules(id))
            }
            Err(error) => Err(system(error)),
        }
    }

    /// Returns the open questions.
    pub async fn list(&mut self) -> Result<Vec<ListedQuestion>, ControlError> {
        self.send(&ControlRequest::List(List { list: true })).await?;
        let mut questions = Vec::new();
        loop {
            match self.next().await? {
                ControlLine::Question(question) => questions.push(question),
                ControlLine::End(_) => return Ok(questions),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Requests the open questions and every later change, as [`next`](Self::next) returns them.
    pub async fn watch(&mut self) -> Result<(), ControlError> {
        self.send(&ControlRequest::Watch(Watch { watch: true })).await
    }

    /// Answers a question. Errors: another answer was first.
    pub async fn answer(&mut self, id: &str, option: &str) -> Result<(), ControlError> {
        self.answer_from(AnswerSender::Approve, id, option).await
    }

    /// As [`answer`](Self::answer), from another program than `approve`.
    pub async fn answer_from(
        &mut self,
        from: AnswerSender,
        id: &str,
        option: &str,
    ) -> Result<(), ControlError> {
        let (answer, option) = (id.to_owned(), option.to_owned());
        self.send(&ControlRequest::Answer { answer, option, from }).await?;
        match self.next().await? {
            ControlLine::Answered(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Undoes something, or asks what an undo would do.
    pub async fn undo(&mut self, undo: UndoRequest) -> Result<UndoReport, ControlError> {
        self.send(&ControlRequest::Undo { undo }).await?;
        match self.next().await? {
            ControlLine::Undone(report) => Ok(report),
            other => Err(unexpected(&other)),
        }
    }

    /// Requests a checkpoint, after which the store can be read.
    pub async fn checkpoint(&mut self) -> Result<(), ControlError> {
        self.send(&ControlRequest::Checkpoint { checkpoint: true }).await?;
        match self.next().await? {
            ControlLine::End(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the session's next line. Not cancel-safe.
    pub async fn next(&mut self) -> Result<ControlLine, ControlError> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await;
        match read {
            Ok(0) => Err(ControlError::Closed(self.session.clone())),
            Ok(_) => serde_json::from_str(&line).map_err(|error| self.system(error.into())),
            // It closed the connection before it read the request.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                Err(ControlError::Closed(self.session.clone()))
            }
            Err(error) => Err(self.system(error)),
        }
    }

    async fn send(&mut self, request: &ControlRequest) -> Result<(), ControlError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.system(error.into()))?;
        line.push(b'\n');
        match self.stream.get_mut().write_all(&line).await {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Err(ControlError::Closed(self.session.clone()))
            }
            sent => sent.map_err(|error| self.system(error)),
        }
    }

    fn system(&self, source: io::Error) -> ControlError {
        ControlError::System { session: self.session.clone(), source }
    }
}

fn unexpected(line: &ControlLine) -> ControlError {
    ControlError::Rejected(match line {
        ControlLine::Error(text) => text.clone(),
        other => format!("unexpected line {other:?}"),
    })
}
