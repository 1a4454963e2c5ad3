//! Delivering a signal to a running exec.

use aifo_types::{ExecId, Refusal, Signal};
use aifo_wire::Delivery;

use crate::registry::Registry;

/// Delivers a signal once, and returns when the tool's process group has it. It is carried out
/// even if the client that asked has left.
///
/// Errors: 404 if no such exec runs any more.
pub(crate) async fn deliver(
    registry: &Registry,
    id: &ExecId,
    signal: Signal,
) -> Result<(), Refusal> {
    let running = registry.find(id).ok_or(Refusal::NotFound)?;
    running.record_signal();
    // A caller may be faster than its own exec's start.
    let runner = running.runner().await.ok_or(Refusal::NotFound)?;
    match runner.signal(id, signal).await {
        Ok(Delivery::Delivered) => Ok(()),
        Ok(Delivery::NoSuchExec) | Err(_) => Err(Refusal::NotFound),
    }
}
