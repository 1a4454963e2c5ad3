//! Protocol version 3: the tool runs on the client descriptors (`spec/exec3.md`).
//!
//! The proxy checks the call and its descriptors, then passes the client connection to the runner.
//! From then on it watches the deadline, the session's end and the runner's events for the log. The
//! tool's bytes bypass the proxy.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use aifo_policy::{AskedCall, Route};
use aifo_sidecar::{Exec, ExecEvent};
use aifo_types::{ExecId, ExecRequest, Refusal, Stdio, ToolName};
use aifo_wire::{ClientHandover, Exit, Reports, Start, StartErrorCause, encode_upgrade_head};

use crate::approval::{RunsIn, approve_attached};
use crate::budget::Share;
use crate::call_watcher::{CallWatcher, TimeLimit};
use crate::client::ParkedClient;
use crate::fd_passing::{FdDecision, decide_fd};
use crate::record::{CallRecord, CallResult};
use crate::registry::Registration;
use crate::request::Upgrade;
use crate::sidecar_lease::{self, Caller};
use crate::start::{NoImages, StartedExec, log_start, start_frame, start_in_first};
use crate::state::ProxyState;
use crate::tool_start::start_refusal;

/// Runs a tool on the client connection. On an error nothing was sent, and the caller sends the
/// refusal.
pub(crate) async fn run(
    state: &ProxyState,
    client: &ParkedClient,
    request: ExecRequest,
    echo: Option<&ExecId>,
    upgrade: Upgrade,
    memory: Share,
) -> Result<(), Refusal> {
    let mut record = CallRecord::new(&request, 3, &state.config.limits);
    record.status = 101;
    let ran = run_recorded(state, client, request, echo, (upgrade, memory), &mut record).await;
    if let Err(refusal) = &ran {
        record.refused(refusal);
    }
    state.config.call_log.record(&record);
    match ran {
        // The runner may have sent `101`, so no refusal can follow.
        Err(Refusal::EndingUnknown(_)) => Ok(()),
        ran => ran,
    }
}

async fn run_recorded(
    state: &ProxyState,
    client: &ParkedClient,
    mut request: ExecRequest,
    echo: Option<&ExecId>,
    (upgrade, memory): (Upgrade, Share),
    record: &mut CallRecord,
) -> Result<(), Refusal> {
    let Upgrade { fds, mut received } = upgrade;
    check_program(state, &request)?;
    let unapproved = state.config.approvals.judge_request(&mut request, RunsIn::Sidecar)?;
    let mut routes = sidecar_lease::routes(state, &request.tool)?;
    let registration = state.registry.register(&request.id).await?;
    let inherited = &mut request.inherited;
    let variables = inherited.environment.iter().map(Vec::as_slice);
    let workspace = state.config.shared_directories.workspace();
    inherited.environment = state.config.forwarding.filter(variables, workspace);
    let mut asked = None;
    if let Some(unapproved) = unapproved {
        let shutdown = state.shutdown.subscribe();
        let frames = (&mut received, inherited.ignored);
        let approvals = &state.config.approvals;
        let approved =
            approve_attached(approvals, unapproved, client, frames, &registration, shutdown);
        asked = Some(approved.await?);
        // Sidecars may have started or stopped.
        routes = sidecar_lease::routes(state, &request.tool)?;
    }
    let inherited = &mut request.inherited;
    let connection = client.fd.try_clone();
    let connection = connection.map_err(|error| Refusal::Internal(error.to_string()))?;
    let mut descriptors = vec![connection];
    descriptors.extend(admit(state, &mut inherited.stdio, fds));
    let mut response_head = Vec::new();
    encode_upgrade_head(&mut response_head, echo);
    let tool = request.tool.clone();
    let client_handover = ClientHandover { response_head, received, ..ClientHandover::default() };
    record.judged(&request);
    let start = start_frame(state, request, Some(client_handover));
    let began = Instant::now();
    let caller = Caller::Attached(client);
    state.config.call_log.starts(record).await;
    let started =
        start_attached(state, (routes, asked.as_ref()), start, descriptors, caller).await?;
    let StartedExec { exec, route, before } = started;
    record.routed(&route.kind, route.reason);
    registration.started(exec.runner().clone());
    log_start(record, &route.kind);
    let _entry = state.config.running_table.insert(record);
    let ended = watch(state, (&tool, before), (exec, memory), &registration).await?;
    let ms = began.elapsed().as_millis();
    tracing::debug!(exec_id = %ended.id, code = ended.exit_code, ms, "exec end");
    record.ended(&ended);
    Ok(())
}

