//! The socket at which the user's programs answer questions about calls
//! (`spec/questions.md#control-socket`).

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use aifo_policy::{Question, QuestionState};
use aifo_process::{bind_unix, parent_of};
use aifo_proxy::CallApprovals;
use aifo_types::Token;
use nix::{
    sys::socket::{Backlog, getsockopt, listen, sockopt::PeerCredentials},
    unistd::{Pid, getuid},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
    task::JoinSet,
};

use crate::control_client::{ControlLine, ControlRequest, EndedQuestion, ListedQuestion, SOCKET};
use crate::history::SessionHistory;
use crate::running::SessionInfo;
use crate::session_dir::PREFIX;

/// Clients at a time.
const MAX_CLIENTS: usize = 16;
/// Bytes of a request.
const MAX_LINE: u64 = 4096;
const NO_HISTORY: &str = "the session has no history";
/// Time for a client to take a line.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The processes that must not answer: the agent and its tools.
#[derive(Clone, Debug)]
struct Excluded {
    launcher: Pid,
    /// The last component of the session directory, which is in their variables. A pod has its name as the
    /// host name, without `/`.
    component: String,
    token: Token,
}

/// Serves this user's programs until the future is dropped. Errors: the socket cannot be created.
pub fn serve(
    session: &SessionInfo,
    (approvals, history): (CallApprovals, Option<SessionHistory>),
    token: Token,
) -> io::Result<impl Future<Output = ()> + Send + use<>> {
    let listener = listen_at(&session.directory.join(SOCKET))?;
    let component = format!("/{PREFIX}{}", session.id);
    let launcher = Pid::from_raw(session.pid.cast_signed());
    let excluded = Excluded { launcher, component, token };
    Ok(async move {
        let mut clients = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => {
                        if let Some(pid) = excluded.sender(&client)
                            && clients.len() < MAX_CLIENTS
                        {
                            let (approvals, history) = (approvals.clone(), history.clone());
                            clients.spawn(async move {
                                // The client's disconnect ends it.
                                let served = (&approvals, history.as_ref());
                                let _ = serve_client(client, served, pid).await;
                            });
                        }
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
                Some(_) = clients.join_next() => {}
            }
        }
    })
}

fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let fd = bind_unix(path)?;
    // Before anything can connect.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listen(&fd, Backlog::new(MAX_CLIENTS as i32)?)?;
    UnixListener::from_std(fd.into())
}

impl Excluded {
    /// Returns the process id of a peer that may answer.
    fn sender(&self, client: &UnixStream) -> Option<Pid> {
        let peer = getsockopt(client, PeerCredentials).ok()?;
        // 0 is a process of another namespace.
        let pid = Some(Pid::from_raw(peer.pid())).filter(|pid| pid.as_raw() > 0)?;
        let may_answer = peer.uid() == getuid().as_raw() && !self.is_excluded(pid);
        may_answer.then_some(pid)
    }

    /// Returns whether a process belongs to the agent, or has ended.
    fn is_excluded(&self, pid: Pid) -> bool {
        let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else { return true };
        let has = |text: &str| environ.windows(text.len()).any(|window| window == text.as_bytes());
        has(&self.component) || has(self.token.reveal()) || self.is_descendant(pid)
    }

    fn is_descendant(&self, mut pid: Pid) -> bool {
        while pid.as_raw() > 1 {
            match parent_of(pid) {
                Some(parent) if parent != self.launcher => pid = parent,
                Some(_) => return true,
                // It ended, so its place is unknown.
                None => return true,
            }
        }
        false
    }
}

