//! A command in a pod of its own, with this process's descriptors (`spec/kubernetes.md#without-a-terminal`).

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use aifo_kube::PodState;
use aifo_launch::Kubectl;
use aifo_types::exit;
use serde_json::Value;
use tokio::time::timeout;

use super::cluster::Cluster;
use super::fetches::Fetches;
use super::relay::{self, Input};
use super::result::HasEnded;
use super::session::{PodProcess, PodRequest};
use super::started::{FIRST_CLIENT, Started, StartedPod, start};
use super::upload::{self, PodWorkspace, fetch};
use crate::banner::short;
use crate::cli::Session;
use crate::console;
use crate::start::signal_exit_code;

/// Whether the client sees the end of an agent's turns in the command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    /// It is that of ACP: the workspace is fetched before a turn's end is passed on.
    Seen,
    Unseen,
}

/// For how long the end of a turn waits for the fetch.
const FETCH_TIME: Duration = Duration::from_secs(10);
/// The bytes of a message that are read at once. The end of a turn has a few hundred.
const MAX_LINE: u64 = 1 << 20;
/// The time for the signal of a terminal, which kubectl gets too.
const SIGNAL_TIME: Duration = Duration::from_millis(200);

/// Runs `aifo-coder` with these words in a pod of its own. Errors: the pod did not start.
pub(super) async fn run_piped(
    session: &Session,
    request: PodRequest<'_>,
    (input, words): (Input, Vec<String>),
    turns: Turns,
) -> anyhow::Result<ExitCode> {
    let started = start(session, request, &PodProcess::Exec(FIRST_CLIENT)).await?;
    let StartedPod { cluster, id, name, mut signals } = match started {
        Started::Running(pod) => *pod,
        Started::Ended(code) => return Ok(code),
    };
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let work = cluster.work(&id, &name).await?;
    let fetches = Fetches::start(&cluster, &id, &name, &work).ok();
    let turn = match (turns, &work.record) {
        (Turns::Seen, Some(record)) => Some(TurnFetch {
            kubectl: cluster.kubectl.clone(),
            pod: name.clone(),
            record: record.clone(),
        }),
        _ => None,
    };
    let ended = tokio::select! {
        biased;
        signal = signals.recv() => Ok(signal_exit_code(signal)),
        ended = command(&cluster, &name, input, &words, turn) => match ended {
            Ok(code) => Ok(ExitCode::from(code)),
            // kubectl has got the signal too.
            Err(error) => match timeout(SIGNAL_TIME, signals.recv()).await {
                Ok(signal) => Ok(signal_exit_code(signal)),
                Err(_) => Err(error),
            }
        },
    };
    let fetched = fetches.map(Fetches::finish).unwrap_or_default();
    upload::report(&id, &fetched.reports);
    let end = match ended {
        Ok(code) => PipedEnd::Known(code),
        Err(error) => cluster.lost(&id, &name, error).await,
    };
    let is_fetched = match &end {
        PipedEnd::Gone if work.exists() => {
            cluster.report_lost(&id, &work, &fetched);
            true
        }
        PipedEnd::Known(_) | PipedEnd::Gone => cluster.fetch_work(&id, &name, &work, HasEnded::Yes),
        // The command may still run.
        PipedEnd::Lost => cluster.fetch_work(&id, &name, &work, HasEnded::No),
    };
    if is_fetched && cluster.delete(&id).await {
        work.remove_record();
    }
    Ok(match end {
        PipedEnd::Known(code) => code,
        PipedEnd::Lost | PipedEnd::Gone => ExitCode::from(exit::UNKNOWN),
    })
}

/// How a command in a pod has ended.
enum PipedEnd {
    Known(ExitCode),
    /// The connection is lost.
    Lost,
    /// The pod was deleted or has failed.
    Gone,
}

impl Cluster {
    /// Reports why the connection to a command is lost.
    async fn lost(&self, session: &str, name: &str, error: anyhow::Error) -> PipedEnd {
        let id = short(session);
        let pod = match self.pod(name).await {
            Ok(pod) => pod.filter(|pod| !pod.is_deleted()),
            Err(error) => {
                let lost = format!("the connection to session {id} is lost");
                console::fail(&anyhow::Error::from(error).context(lost));
                return PipedEnd::Lost;
            }
        };
        match pod.map(|pod| pod.state()) {
            None => console::fail(&anyhow::anyhow!("the pod of session {id} was deleted")),
            Some(PodState::Failed(failure)) => console::fail(&self.explained(name, failure).await),
            Some(_) => {
                console::fail(&error.context(format!(
                    "the connection to session {id} is lost, and its command ends"
                )));
                return PipedEnd::Lost;
            }
        }
        PipedEnd::Gone
    }
}

async fn command(
    cluster: &Cluster,
    pod: &str,
    input: Input,
    words: &[OsString],
    turn: Option<TurnFetch>,
) -> anyhow::Result<u8> {
    let stdout = if turn.is_some() { Stdio::piped() } else { Stdio::inherit() };
    let mut exec = relay::spawn(cluster, pod, input.options(), words, stdout)?;
    let stdout = exec.kubectl.stdout.take().map(|it| it.into_owned_fd()).transpose()?;
    let copy = turn.zip(stdout).map(|(turn, stdout)| {
        thread::spawn(move || turn.copy(io::PipeReader::from(stdout), io::stdout()))
    });
    let code = relay::end_of(exec, false).await;
    // After a failure of kubectl, a helper of it may keep the pipe open.
    if code.is_ok()
        && let Some(Err(error)) = copy.and_then(|copy| copy.join().ok())
    {
        tracing::debug!("cannot write to stdout: {error}");
    }
    code
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
