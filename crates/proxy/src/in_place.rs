//! Calls that their clients run themselves once they are judged (`spec/exec3.md#in-place`).

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aifo_policy::{Verdict, with_variables};
use aifo_process::PinnedProcess;
use aifo_types::{CallEnding, Ending, ExecId, ExecRequest, Refusal, ToolName};
use aifo_wire::{encode_run_in_place, encode_run_without_network};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::approval::{CallApprovals, RunsIn, approve_in_place};
use crate::budget::Share;
use crate::client::Client;
use crate::record::CallRecord;
use crate::state::ProxyState;

/// A call that its client runs itself, and that is not recorded yet.
pub(crate) struct RunInPlace {
    record: CallRecord,
    process: Option<WatchedProcess>,
    started: Instant,
}

/// A process whose end is awaited, one of [`MAX_WATCHED`].
struct WatchedProcess {
    process: PinnedProcess,
    _permit: OwnedSemaphorePermit,
}

/// The programs in place whose end is awaited at a time; of more, duration and ending are not known.
pub(crate) const MAX_WATCHED: usize = 64;
/// The time for the parent of an ended program to take its ending.
const REAP_TIME: Duration = Duration::from_secs(1);

/// Judges a call, waits for its approval, and lets the client run it. On an error nothing was sent but
/// interim responses, and the caller sends the refusal.
pub(crate) async fn judge(
    state: &ProxyState,
    client: &Client,
    mut request: ExecRequest,
    echo: Option<&ExecId>,
    memory: Share,
) -> Result<RunInPlace, Refusal> {
    let limits = &state.config.limits;
    let is_named = request.program.is_none() && request.passed() == 0;
    let runs_in_place = is_named && state.config.in_place.contains(&request.tool);
    if runs_in_place {
        add_variables(&state.config.approvals, &mut request);
    }
    let mut record = CallRecord::new(&request, 3, limits);
    let judged = match runs_in_place {
        true => allow(state, client, &mut request).await,
        false => Err(Refusal::NotInPlace { tool: request.tool.clone() }),
    };
    let directory = request.cwd_id;
    record.judged(&request);
    drop((request, memory));
    match judged {
        Ok(()) => {
            state.config.call_log.starts(&record).await;
            // The client executes the program in its own process, while the connection is open.
            let permit = Arc::clone(&state.watched).try_acquire_owned().ok();
            let process = permit.and_then(|permit| {
                Some(WatchedProcess { process: client.process()?, _permit: permit })
            });
            let started = Instant::now();
            let mut response = Vec::new();
            match record.no_network {
                None => encode_run_in_place(&mut response, directory, echo),
                Some(_) => encode_run_without_network(&mut response, directory, echo),
            }
            // A client that has left runs nothing.
            if client.socket.send_all(&response).await.is_ok() {
                record.runs_in_place();
            }
            Ok(RunInPlace { record, process, started })
        }
        Err(refusal) => {
            record.refused(&refusal);
            state.config.call_log.record(&record);
            Err(refusal)
        }
    }
}

impl RunInPlace {
    /// Records the call when the program has ended, at the latest at the end of the session.
    pub(crate) async fn record_end(mut self, state: &ProxyState) {
        let watched = self.process.take().filter(|_| self.record.ending == CallEnding::InPlace);
        if let Some(watched) = watched
            && let Ok(Some((end, ending))) = end_of(&watched.process, state).await
        {
            self.record.ended_in_place(end.duration_since(self.started), ending);
        }
        state.config.call_log.record(&self.record);
    }
}

/// Waits for the end of a process; returns when it ended, and how, if that is known. `None` if it outlives the
/// session.
async fn end_of(
    process: &PinnedProcess,
    state: &ProxyState,
) -> io::Result<Option<(Instant, Option<Ending>)>> {
    // Deprecated as in `on_reactor`: the descriptor stays open while it is registered.
    #[allow(deprecated)]
    let watch = AsyncFd::with_interest(process.as_fd(), Interest::READABLE)?;
    let mut shutdown = state.shutdown.subscribe();
    let has_ended = tokio::select! {
        biased;
        ended = watch.readable() => {
            ended?.clear_ready();
            true
        }
        _ = shutdown.wait_for(|is_down| *is_down) => process.has_ended_within(Duration::ZERO)?,
    };
    if !has_ended {
        return Ok(None);
    }
    let end = Instant::now();
    let is_taken = async {
        loop {
            if let Some(ending) = process.ending() {
                return Some(ending);
            }
            watch.readable().await.ok()?.clear_ready();
        }
    };
    Ok(Some((end, timeout(REAP_TIME, is_taken).await.unwrap_or_default())))
}

async fn allow(
    state: &ProxyState,
    client: &Client,
    request: &mut ExecRequest,
) -> Result<(), Refusal> {
    let approvals = &state.config.approvals;
    match approvals.judge_request(request, RunsIn::Agent)? {
        None => Ok(()),
        Some(unapproved) => {
            let shutdown = state.shutdown.subscribe();
            let asked = approve_in_place(approvals, unapproved, client, shutdown).await?;
            approvals.check(Some(&asked))
        }
    }
}

/// Adds to the call what its tool runs by the environment: rules and users see all of it.
fn add_variables(approvals: &CallApprovals, request: &mut ExecRequest) {
    let environment = std::mem::take(&mut request.inherited.environment);
    if environment.is_empty() {
        return;
    }
    let mut argv = vec![request.tool.as_str().as_bytes().to_vec()];
    argv.append(&mut request.args);
    with_variables(&mut argv, &environment, |call| {
        let judged = approvals.judge(call, request.cwd.as_deref());
        judged.is_some_and(|it| it.verdict > Verdict::Allow || it.no_network.is_some())
    });
    // With variables the call is one of `env`.
    if let Ok(tool) = ToolName::parse(&argv.remove(0)) {
        request.tool = tool;
    }
    request.args = argv;
}
