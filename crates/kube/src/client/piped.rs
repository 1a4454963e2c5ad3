//! A command in a pod of its own, with this process's descriptors (`spec/kubernetes.md#without-a-terminal`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process::{ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use aifo_host::{EndSignals, short};
use aifo_terminal::console;
use aifo_types::{Ending, exit};
use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};

use super::cluster::{CONTAINER, Cluster, PROGRAM};
use super::last_fetch::{LastFetch, SessionEnd};
use super::periodic_fetches::PeriodicFetches;
use super::relay::{self, Input};
use super::session::{PodProcess, PodRequest};
use super::started::{FIRST_CLIENT, Started, StartedPod, start};
use super::upload::{self, PodWorkspace, fetch};
use crate::Kubectl;
use crate::in_pod::SIGNAL;

/// Whether the client sees the end of an agent's turns in the command output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// It is that of ACP: the workspace is fetched before a turn's end is passed on.
    Seen,
    /// It does not.
    Unseen,
}

/// For how long the end of a turn waits for the fetch.
const FETCH_TIME: Duration = Duration::from_secs(10);
/// The bytes of a message that are read at once. The end of a turn has a few hundred.
const MAX_LINE: u64 = 1 << 20;
/// The time to wait for a signal after kubectl failed, as both may get it.
const SIGNAL_TIME: Duration = Duration::from_millis(200);
/// The time for the command in the pod to end after a signal: enough to cancel a turn, to end the agent, and for
/// [`FETCH_TIME`].
const CANCEL_TIME: Duration = Duration::from_secs(20);
/// The time for the last output of a command that did not get the signal.
const OUTPUT_TIME: Duration = Duration::from_secs(1);

/// Runs `aifo-coder` with these words in a pod of its own. Errors: the pod did not start.
pub async fn run_piped(
    request: PodRequest<'_>,
    (input, words): (Input, Vec<String>),
    turns: Turns,
) -> anyhow::Result<ExitCode> {
    let started = start(request, &PodProcess::Exec(FIRST_CLIENT)).await?;
    let StartedPod { cluster, id, name, mut signals } = match started {
        Started::Running(pod) => *pod,
        Started::Ended(code) => return Ok(code),
    };
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let work = cluster.work(&id, &name).await?;
    let fetches = PeriodicFetches::start(&cluster, &id, &name, &work).ok();
    let turn = match (turns, &work.record) {
        (Turns::Seen, Some(record)) => Some(TurnFetch {
            kubectl: cluster.kubectl.clone(),
            pod: name.clone(),
            record: record.clone(),
        }),
        _ => None,
    };
    let ended = cluster
        .run_to_end(&name, &mut signals, command(&cluster, &name, input, &words, turn))
        .await;
    let fetched = fetches.map(PeriodicFetches::finish).unwrap_or_default();
    upload::report(&id, &fetched.reports);
    let end = match &ended {
        Ok(end) => *end,
        Err(_) => SessionEnd::Lost,
    };
    let last = cluster.fetch_last((&id, &name), &work, &fetched, end).await;
    if let (Err(error), false) = (ended, last == LastFetch::Gone) {
        let id = short(&id);
        console::fail(
            &error.context(format!("the connection to session {id} is lost, and its command ends")),
        );
    }
    if last != LastFetch::Kept && cluster.delete(&id).await {
        work.remove_record();
    }
    Ok(ExitCode::from(match (last, end) {
        (LastFetch::Gone, _) | (_, SessionEnd::Lost) => exit::UNKNOWN,
        (_, SessionEnd::Ended(code) | SessionEnd::Cancelled(code)) => code,
    }))
}

impl Cluster {
    /// Waits for the end of the command in a pod; a signal ends it. Errors: the connection is lost.
    async fn run_to_end(
        &self,
        pod: &str,
        signals: &mut EndSignals,
        command: impl Future<Output = anyhow::Result<u8>>,
    ) -> anyhow::Result<SessionEnd> {
        let cancelled = |signal| SessionEnd::Cancelled(Ending::Signaled(signal).exit_code());
        let mut command = pin!(command);
        tokio::select! {
            biased;
            signal = signals.recv() => {
                self.cancel(pod, signal, &mut command, signals).await;
                Ok(cancelled(signal))
            }
            ended = &mut command => match ended {
                Ok(code) => Ok(SessionEnd::Ended(code)),
                // A supervisor may send the signal to kubectl too, which then ends first.
                Err(error) => match timeout(SIGNAL_TIME, signals.recv()).await {
                    Ok(signal) => Ok(cancelled(signal)),
                    Err(_) => Err(error),
                }
            },
        }
    }

