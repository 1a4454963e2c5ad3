//! From a request to a running tool, or to the reason why nothing runs: versions 1 and 2, and what
//! every version has in common.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use aifo_policy::Route;
use aifo_sidecar::{Exec, ExecEvent, Lease, SidecarError};
use aifo_types::{ExecId, ExecRequest, Kind, Refusal, exit};
use aifo_wire::{
    Elsewhere, Environment, Handover, Invocation, Start, StartError, StartErrorCause, Tell,
};

use crate::buffered::BufferedResponse;
use crate::call_watcher::TimeLimit;
use crate::client::Client;
use crate::proxy::Shared;
use crate::record::CallRecord;
use crate::relayed_exec::RelayedExec;
use crate::request::ResponseMode;
use crate::sidecar_lease::{self, Caller};
use crate::streamed::StreamedResponse;
use crate::tool_output::ToolOutput;

/// Runs a tool for a client. An error is what the client is to be told instead; nothing was sent.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    client: &Client,
    request: ExecRequest,
    echo: Option<ExecId>,
    mode: ResponseMode,
) -> Result<(), Refusal> {
    let proto = match mode {
        ResponseMode::Buffered => 1,
        ResponseMode::Streamed => 2,
    };
    let mut record = CallRecord::new(&request, proto);
    let ran = run_recorded(shared, client, &request, echo, mode, &mut record).await;
    if let Err(refusal) = &ran {
        record.refused(refusal);
    }
    shared.config.call_log.record(&record);
    ran
}

async fn run_recorded(
    shared: &Arc<Shared>,
    client: &Client,
    request: &ExecRequest,
    echo: Option<ExecId>,
    mode: ResponseMode,
    record: &mut CallRecord,
) -> Result<(), Refusal> {
    let routes = sidecar_lease::routes(shared, &request.tool)?;
    let registration = shared.registry.register(&request.id).await?;
    let began = std::time::Instant::now();
    let (output, writer) = ToolOutput::new().map_err(pipe_failed)?;
    let tool = request.tool.as_str().as_bytes().to_vec();
    let argv = std::iter::once(tool).chain(request.args.iter().cloned()).collect();
    let start = start_frame(shared, request, Invocation::plain(argv, request.cwd.clone()), None);
    let started = start_in_first(shared, routes, &start, &[writer], Caller::Plain(client)).await?;
    let StartedExec { exec, route } =
        started.ok_or_else(|| shared.config.policy.unavailable(&request.tool))?;
    record.routed(&route.kind, route.reason);
    registration.started(exec.runner().clone());
    log_start(request, record, &route.kind);
    let _entry = shared.config.running_table.insert(record);
    let limit = shared.config.max_runtime;
    let relayed = RelayedExec::new(shared, exec, output, registration, limit, TimeLimit::Escalate);
    let ended = match mode {
        ResponseMode::Streamed => relayed.serve(client, StreamedResponse::new(echo)).await,
        ResponseMode::Buffered => {
            let sink = BufferedResponse::new(
                echo,
                shared.config.transcript,
                &shared.config.spool_dir,
                &route.kind,
            );
            relayed.serve(client, sink).await
        }
    };
    record.ended(&ended);
    let ms = began.elapsed().as_millis();
    tracing::debug!(exec_id = %ended.id, code = ended.exit_code, ms, "exec end");
    Ok(())
}

pub(crate) fn log_start(request: &ExecRequest, record: &CallRecord, kind: &Kind) {
    tracing::debug!(
        tool = %request.tool,
        %kind,
        exec_id = %request.id,
        argv = record.argv,
        cwd = record.cwd,
        "exec"
    );
}

/// What a runner is told of a request.
pub(crate) fn start_frame(
    shared: &Shared,
    request: &ExecRequest,
    invocation: Invocation,
    client: Option<Handover>,
) -> Start {
    let elsewhere = if aifo_policy::asks_only_for_version(&request.args) {
        Elsewhere::AtRoot
    } else {
        Elsewhere::Refuse
    };
    Start {
        // The runner's end gives it its own.
        serial: 0,
        id: request.id.clone(),
        elsewhere,
        program: shared.config.program.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()),
        environment: Environment::All,
        client,
        tell: Tell::Start,
        invocation,
    }
}

/// A tool that has started, and where.
pub(crate) struct StartedExec {
    pub(crate) exec: Exec,
    pub(crate) route: Route,
}

/// Starts the tool in the first of these sidecars that has it; `None` if none has. Those that do not run
/// are started when it is their turn.
pub(crate) async fn start_in_first(
    shared: &Shared,
    routes: Vec<Route>,
    start: &Start,
    fds: &[OwnedFd],
    caller: Caller<'_>,
) -> Result<Option<StartedExec>, Refusal> {
    for route in routes {
        let lease = sidecar_lease::lease(shared, &route.kind, caller).await?;
        if let Some(exec) = start_on(lease, start.clone(), fds).await? {
            return Ok(Some(StartedExec { exec, route }));
        }
    }
    Ok(None)
}

/// Starts a tool on duplicates of `fds`. `None` if the sidecar has no such tool; nothing ran then.
pub(crate) async fn start_on(
    lease: Lease,
    start: Start,
    fds: &[OwnedFd],
) -> Result<Option<Exec>, Refusal> {
    let duplicates: io::Result<Vec<_>> = fds.iter().map(OwnedFd::try_clone).collect();
    let duplicates = duplicates.map_err(|error| Refusal::Internal(error.to_string()))?;
    let mut exec = lease.start(start, duplicates);
    match exec.next().await {
        Some(ExecEvent::Started) => Ok(Some(exec)),
        Some(ExecEvent::NotStarted(error)) if error.cause == StartErrorCause::Absent => Ok(None),
        Some(ExecEvent::NotStarted(error)) => Err(start_refusal(error)),
        // It may have started and ended unseen.
        Some(ExecEvent::ClientLeft | ExecEvent::Ended(_)) | None => Err(lost(&exec)),
    }
}

pub(crate) fn pipe_failed(error: io::Error) -> Refusal {
    Refusal::Internal(format!("cannot make a pipe: {error}"))
}

pub(crate) fn internal_error(error: Arc<SidecarError>) -> Refusal {
    Refusal::Internal(error.to_string())
}

/// The cause of an ending that nobody knows.
pub(crate) fn runner_lost(kind: &Kind) -> String {
    format!("the runner of the {kind} sidecar went away while the tool ran; its ending is unknown")
}

fn lost(exec: &Exec) -> Refusal {
    Refusal::EndingUnknown(runner_lost(exec.runner().kind()))
}

pub(crate) fn start_refusal(StartError { cause, message }: StartError) -> Refusal {
    match cause {
        StartErrorCause::Cwd => Refusal::BadRequest(message),
        StartErrorCause::Absent | StartErrorCause::Failed => Refusal::Internal(message),
        StartErrorCause::NotFound => {
            Refusal::StartFailed { cause: message, exit_code: exit::NOT_FOUND }
        }
        StartErrorCause::NotExecutable => {
            Refusal::StartFailed { cause: message, exit_code: exit::NOT_EXECUTABLE }
        }
    }
}
