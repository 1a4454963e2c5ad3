//! From a request to a running tool, or to the reason why nothing runs.

use std::sync::Arc;

use aifo_policy::Route;
use aifo_sidecar::{ExecChannel, Runner, SidecarError};
use aifo_types::{ExecId, ExecRequest, Kind, Refusal, exit};
use aifo_wire::{Elsewhere, Environment, Frame, Start, StartError, StartErrorCause};

use crate::attendant::TimeLimit;
use crate::buffered::Buffered;
use crate::client::Client;
use crate::proxy::Shared;
use crate::record::CallRecord;
use crate::request::Answer;
use crate::running::{Running, Started};
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
    let routes = shared.config.policy.route(&request.tool, shared.fleet.kinds())?;
    let registration = shared.registry.register(&request.id)?;
    let began = std::time::Instant::now();
    let Begun { runner, started, route } = begin(shared, request, routes).await?;
    record.routed(&route.kind, route.reason);
    registration.started(runner.clone());
    tracing::debug!(
        tool = %request.tool,
        kind = %route.kind,
        exec_id = %request.id,
        argv = record.argv,
        cwd = record.cwd,
        "exec"
    );
    let limit = shared.config.max_runtime;
    let running = Running::new(shared, runner, started, registration, limit, TimeLimit::Ladder);
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

/// A tool that has started, and where.
struct Begun {
    runner: Runner,
    started: Started,
    route: Route,
}

/// Starts the tool in the first of the routed sidecars that has it.
async fn begin(
    shared: &Shared,
    request: &ExecRequest,
    routes: Vec<Route>,
) -> Result<Begun, Refusal> {
    let elsewhere = if aifo_policy::asks_only_for_version(&request.args) {
        Elsewhere::AtRoot
    } else {
        Elsewhere::Refuse
    };
    let tool = request.tool.as_str().as_bytes().to_vec();
    let start = Start {
        id: request.id.clone(),
        argv: std::iter::once(tool).chain(request.args.iter().cloned()).collect(),
        cwd: request.cwd.clone(),
        elsewhere,
        program: None,
        environment: Environment::All,
    };
    for route in routes {
        let runner = shared.fleet.runner(&route.kind).await.map_err(internal)?;
        if let Some(started) = begin_at(&runner, start.clone()).await? {
            return Ok(Begun { runner, started, route });
        }
    }
    Err(shared.config.policy.unavailable(&request.tool))
}

/// Starts a tool. `None` if the sidecar has no such tool; nothing ran then.
pub(crate) async fn begin_at(runner: &Runner, start: Start) -> Result<Option<Started>, Refusal> {
    let no_pipe = |error| Refusal::Internal(format!("cannot make a pipe: {error}"));
    let (output, tools_end) = ToolOutput::new().map_err(no_pipe)?;
    let mut channel = runner.start(start, Some(tools_end)).await.map_err(internal)?;
    loop {
        match channel.frames.next_frame() {
            Ok(Some(Frame::Started { .. })) => return Ok(Some(Started { channel, output })),
            Ok(Some(Frame::StartError(error))) if error.cause == StartErrorCause::Absent => {
                return Ok(None);
            }
            Ok(Some(Frame::StartError(error))) => return Err(start_refusal(error)),
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return Err(lost(runner)),
        }
        let open = ExecChannel::fill(&channel.socket, &mut channel.frames).await;
        if !open.unwrap_or(false) {
            // It may have started and ended unseen.
            runner.report_dead();
            return Err(lost(runner));
        }
    }
}

pub(crate) fn internal(error: SidecarError) -> Refusal {
    Refusal::Internal(error.to_string())
}

/// The cause of an ending that nobody knows.
pub(crate) fn runner_lost(kind: &Kind) -> String {
    format!("the runner of the {kind} sidecar went away while the tool ran; its ending is unknown")
}

fn lost(runner: &Runner) -> Refusal {
    Refusal::EndingUnknown(runner_lost(runner.kind()))
}

fn start_refusal(StartError { cause, message }: StartError) -> Refusal {
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
