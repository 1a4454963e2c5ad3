//! One client connection, from its request to its close.

use std::io;
use std::sync::Arc;

use aifo_types::{ExecId, Refusal};
use aifo_wire::{Limits, encode_no_content, encode_refusal};

use crate::client::Client;
use crate::record::cut;
use crate::request::{ClientCall, RequestFailure, UnreadInput, read_call};
use crate::state::ProxyState;
use crate::{attached, exec, in_place, notify, signal};

/// Reads one request, runs it, and closes the connection. In version 3 the runner may have taken
/// the connection over.
pub(crate) async fn serve(state: Arc<ProxyState>, client: Client) {
    let limits = &state.config.limits;
    let (guard, mut eviction) = state.pending.add();
    let call = {
        let new_id = || aifo_process::random_bits().map(ExecId::from_random);
        let token = &state.config.token;
        tokio::select! {
            biased;
            call = read_call(&client, &guard, &state.memory, token, limits, new_id) => call,
            () = eviction.evicted() => {
                // Others wait for the memory of this connection, so it does not linger.
                Err(RequestFailure::Refused(Refusal::RequestTimeout, UnreadInput::None))
            }
        }
    };
    let (call, memory) = match call {
        Err(RequestFailure::Disconnected) => return,
        Err(RequestFailure::Refused(refusal, UnreadInput::None)) => {
            drop(guard);
            return refuse(client, &refusal, None, limits).await;
        }
        Err(RequestFailure::Refused(refusal, UnreadInput::Some)) => {
            if send_refusal(&client, &refusal, None, limits.max_log_text).await.is_ok() {
                tokio::select! {
                    () = client.linger(limits) => {}
                    () = eviction.evicted() => {}
                }
            }
            return;
        }
        Ok(received) => received,
    };
    drop((guard, eviction));
    let (client, refusal, echo) = match call {
        ClientCall::Exec { request, echo, mode } => {
            match exec::run(&state, &client, request, echo.clone(), mode, memory).await {
                Ok(()) => return client.close(limits).await,
                Err(refusal) => (client, refusal, echo),
            }
        }
        ClientCall::Attach { request, echo, upgrade } => {
            let parked = client.park();
            match attached::run(&state, &parked, request, echo.as_ref(), upgrade, memory).await {
                Ok(()) => return,
                Err(refusal) => (parked.unpark(), refusal, echo),
            }
        }
        ClientCall::Judge { request, echo } => {
            let judged = in_place::judge(&state, &client, request, echo.as_ref(), memory).await;
            match judged {
                Ok(run) => {
                    client.close(limits).await;
                    return run.record_end(&state).await;
                }
                Err(refusal) => (client, refusal, echo),
            }
        }
        ClientCall::Notify { id, command, args, mode } => {
            match notify::run(&state, &client, id, &command, &args, mode, memory).await {
                Ok(()) => return client.close(limits).await,
                Err(refusal) => (client, refusal, None),
            }
        }
        ClientCall::Signal { id, signal } => {
            match signal::deliver(&state.registry, &id, signal).await {
                Ok(()) => {
                    let mut response = Vec::new();
                    encode_no_content(&mut response);
                    // The signal is delivered, even if the client has disconnected.
                    let _ = client.socket.send_all(&response).await;
                    return client.close(limits).await;
                }
                Err(refusal) => (client, refusal, None),
            }
        }
    };
    refuse(client, &refusal, echo.as_ref(), limits).await;
}

/// Sends the refusal of a completely read request, and closes the connection.
async fn refuse(client: Client, refusal: &Refusal, echo: Option<&ExecId>, limits: &Limits) {
    if send_refusal(&client, refusal, echo, limits.max_log_text).await.is_ok() {
        client.close(limits).await;
    }
}

async fn send_refusal(
    client: &Client,
    refusal: &Refusal,
    echo: Option<&ExecId>,
    max_text: usize,
) -> io::Result<()> {
    let reason = cut(refusal.body().trim_end(), max_text);
    tracing::debug!(status = refusal.status().0, reason, "refused");
    let mut response = Vec::new();
    encode_refusal(&mut response, refusal, echo);
    client.socket.send_all(&response).await
}