    /// Sends a signal to the command in a pod, and waits for its end: for [`CANCEL_TIME`], or until the next signal.
    async fn cancel(
        &self,
        pod: &str,
        signal: u8,
        mut command: impl Future<Output = anyhow::Result<u8>> + Unpin,
        signals: &mut EndSignals,
    ) {
        let number = signal.to_string();
        let ended = async {
            // kubectl forwards no signal.
            let words = [PROGRAM, SIGNAL, &number];
            let sent = self.kubectl.exec_output(pod, CONTAINER, &words, b"").await;
            let within = match sent {
                Ok(_) => CANCEL_TIME,
                Err(error) => {
                    tracing::debug!("the command in the pod did not get the signal: {error}");
                    OUTPUT_TIME
                }
            };
            // The exit code is that of the signal.
            let _ = timeout(within, &mut command).await;
        };
        tokio::select! {
            biased;
            _ = signals.recv() => {}
            _ = timeout(CANCEL_TIME, ended) => {}
        }
    }
}

async fn command(
    cluster: &Cluster,
    pod: &str,
    input: Input,
    words: &[OsString],
    turn: Option<TurnFetch>,
) -> anyhow::Result<u8> {
    let mut command = relay::command(cluster, pod, input.options(), words);
    // The interrupt key must not end kubectl before the command. A background process group cannot use the
    // terminal, so its input and output are copied.
    command.kubectl.process_group(0);
    if input == Input::Stdin && io::stdin().is_terminal() {
        command.kubectl.stdin(Stdio::piped());
    }
    let is_copied = turn.is_some() || io::stdout().is_terminal();
    let stdout = if is_copied { Stdio::piped() } else { Stdio::inherit() };
    let mut exec = relay::spawn(command, stdout)?;
    if let Some(stdin) = exec.kubectl.stdin.take() {
        let mut to = File::from(stdin.into_owned_fd()?);
        thread::spawn(move || io::copy(&mut io::stdin().lock(), &mut to));
    }
    let stdout = exec.kubectl.stdout.take().map(|it| it.into_owned_fd()).transpose()?;
    let copied = stdout.map(|stdout| copy(io::PipeReader::from(stdout), turn)).transpose()?;
    let code = relay::end_of(exec, false).await;
    // After a failure of kubectl, a helper of it may keep the pipe open.
    if code.is_ok()
        && let Some(copied) = copied
        && let Ok(Err(error)) = copied.await
    {
        tracing::debug!("cannot write to stdout: {error}");
    }
    code
}

/// Copies the output of the command to stdout.
fn copy(
    mut from: io::PipeReader,
    turn: Option<TurnFetch>,
) -> io::Result<oneshot::Receiver<io::Result<()>>> {
    let mut to = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (sender, copied) = oneshot::channel();
    thread::spawn(move || {
        let copied = match turn {
            Some(turn) => turn.copy(from, to),
            None => io::copy(&mut from, &mut to).map(drop),
        };
        // No receiver: this process no longer waits for the command.
        let _ = sender.send(copied);
    });
    Ok(copied)
}

/// Fetches the workspace at the end of a turn.
struct TurnFetch {
    kubectl: Kubectl,
    pod: String,
    record: PodWorkspace,
}

impl TurnFetch {
    /// Copies the messages of an agent.
    fn copy(&self, from: impl Read, mut to: impl Write) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(64 << 10, from);
        let mut line = Vec::new();
        while reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? > 0 {
            // A longer message is passed on in parts, none of which is an answer.
            if ends_turn(&line) {
                self.fetch();
            }
            to.write_all(&line)?;
            to.flush()?;
            line.clear();
        }
        Ok(())
    }

    /// Fetches, but returns after [`FETCH_TIME`]. The last fetch reports a failure that persists.
    fn fetch(&self) {
        let (done, ended) = mpsc::channel();
        let (kubectl, pod, record) = (self.kubectl.clone(), self.pod.clone(), self.record.clone());
        thread::spawn(move || {
            if let Ok(report) = fetch(&kubectl, &pod, &record) {
                upload::report(&record.session, &[report]);
            }
            // The turn's end may not have waited.
            let _ = done.send(());
        });
        // Either way the end is passed on.
        let _ = ended.recv_timeout(FETCH_TIME);
    }
}

/// Returns whether a message answers `session/prompt`: with a reason, or with an error, as any request may be.
fn ends_turn(line: &[u8]) -> bool {
    let has = |word: &[u8]| line.windows(word.len()).any(|part| part == word);
    if !has(b"\"stopReason\"") && !has(b"\"error\"") {
        return false;
    }
    let message: Value = serde_json::from_slice(line).unwrap_or_default();
    let is_response = message.get("id").is_some() && message.get("method").is_none();
    let has_reason = message.pointer("/result/stopReason").is_some();
    is_response && (has_reason || message.get("error").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_with_a_reason_or_an_error_end_a_turn() {
        for (line, ends) in [
            (r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#, true),
            (r#"{"id":3,"error":{"code":-32603,"message":"x"}}"#, true),
            (r#"{"method":"session/update","params":{"text":"\"stopReason\""}}"#, false),
            (r#"{"id":3,"method":"x","params":{"error":{},"stopReason":"end_turn"}}"#, false),
            (r#"{"id":3,"result":{"a":{"stopReason":"end_turn"}}}"#, false),
            ("stopReason", false),
        ] {
            assert_eq!(ends_turn(line.as_bytes()), ends, "{line}");
        }
    }
}
