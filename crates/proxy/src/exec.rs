//! Protocol versions 1 and 2: a tool whose output passes through the proxy.

use std::sync::Arc;

use aifo_types::{ExecId, ExecRequest, Refusal};

use crate::approval::{RunsIn, approve_plain};
use crate::budget::Share;
use crate::buffered::BufferedResponse;
use crate::call_watcher::TimeLimit;
use crate::client::Client;
use crate::record::CallRecord;
use crate::refusals::pipe_failed;
use crate::relayed_exec::RelayedExec;
use crate::request::ResponseMode;
use crate::sidecar_lease::{self, Caller};
use crate::start::{StartedExec, log_start, start_frame, start_in_first};
use crate::state::ProxyState;
use crate::streamed::StreamedResponse;
use crate::tool_output::ToolOutput;

/// Runs a tool for a client. On an error nothing was sent, and the caller sends the refusal.
pub(crate) async fn run(
    state: &Arc<ProxyState>,
    client: &Client,
    request: ExecRequest,
    echo: Option<ExecId>,
    mode: ResponseMode,
    memory: Share,
) -> Result<(), Refusal> {
    let proto = match mode {
        ResponseMode::Buffered => 1,
        ResponseMode::Streamed => 2,
    };
    let mut record = CallRecord::new(&request, proto, &state.config.limits);
    let ran = run_recorded(state, client, request, echo, (mode, memory), &mut record).await;
    if let Err(refusal) = &ran {
        record.refused(refusal);
    }
    state.config.call_log.record(&record);
    ran
}

async fn run_recorded(
    state: &Arc<ProxyState>,
    client: &Client,
    mut request: ExecRequest,
    echo: Option<ExecId>,
    (mode, memory): (ResponseMode, Share),
    record: &mut CallRecord,
) -> Result<(), Refusal> {
    let approvals = &state.config.approvals;
    let unapproved = approvals.judge_request(&mut request, RunsIn::Sidecar)?;
    let mut routes = sidecar_lease::routes(state, &request.tool)?;
    let registration = state.registry.register(&request.id).await?;
    let mut asked = None;
    if let Some(unapproved) = unapproved {
        let shutdown = state.shutdown.subscribe();
        let approved = approve_plain(approvals, unapproved, client, &registration, shutdown);
        asked = Some(approved.await?);
        // Sidecars may have started or stopped.
        routes = sidecar_lease::routes(state, &request.tool)?;
    }
    record.judged(&request);
    let began = std::time::Instant::now();
    let (output, writer) = ToolOutput::new().map_err(pipe_failed)?;
    let start = start_frame(state, request, None);
    let (routes, caller) = ((routes, asked.as_ref()), Caller::Plain(client));
    state.config.call_log.starts(record).await;
    let started = start_in_first(state, routes, &start, &[writer], caller).await?;
    let StartedExec { exec, route, .. } =
        started.map_err(|none| none.refusal(state, &start.request.tool))?;
    // The arguments are of no use while the tool runs.
    drop((start, memory));
    record.routed(&route.kind, route.reason);
    registration.started(exec.runner().clone());
    log_start(record, &route.kind);
    let _entry = state.config.running_table.insert(record);
    client.enlarge_send_buffer();
    let limit = state.config.max_runtime;
    let relayed = RelayedExec::new(state, exec, output, registration, limit, TimeLimit::Escalate);
    let ended = match mode {
        ResponseMode::Streamed => relayed.serve(client, StreamedResponse::new(echo)).await,
        ResponseMode::Buffered => {
            let transcript = state.config.transcript;
            let sink = BufferedResponse::new(state, echo, transcript, &route.kind);
            relayed.serve(client, sink).await
        }
    };
    record.ended(&ended);
    let ms = began.elapsed().as_millis();
    tracing::debug!(exec_id = %ended.id, code = ended.exit_code, ms, "exec end");
    Ok(())
}
