//! The terminal of a session in a pod, shown on this one (`spec/kubernetes.md#the-terminal`).

use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use aifo_host::short;
use aifo_terminal::{ClientEnd, Connection, console};
use aifo_types::exit;
use anyhow::Context;
use tokio::time::sleep;

use super::cluster::{CONTAINER, Cluster, PROGRAM};
use super::last_fetch::deleted;
use crate::in_pod::RELAY;
use crate::{ApiFailure, FailureCause, KubectlError, PodObject, PodState, RETRY_TIME};

/// The pause before a lost connection is tried again, a second time.
const PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasted as long was one; lost again, it is tried again for the whole time.
const CONNECTED: Duration = Duration::from_secs(5);
/// The time for a kubectl to end without a client.
const KUBECTL_TIME: Duration = Duration::from_secs(5);

/// How a client of a pod terminal has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalEnd {
    /// The session has ended with this exit code.
    Ended(u8),
    /// It continues.
    Continues(ExitStatus),
    /// Its pod was deleted or has failed.
    Gone,
}

/// The exit code of a command whose session continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// The user left the session.
    Left,
    /// The connection is lost.
    Lost,
}

impl TerminalEnd {
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            TerminalEnd::Ended(code) => ExitCode::from(code),
            TerminalEnd::Continues(ExitStatus::Left) => ExitCode::SUCCESS,
            TerminalEnd::Continues(ExitStatus::Lost) | TerminalEnd::Gone => {
                ExitCode::from(exit::UNKNOWN)
            }
        }
    }
}

impl Cluster {
    /// Shows the terminal of a session until it ends or the client leaves. A lost connection is
    /// made again.
    pub(crate) async fn show(&self, session: &str, pod: &str) -> anyhow::Result<TerminalEnd> {
        let mut lost_since: Option<Instant> = None;
        loop {
            let began = Instant::now();
            let (end, failure) = self.connect(pod)?;
            let (id, options) = (short(session), self.options());
            let again = format!("return with: aifo-coder attach{options} {id}");
            match end {
                ClientEnd::Ended(ending) => return Ok(TerminalEnd::Ended(ending.exit_code())),
                ClientEnd::HungUp => return Ok(TerminalEnd::Continues(ExitStatus::Left)),
                ClientEnd::Left | ClientEnd::Disconnected => {
                    let was = if end == ClientEnd::Left { "continues" } else { "was detached" };
                    console::say(format_args!("session {id} {was}; {again}"));
                    return Ok(TerminalEnd::Continues(ExitStatus::Left));
                }
                ClientEnd::Lost => {}
            }
            if began.elapsed() >= CONNECTED {
                lost_since = None;
            }
            let is_first = lost_since.is_none();
            let since = *lost_since.get_or_insert_with(Instant::now);
            let found = match self.pod(pod).await {
                Ok(found) => found,
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    console::fail(&error.context(format!(
                        "the connection to session {id} is lost, and the session may continue; {again}"
                    )));
                    return Ok(TerminalEnd::Continues(ExitStatus::Lost));
                }
            };
            let ended_by = found.as_ref().and_then(PodObject::ended_by_cluster);
            match found.filter(|pod| !pod.is_deleted()).map(|pod| pod.state()) {
                Some(PodState::Ended(code)) => {
                    console::say(format_args!("session {id} ended with exit code {code}"));
                    return Ok(TerminalEnd::Ended(code));
                }
                Some(PodState::Failed(failure)) => {
                    console::fail(&self.explained(pod, failure).await);
                    return Ok(TerminalEnd::Gone);
                }
                None => {
                    console::fail(&deleted(id, ended_by));
                    return Ok(TerminalEnd::Gone);
                }
                Some(_) if since.elapsed() < RETRY_TIME && may_return(&failure) => {
                    if is_first {
                        let secs = RETRY_TIME.as_secs();
                        console::say(format_args!(
                            "the connection to session {id} is lost, trying again for {secs} s{}",
                            reason(&failure)
                        ));
                    } else {
                        sleep(PAUSE).await;
                    }
                }
                Some(_) => {
                    let error = KubectlError::Api(failure);
                    console::fail(&anyhow::Error::from(error).context(format!(
                        "the connection to session {id} is lost, and the session continues; {again}"
                    )));
                    return Ok(TerminalEnd::Continues(ExitStatus::Lost));
                }
            }
        }
    }

    /// Connects a client once. Returns how it ended, and what kubectl printed.
    fn connect(&self, pod: &str) -> anyhow::Result<(ClientEnd, ApiFailure)> {
        let mut command = self.kubectl.exec(pod, CONTAINER, [PROGRAM, RELAY]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut kubectl = command.spawn().context("cannot run kubectl")?;
        let (Some(stdin), Some(stdout)) = (kubectl.stdin.take(), kubectl.stdout.take()) else {
            anyhow::bail!("cannot run kubectl");
        };
        let connection = Connection { reader: OwnedFd::from(stdout), writer: OwnedFd::from(stdin) };
        let end = aifo_terminal::show_held(connection, aifo_config::detach_keys());
        let stderr = finish(&mut kubectl);
        Ok((end?, ApiFailure::of(&stderr)))
    }
}

/// Waits for the end of a kubectl without a client. Returns its stderr.
fn finish(kubectl: &mut Child) -> String {
    let deadline = Instant::now() + KUBECTL_TIME;
    while Instant::now() < deadline && !matches!(kubectl.try_wait(), Ok(Some(_)) | Err(_)) {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Fails if it has ended.
    let _ = kubectl.kill();
    let _ = kubectl.wait();
    let mut stderr = Vec::new();
    if let Some(pipe) = &mut kubectl.stderr {
        // Its end is enough, and a helper of kubectl may keep the pipe open.
        let mut bytes = [0; 4096];
        if let Ok(count) = pipe.read(&mut bytes) {
            stderr.extend(bytes.get(..count).unwrap_or_default());
        }
    }
    String::from_utf8_lossy(&stderr).into_owned()
}

/// Returns whether the cause of a lost connection may pass.
fn may_return(failure: &ApiFailure) -> bool {
    !matches!(
        failure.cause,
        FailureCause::Forbidden | FailureCause::Unauthorized | FailureCause::NoContext
    )
}

fn reason(failure: &ApiFailure) -> String {
    match failure.cause {
        FailureCause::Other => String::new(),
        _ => format!(": {}", failure.message),
    }
}
