//! Delivers signals to running execs.

use aifo_types::{ExecId, Refusal, Signal};
use aifo_wire::Delivery;

use crate::approval::ends_unstarted_tool;
use crate::registry::Registry;

/// Delivers a signal once, and returns when it was sent to the tool's process group. A disconnect of
/// the client does not cancel it.
///
/// Errors: 404 if no such exec runs.
pub(crate) async fn deliver(
    registry: &Registry,
    id: &ExecId,
    signal: Signal,
) -> Result<(), Refusal> {
    let running = registry.find(id).ok_or(Refusal::NotFound)?;
    running.record_signal();
    if ends_unstarted_tool(signal.number()) && running.signal_unstarted(signal.number()) {
        return Ok(());
    }
    // The request may precede the start of the exec.
    let runner = running.runner().await.ok_or(Refusal::NotFound)?;
    match runner.signal(id, signal).await {
        Ok(Delivery::Delivered) => Ok(()),
        Ok(Delivery::NoSuchExec) | Err(_) => Err(Refusal::NotFound),
    }
}
