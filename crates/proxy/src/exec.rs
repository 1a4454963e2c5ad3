//! One exec from its request to its ending.

use std::sync::Arc;
use std::time::Duration;

use aifo_policy::Route;
use aifo_sidecar::{ExecChannel, Runner, SidecarError};
use aifo_types::{Ending, ExecId, ExecRequest, Refusal, exit};
use aifo_wire::{Attendance, Elsewhere, Environment, Frame, Start, StartError, StartErrorCause};

use crate::attendant::{Attendant, TimeLimit};
use crate::buffered::Buffered;
use crate::client::{Client, Surplus};
use crate::proxy::Shared;
use crate::record::{CallRecord, Ended};
use crate::registry::Registration;
use crate::request::Answer;
use crate::streamed::Streamed;
use crate::tool_output::ToolOutput;

/// A tool that has started.
pub(crate) struct Running {
    runner: Runner,
    channel: ExecChannel,
    output: Option<ToolOutput>,
    attendant: Attendant,
    registration: Registration,
    surplus: Surplus,
    attendance: Attendance,
}

/// Where output goes, and then the ending.
pub(crate) trait Sink {
    /// The tool has started.
    async fn start(&mut self, client: &Client) -> std::io::Result<()>;
    /// It has printed something.
    async fn output(&mut self, client: &Client, data: &[u8]) -> std::io::Result<()>;
    /// It has ended; `None` if nobody knows how.
    async fn end(&mut self, client: &Client, end: End) -> std::io::Result<()>;
}

/// What a client is told at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) ending: Option<Ending>,
    pub(crate) timed_out: bool,
    pub(crate) exit_code: u8,
}

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

/// A running tool's connections: to its runner, and to what it prints.
pub(crate) struct Started {
    channel: ExecChannel,
    output: ToolOutput,
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

impl Running {
    pub(crate) fn new(
        shared: &Shared,
        runner: Runner,
        started: Started,
        registration: Registration,
        limit: Option<Duration>,
        at_limit: TimeLimit,
    ) -> Self {
        let deadline = limit.map(|limit| tokio::time::Instant::now() + limit);
        Running {
            runner,
            channel: started.channel,
            output: Some(started.output),
            attendant: Attendant::new(deadline, at_limit, shared.shutdown.subscribe()),
            registration,
            surplus: Surplus::new(&shared.config.limits),
            attendance: Attendance::Waits,
        }
    }

    /// Says whether the client's leaving is the end of the tool.
    pub(crate) fn attended(self, attendance: Attendance) -> Self {
        Running { attendance, ..self }
    }

    /// Carries output to the client until the tool has ended, then tells the ending. A client that
    /// leaves has its tool ended, and what is still printed is dropped.
    pub(crate) async fn serve(mut self, client: &Client, mut sink: impl Sink) -> Ended {
        let id = self.registration.id().clone();
        let ExecChannel { socket, frames } = &mut self.channel;
        let mut present = self.attendant.attend(socket, sink.start(client)).await.is_ok();
        let mut told_absence = false;
        let watched = self.attendance == Attendance::Waits;
        let mut bytes = 0;
        let mut buffer = Vec::new();
        let exit = loop {
            if !present && !std::mem::replace(&mut told_absence, true) {
                tracing::info!(exec_id = %id, "disconnect");
                self.attendant.disconnect(socket, &self.registration);
            }
            match frames.next_frame() {
                Ok(Some(Frame::Exit(exit))) => break Some(exit),
                // From a runner to which no fd can be passed.
                Ok(Some(Frame::Stdout(data))) => {
                    bytes += data.len() as u64;
                    if present {
                        let sent = sink.output(client, data);
                        present = self.attendant.attend(socket, sent).await.is_ok();
                    }
                    continue;
                }
                Ok(None) => {}
                // What does not belong here is as good as no frame at all.
                Ok(Some(_)) | Err(_) => break None,
            }
            // Most tools print little; one that goes on is read in bulk.
            let room = if bytes == 0 { GLANCE } else { BULK };
            buffer.resize(room, 0);
            let (surplus, output) = (&mut self.surplus, &self.output);
            let next = async {
                tokio::select! {
                    biased;
                    open = ExecChannel::fill(socket, frames) => Next::Frames(open.unwrap_or(false)),
                    count = read_from(output, &mut buffer) => Next::Output(count.unwrap_or(0)),
                    () = client.gone(surplus), if watched && present => Next::ClientGone,
                }
            };
            match self.attendant.attend(socket, next).await {
                Next::Frames(true) => {}
                Next::Frames(false) => break None,
                Next::ClientGone => present = false,
                Next::Output(0) => self.output = None,
                Next::Output(count) => {
                    bytes += count as u64;
                    if present {
                        let sent = sink.output(client, &buffer[..count]);
                        present = self.attendant.attend(socket, sent).await.is_ok();
                    }
                }
            }
        };
        // What the tool wrote stands in the pipe, which holds no more than its capacity. Whatever a
        // child that it left behind writes later belongs to nobody.
        if let Some(output) = self.output.take() {
            let mut owed = output.capacity();
            buffer.resize(BULK, 0);
            while owed > 0 {
                let room = owed.min(buffer.len());
                let Ok(Some(count @ 1..)) = output.try_read(&mut buffer[..room]) else { break };
                owed -= count;
                bytes += count as u64;
                if present {
                    let sent = sink.output(client, &buffer[..count]);
                    present = self.attendant.attend(socket, sent).await.is_ok();
                }
            }
            output.drain_unseen();
        }
        let (ending, usage) = exit.map(|exit| (exit.ending, exit.usage)).unzip();
        let exit_code = self.attendant.exit_code(ending);
        let timed_out = self.attendant.timed_out();
        if ending.is_none() {
            tracing::warn!(exec_id = %id, "runner lost, ending unknown");
            self.runner.report_dead();
        }
        // The id is free before the client can know that the tool has ended.
        drop(self.registration);
        if present {
            let end = End { ending, timed_out, exit_code };
            // If the client leaves now, the tool has ended all the same.
            let _ = sink.end(client, end).await;
        }
        Ended { id, ending, timed_out, exit_code, usage, bytes }
    }
}

/// The first read of a tool's output.
const GLANCE: usize = 4 * 1024;
/// Every further one, and so a chunk of an answer, at most.
const BULK: usize = 128 * 1024;

enum Next {
    /// Whether the runner's end is still open.
    Frames(bool),
    /// So many bytes; 0 when every writer has closed.
    Output(usize),
    ClientGone,
}

async fn read_from(output: &Option<ToolOutput>, buffer: &mut [u8]) -> std::io::Result<usize> {
    match output {
        Some(output) => output.read(buffer).await,
        None => std::future::pending().await,
    }
}

pub(crate) fn internal(error: SidecarError) -> Refusal {
    Refusal::Internal(error.to_string())
}

fn lost(runner: &Runner) -> Refusal {
    Refusal::EndingUnknown(format!(
        "the runner of the {} sidecar went away while the tool ran; its ending is unknown",
        runner.kind()
    ))
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
