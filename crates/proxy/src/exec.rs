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
    ClientHandover, Environment, Invocation, OutsideDirectory, Reports, Start, StartError,
    StartErrorCause,
};

use crate::attendant::TimeLimit;
use crate::buffered::Buffered;
use crate::client::Client;
use crate::proxy::Shared;
use crate::record::CallRecord;
use crate::request::Answer;
use crate::running::Running;
use crate::sidecar::{self, Caller};
use crate::streamed::Streamed;
use crate::tool_output::ToolOutput;

/// Runs a tool for a client. An error is what the client is to be told instead; nothing was sent.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    client: &Client,
    request: ExecRequest,
    echo: Option<ExecId>,
    answer: Answer,
) -> Result<(), Refusal> {
    let proto = match answer {
        Answer::Buffered => 1,
        Answer::Streamed => 2,
    };
    let mut record = CallRecord::new(&request, proto);
    let ran = run_recorded(shared, client, &request, echo, answer, &mut record).await;
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
    answer: Answer,
    record: &mut CallRecord,
) -> Result<(), Refusal> {
    let routes = sidecar::routes(shared, &request.tool)?;
    let registration = shared.registry.register(&request.id).await?;
    let began = std::time::Instant::now();
    let (output, tools_end) = ToolOutput::new().map_err(no_pipe)?;
    let tool = request.tool.as_str().as_bytes().to_vec();
    let argv = std::iter::once(tool).chain(request.args.iter().cloned()).collect();
    let start = start(shared, request, Invocation::plain(argv, request.cwd.clone()), None);
    let begun = begin(shared, routes, &start, &[tools_end], Caller::Plain(client)).await?;
    let Begun { exec, route } =
        begun.ok_or_else(|| shared.config.policy.unavailable(&request.tool))?;
    record.routed(&route.kind, route.reason);
    registration.started(exec.runner().clone());
    tell_start(request, record, &route.kind);
    let _posted = shared.config.board.post(record);
    let limit = shared.config.max_runtime;
    let running = Running::new(shared, exec, output, registration, limit, TimeLimit::Ladder);
    let ended = match answer {
        Answer::Streamed => running.serve(client, Streamed::new(echo)).await,
        Answer::Buffered => {
            let sink = Buffered::new(
                echo,
                shared.config.transcript,
                &shared.config.spool_dir,
                &route.kind,
            );
            running.serve(client, sink).await
        }
    };
    record.ended(&ended);
    let ms = began.elapsed().as_millis();
    tracing::debug!(exec_id = %ended.id, code = ended.exit_code, ms, "exec end");
    Ok(())
}

pub(crate) fn tell_start(request: &ExecRequest, record: &CallRecord, kind: &Kind) {
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
pub(crate) fn start(
    shared: &Shared,
    request: &ExecRequest,
    invocation: Invocation,
    client: Option<ClientHandover>,
) -> Start {
    let outside_directory = if aifo_policy::asks_only_for_version(&request.args) {
        OutsideDirectory::UseRoot
    } else {
        OutsideDirectory::Refuse
    };
    Start {
        // The runner's end gives it its own.
        serial: 0,
        id: request.id.clone(),
        outside_directory,
        program: shared.config.program.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()),
        environment: Environment::All,
        client,
        reports: Reports::StartAndExit,
        invocation,
    }
}

/// A tool that has started, and where.
pub(crate) struct Begun {
    pub(crate) exec: Exec,
    pub(crate) route: Route,
}

/// Starts the tool in the first of these sidecars that has it; `None` if none has. Those that do not run
/// are started when it is their turn.
pub(crate) async fn begin(
    shared: &Shared,
    routes: Vec<Route>,
    start: &Start,
    fds: &[OwnedFd],
    caller: Caller<'_>,
) -> Result<Option<Begun>, Refusal> {
    for route in routes {
        let lease = sidecar::lease(shared, &route.kind, caller).await?;
        if let Some(exec) = begin_at(lease, start.clone(), fds).await? {
            return Ok(Some(Begun { exec, route }));
        }
    }
    Ok(None)
}

/// Starts a tool on duplicates of `fds`. `None` if the sidecar has no such tool; nothing ran then.
pub(crate) async fn begin_at(
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

pub(crate) fn no_pipe(error: io::Error) -> Refusal {
    Refusal::Internal(format!("cannot make a pipe: {error}"))
}

pub(crate) fn internal(error: Arc<SidecarError>) -> Refusal {
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
