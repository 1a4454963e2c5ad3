//! Leases a call sidecar, and starts it first if it does not run (`spec/toolexec.md#on-demand`).

use std::convert::Infallible;
use std::future::{Future, pending};
use std::time::Duration;

use aifo_policy::{Route, running_first};
use aifo_sidecar::{Lease, SidecarError, Socket};
use aifo_types::{Kind, Refusal, ToolName};
use aifo_wire::encode_progress;
use tokio::time::sleep;

use crate::client::{Client, ParkedClient, SurplusBudget};
use crate::state::ProxyState;

#[derive(Clone, Copy)]
pub(crate) enum Caller<'a> {
    /// A client of version 1 or 2, which gets no interim response.
    Plain(&'a Client),
    /// A client of version 3, which gets an interim response during a slow start.
    Attached(&'a ParkedClient),
}

/// The interim response is sent after this time.
const PROGRESS_DELAY: Duration = Duration::from_millis(300);

/// Returns the sidecars that may run `tool`, in the order to try: those that wait for a call come last, so that
/// none is started for a tool that another one has.
pub(crate) fn routes(state: &ProxyState, tool: &ToolName) -> Result<Vec<Route>, Refusal> {
    let fleet = &state.fleet;
    let mut routes = state.config.policy.route(tool, fleet.offered())?;
    if routes.len() > 1 {
        let running = fleet.running();
        let running = running.borrow();
        let waits = |kind: &Kind| fleet.on_demand().contains(kind) && !running.contains(kind);
        running_first(&mut routes, |kind| !waits(kind));
    }
    Ok(routes)
}

/// Leases a sidecar for a call, and starts it first if it does not run. The wait ends when the caller
/// disconnects and when the session ends; the start continues for the next call.
pub(crate) async fn lease(
    state: &ProxyState,
    (tool, kind): (&ToolName, &Kind),
    caller: Caller<'_>,
) -> Result<Lease, Refusal> {
    if let Some(lease) = state.fleet.ready(kind) {
        return Ok(lease);
    }
    match caller {
        Caller::Plain(client) => {
            let mut surplus = SurplusBudget::new(&state.config.limits);
            wait(state, (tool, kind), client.disconnected(&mut surplus), pending()).await
        }
        Caller::Attached(parked) => {
            let connection = parked.fd.try_clone().map(Socket::new);
            let connection = connection.map_err(|error| Refusal::Internal(error.to_string()))?;
            let left = async { drop(connection.ended().await) };
            wait(state, (tool, kind), left, send_progress(&connection, kind)).await
        }
    }
}

async fn wait(
    state: &ProxyState,
    (tool, kind): (&ToolName, &Kind),
    left: impl Future<Output = ()>,
    progress: impl Future<Output = Infallible>,
) -> Result<Lease, Refusal> {
    tracing::debug!(%kind, "a call waits for its sidecar");
    let mut shutdown = state.shutdown.subscribe();
    let aborted = |why: &str| Refusal::Internal(format!("{why} before the {kind} sidecar was up"));
    tokio::select! {
        biased;
        started = state.fleet.lease(kind) => started.map_err(|error| start_failed(tool, &error)),
        () = left => Err(aborted("the caller left")),
        // An error means that the proxy was dropped, which ends the session too.
        _ = shutdown.wait_for(|shutdown| *shutdown) => Err(aborted("the session ended")),
        never = progress => match never {},
    }
}

/// Sends a version 3 caller one interim response with the reason of the wait.
async fn send_progress(connection: &Socket, kind: &Kind) -> Infallible {
    sleep(PROGRESS_DELAY).await;
    let mut interim = Vec::new();
    encode_progress(&mut interim, &format!("starting the {kind} sidecar"));
    // The first bytes on this connection, so there is room; fails only after a disconnect.
    let _ = connection.try_send(&interim);
    pending().await
}

fn start_failed(tool: &ToolName, error: &SidecarError) -> Refusal {
    let cause = error.to_string();
    if let SidecarError::NoImage { .. } = error {
        return Refusal::NoImage { tool: tool.clone(), cause };
    }
    Refusal::Internal(match cause.contains("\nhint: ") {
        true => cause,
        false => format!("{cause}\nhint: the next call tries again"),
    })
}