async fn serve_client(
    client: UnixStream,
    (approvals, history): (&CallApprovals, Option<&SessionHistory>),
    pid: Pid,
) -> io::Result<()> {
    let (reader, mut writer) = client.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        if (&mut reader).take(MAX_LINE).read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let response = match serde_json::from_str(&line) {
            Ok(ControlRequest::List(_)) => {
                for open in approvals.open() {
                    send(&mut writer, &ControlLine::Question(listed(approvals, &open))).await?;
                }
                ControlLine::End(true)
            }
            Ok(ControlRequest::Watch(_)) => {
                let mut rest = String::new();
                tokio::select! {
                    ended = watch(approvals, &mut writer) => return ended,
                    // Nothing follows but the end.
                    _ = reader.read_line(&mut rest) => return Ok(()),
                }
            }
            Ok(ControlRequest::Answer { answer, option, from }) => {
                let by = format!("{} (pid {pid})", from.word());
                match approvals.answer(&answer, &option, &by) {
                    Ok(_) => ControlLine::Answered(answer),
                    Err(error) => {
                        let first = approvals.ended(&answer).and_then(|(_, first)| first);
                        let first = first.map(|first| format!(" by {first}")).unwrap_or_default();
                        ControlLine::Error(format!("{error}{first}"))
                    }
                }
            }
            Ok(ControlRequest::Undo { undo }) => match history {
                Some(history) => match history.undo(undo).await {
                    Ok(report) => ControlLine::Undone(report),
                    Err(error) => ControlLine::Error(error.to_string()),
                },
                None => ControlLine::Error(NO_HISTORY.to_owned()),
            },
            Ok(ControlRequest::Checkpoint { .. }) => match history {
                Some(history) => match history.checkpoint().await {
                    Ok(()) => ControlLine::End(true),
                    Err(error) => ControlLine::Error(error.to_string()),
                },
                None => ControlLine::Error(NO_HISTORY.to_owned()),
            },
            Err(error) => ControlLine::Error(format!("invalid request: {error}")),
        };
        send(&mut writer, &response).await?;
    }
}

/// Sends open questions, then each that opens or ends.
async fn watch(approvals: &CallApprovals, writer: &mut OwnedWriteHalf) -> io::Result<()> {
    let mut changes = approvals.subscribe();
    // The sent questions, by id and whether their client has left.
    let mut sent: BTreeSet<(String, bool)> = BTreeSet::new();
    loop {
        changes.borrow_and_update();
        let open = approvals.open();
        let ids: BTreeSet<&str> = open.iter().map(|open| open.id.as_str()).collect();
        let ended: Vec<_> =
            sent.iter().filter(|(id, _)| !ids.contains(id.as_str())).cloned().collect();
        for key in ended {
            send(writer, &ControlLine::Ended(ended_question(approvals, &key.0))).await?;
            sent.remove(&key);
        }
        for open in &open {
            let key = (open.id.clone(), open.left);
            if !sent.contains(&key) {
                send(writer, &ControlLine::Question(listed(approvals, open))).await?;
                sent.remove(&(key.0.clone(), !open.left));
                sent.insert(key);
            }
        }
        let expiry = approvals.next_expiry().map(tokio::time::Instant::from_std);
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return Ok(()) },
            () = aifo_sidecar::deadline_reached(expiry) => {}
        }
    }
}

/// Returns a question as frontends get it.
pub fn listed(approvals: &CallApprovals, open: &Question) -> ListedQuestion {
    let call = approvals.call(&open.id);
    ListedQuestion {
        id: open.id.clone(),
        argv: call.map(|call| call.words()).unwrap_or_default(),
        directory: open.directory.clone(),
        reason: open.reason.clone(),
        left: open.left,
    }
}

fn ended_question(approvals: &CallApprovals, id: &str) -> EndedQuestion {
    let (option, by) = match approvals.ended(id) {
        Some((QuestionState::Answered(option), by)) => (Some(option), by.unwrap_or_default()),
        Some((QuestionState::Withdrawn(why), _)) => (None, why),
        Some((QuestionState::Pending, _)) | None => (None, String::new()),
    };
    EndedQuestion { id: id.to_owned(), option, by }
}

async fn send(writer: &mut OwnedWriteHalf, line: &ControlLine) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    tokio::time::timeout(WRITE_TIMEOUT, writer.write_all(&bytes)).await?
}

#[cfg(test)]
mod tests;
