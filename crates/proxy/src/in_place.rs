//! Calls that their clients run themselves once they are judged (`spec/exec3.md#in-place`).

use aifo_policy::{RouteReason, Verdict, with_variables};
use aifo_types::{CallEnding, ExecId, ExecRequest, Kind, Refusal, ToolName};
use aifo_wire::{encode_run_in_place, encode_run_without_network};

use crate::approval::{CallApprovals, RunsIn, approve_in_place};
use crate::budget::Share;
use crate::client::Client;
use crate::record::CallRecord;
use crate::state::ProxyState;

/// Judges a call, waits for its approval, and lets the client run it. On an error nothing was sent but
/// interim responses, and the caller sends the refusal.
pub(crate) async fn judge(
    state: &ProxyState,
    client: &Client,
    mut request: ExecRequest,
    echo: Option<&ExecId>,
    memory: Share,
) -> Result<(), Refusal> {
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
    match &judged {
        Ok(()) => {
            let mut response = Vec::new();
            match record.no_network {
                None => encode_run_in_place(&mut response, directory, echo),
                Some(_) => encode_run_without_network(&mut response, directory, echo),
            }
            // A client that has left runs nothing.
            if client.socket.send_all(&response).await.is_ok() {
                record.status = 204;
                record.routed(&Kind::agent(), RouteReason::InPlace);
                record.ending = CallEnding::InPlace;
            }
        }
        Err(refusal) => record.refused(refusal),
    }
    state.config.call_log.record(&record);
    judged
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