/// Checks the path of a program (`spec/exec3.md#programs-by-path`). An interpreter runs any code of the
/// workspace, so a file of the workspace in its place does not extend the allowlist.
fn check_program(state: &ProxyState, request: &ExecRequest) -> Result<(), Refusal> {
    let Some(program) = &request.program else { return Ok(()) };
    let path = Path::new(OsStr::from_bytes(program));
    if !state.config.shared_directories.name(path) {
        let why = "is outside the workspace and the session's temporary directory";
        return Err(Refusal::BadRequest(format!("program '{}' {why}", path.display())));
    }
    if !state.config.policy.is_interpreter(&request.tool) {
        return Err(Refusal::ProgramNotAllowed { program: path.display().to_string() });
    }
    Ok(())
}

/// Returns the descriptors that may pass. Replaces the types of the others.
fn admit(state: &ProxyState, stdio: &mut [Stdio; 3], fds: Vec<OwnedFd>) -> Vec<OwnedFd> {
    let mut fds = fds.into_iter();
    let mut admitted = Vec::new();
    for stdio in stdio.iter_mut().filter(|stdio| **stdio == Stdio::Passed) {
        let Some(fd) = fds.next() else { break };
        match decide_fd(fd.as_fd(), &state.config.shared_directories) {
            FdDecision::Pass => admitted.push(fd),
            FdDecision::Null => *stdio = Stdio::Null,
            FdDecision::Relay => *stdio = Stdio::Relayed,
        }
    }
    admitted
}

/// Starts the tool in the first of the routed sidecars that has it. The last one gets the descriptors
/// themselves, not duplicates, and its response is an event for [`watch`]: fewer wake-ups, and the
/// proxy holds no descriptor while the tool runs.
async fn start_attached(
    state: &ProxyState,
    (mut routes, asked): (Vec<Route>, Option<&AskedCall>),
    mut start: Start,
    descriptors: Vec<OwnedFd>,
    caller: Caller<'_>,
) -> Result<StartedExec, Refusal> {
    let Some(route) = routes.pop() else {
        return Err(state.unavailable(&start.request.tool));
    };
    let mut before =
        match start_in_first(state, (routes, asked), &start, &descriptors, caller).await? {
            Ok(started) => return Ok(started),
            Err(before) => before,
        };
    let tool = &start.request.tool;
    let leased = sidecar_lease::lease(state, (tool, &route.kind), caller).await;
    let Some(lease) = before.or_lease(leased)? else { return Err(before.refusal(state, tool)) };
    state.config.approvals.check(asked)?;
    start.reports = Reports::ExitOnly;
    Ok(StartedExec { exec: lease.start(start, descriptors), route, before })
}

/// Watches until the tool has ended. An error means that no tool was started.
async fn watch(
    state: &ProxyState,
    (tool, before): (&ToolName, NoImages),
    (mut exec, memory): (Exec, Share),
    registration: &Registration,
) -> Result<CallResult, Refusal> {
    let deadline = state.config.max_runtime.map(|limit| tokio::time::Instant::now() + limit);
    let shutdown = state.shutdown.subscribe();
    let mut watcher = CallWatcher::new(exec.canceller(), deadline, TimeLimit::Escalate, shutdown);
    // The memory counts until the runner connection is writable again, so that it has read the
    // request, or most of it.
    watcher.watch(exec.runner().writable()).await;
    drop(memory);
    let exit: Option<Exit> = loop {
        match watcher.watch(exec.next()).await {
            Some(ExecEvent::Ended(exit)) => break Some(exit),
            Some(ExecEvent::ClientLeft) => {
                tracing::info!(exec_id = %registration.id(), "disconnect");
            }
            Some(ExecEvent::NotStarted(error)) if error.cause == StartErrorCause::Absent => {
                return Err(before.refusal(state, tool));
            }
            Some(ExecEvent::NotStarted(error)) => return Err(start_refusal(error)),
            // An unexpected event is treated as a lost runner.
            Some(ExecEvent::Started) | None => break None,
        }
    };
    let id = registration.id().clone();
    // If the runner was lost, it may have sent `101`. Then the connection ends without an `Exit`, and
    // the client reports an unknown ending.
    let exit_code = watcher.exit_code(exit.map(|exit| exit.ending));
    Ok(CallResult::new(id, exit, exit_code))
}
