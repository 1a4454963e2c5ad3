//! Version 3: the tool on what its caller has (`spec/exec3.md`).
//!
//! The proxy judges the call and its descriptors, then hands the client's own connection to the
//! runner. From then on it only watches: the clock, the end of the session, and what the runner tells
//! for the log. No byte of the tool's comes this way.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use aifo_policy::Route;
use aifo_sidecar::{Exec, ExecEvent};
use aifo_types::{ExecId, ExecRequest, Refusal};
use aifo_wire::{
    CancelCause, ClientHandover, Exit, Invocation, Reports, Start, StartErrorCause, Stdio,
    encode_upgrade_head,
};

use crate::attendant::{Attendant, TimeLimit};
use crate::client::Parked;
use crate::exec::{Begun, begin, start, start_refusal, tell_start};
use crate::passing::{Passing, judge};
use crate::proxy::Shared;
use crate::record::{CallRecord, Ended};
use crate::registry::Registration;
use crate::request::Upgrade;
use crate::sidecar::{self, Caller};

/// Runs a tool on the client's connection. An error is what the client is to be told instead; nothing
/// was sent.
pub(crate) async fn run(
    shared: &Shared,
    client: &Parked,
    request: &ExecRequest,
    echo: Option<&ExecId>,
    upgrade: Upgrade,
) -> Result<(), Refusal> {
    let mut record = CallRecord::new(request, 3);
    record.status = 101;
    let ran = run_recorded(shared, client, request, echo, upgrade, &mut record).await;
    if let Err(refusal) = &ran {
        record.refused(refusal);
    }
    shared.config.call_log.record(&record);
    match ran {
        // The client may have been told that the tool runs, so it is told nothing more.
        Err(Refusal::EndingUnknown(_)) => Ok(()),
        ran => ran,
    }
}

async fn run_recorded(
    shared: &Shared,
    client: &Parked,
    request: &ExecRequest,
    echo: Option<&ExecId>,
    upgrade: Upgrade,
    record: &mut CallRecord,
) -> Result<(), Refusal> {
    let Upgrade { mut invocation, fds, received } = upgrade;
    let routes = sidecar::routes(shared, &request.tool)?;
    let registration = shared.registry.register(&request.id).await?;
    let variables = invocation.environment.iter().map(Vec::as_slice);
    let workspace = shared.config.places.workspace();
    invocation.environment = shared.config.forwarding.filter(variables, workspace);
    let connection = client.fd.try_clone();
    let connection = connection.map_err(|error| Refusal::Internal(error.to_string()))?;
    let mut handed = vec![connection];
    handed.extend(admit(shared, &mut invocation, fds));
    let mut greeting = Vec::new();
    encode_upgrade_head(&mut greeting, echo);
    let start = start(
        shared,
        request,
        invocation,
        Some(ClientHandover { response_head: greeting, received }),
    );
    let began = Instant::now();
    let caller = Caller::Attached(client);
    let begun = begin_attached(shared, request, routes, start, handed, caller).await?;
    let Begun { exec, route } = begun;
    record.routed(&route.kind, route.reason);
    registration.started(exec.runner().clone());
    tell_start(request, record, &route.kind);
    let _posted = shared.config.board.post(record);
    let ended = watch(shared, request, exec, &registration).await?;
    let ms = began.elapsed().as_millis();
    tracing::debug!(exec_id = %ended.id, code = ended.exit_code, ms, "exec end");
    record.ended(&ended);
    Ok(())
}

/// Keeps the descriptors that may pass; what stands for the others is changed in the invocation.
fn admit(shared: &Shared, invocation: &mut Invocation, fds: Vec<OwnedFd>) -> Vec<OwnedFd> {
    let mut fds = fds.into_iter();
    let mut admitted = Vec::new();
    for stdio in invocation.stdio.iter_mut().filter(|stdio| **stdio == Stdio::Passed) {
        let Some(fd) = fds.next() else { break };
        match judge(fd.as_fd(), &shared.config.places) {
            Passing::Passes => admitted.push(fd),
            Passing::Null => *stdio = Stdio::Null,
            Passing::Relayed => *stdio = Stdio::Relayed,
        }
    }
    admitted
}

/// Asks the first of the routed sidecars that has the tool. The last is not waited for: whether it has
/// it comes as an event, and until then nobody need be woken. It also gets the descriptors themselves,
/// so that none is held here while the tool runs.
async fn begin_attached(
    shared: &Shared,
    request: &ExecRequest,
    mut routes: Vec<Route>,
    mut start: Start,
    handed: Vec<OwnedFd>,
    caller: Caller<'_>,
) -> Result<Begun, Refusal> {
    let Some(route) = routes.pop() else {
        return Err(shared.config.policy.unavailable(&request.tool));
    };
    if let Some(begun) = begin(shared, routes, &start, &handed, caller).await? {
        return Ok(begun);
    }
    let lease = sidecar::lease(shared, &route.kind, caller).await?;
    start.reports = Reports::ExitOnly;
    Ok(Begun { exec: lease.start(start, handed), route })
}

/// Watches until the tool has ended. An error means that nothing ran.
async fn watch(
    shared: &Shared,
    request: &ExecRequest,
    mut exec: Exec,
    registration: &Registration,
) -> Result<Ended, Refusal> {
    let deadline = shared.config.max_runtime.map(|limit| tokio::time::Instant::now() + limit);
    let shutdown = shared.shutdown.subscribe();
    let mut attendant = Attendant::new(exec.canceller(), deadline, TimeLimit::Ladder, shutdown);
    let exit: Option<Exit> = loop {
        match attendant.attend(exec.next()).await {
            Some(ExecEvent::Ended(exit)) => break Some(exit),
            Some(ExecEvent::ClientLeft) => {
                tracing::info!(exec_id = %registration.id(), "disconnect");
            }
            Some(ExecEvent::NotStarted(error)) if error.cause == StartErrorCause::Absent => {
                return Err(shared.config.policy.unavailable(&request.tool));
            }
            Some(ExecEvent::NotStarted(error)) => return Err(start_refusal(error)),
            // What does not belong here is as good as no event at all.
            Some(ExecEvent::Started) | None => break None,
        }
    };
    let id = registration.id().clone();
    if exit.is_none() {
        // The client may have been told that the tool runs, so it is told nothing more: that its
        // connection ends says that the ending is unknown.
        tracing::warn!(exec_id = %id, "runner lost, ending unknown");
    }
    let (ending, usage) = exit.map(|exit| (exit.ending, exit.usage)).unzip();
    Ok(Ended {
        id,
        ending,
        limit: exit.and_then(|exit| exit.limit),
        timed_out: exit.is_some_and(|exit| exit.cancelled == Some(CancelCause::Timeout)),
        exit_code: attendant.exit_code(ending),
        usage,
        bytes: 0,
    })
}
