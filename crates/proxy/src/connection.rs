//! One client connection, from its request to its close.

use std::sync::Arc;

use aifo_types::{ExecId, Refusal};
use aifo_wire::{encode_no_content, encode_refusal};

use crate::client::Client;
use crate::request::{ClientCall, RequestFailure, UnreadInput, read_call};
use crate::state::ProxyState;
use crate::{attached, exec, notify, signal};

/// Reads one request, runs it, and closes the connection. In version 3 the runner may have taken
/// the connection over.
pub(crate) async fn serve(state: Arc<ProxyState>, client: Client) {
    let limits = &state.config.limits;
    let call = {
        let mut guard = state.pending.add();
        let new_id = || aifo_process::random_bits().map(ExecId::from_random);
        tokio::select! {
            biased;
            call = read_call(&client, &state.config.token, limits, new_id) => call,
            () = guard.evicted() => {
                Err(RequestFailure::Refused(Refusal::RequestTimeout, UnreadInput::Some))
            }
        }
    };
    let (client, refusal, echo, unread) = match call {
        Err(RequestFailure::Disconnected) => return,
        Err(RequestFailure::Refused(refusal, unread)) => (client, refusal, None, unread),
        Ok(ClientCall::Exec { request, echo, mode }) => {
            match exec::run(&state, &client, request, echo.clone(), mode).await {
                Ok(()) => return client.close(limits).await,
                Err(refusal) => (client, refusal, echo, UnreadInput::None),
            }
        }
        Ok(ClientCall::Attach { request, echo, upgrade }) => {
            let parked = client.park();
            match attached::run(&state, &parked, request, echo.as_ref(), upgrade).await {
                Ok(()) => return,
                Err(refusal) => match parked.unpark() {
                    Ok(client) => (client, refusal, echo, UnreadInput::None),
                    Err(_) => return,
                },
            }
        }
        Ok(ClientCall::Notify { id, command, args, mode }) => {
            match notify::run(&state, &client, id, &command, &args, mode).await {
                Ok(()) => return client.close(limits).await,
                Err(refusal) => (client, refusal, None, UnreadInput::None),
            }
        }
        Ok(ClientCall::Signal { id, signal }) => {
            match signal::deliver(&state.registry, &id, signal).await {
                Ok(()) => {
                    let mut response = Vec::new();
                    encode_no_content(&mut response);
                    // The signal is delivered, even if the client has disconnected.
                    let _ = client.socket.send_all(&response).await;
                    return client.close(limits).await;
                }
                Err(refusal) => (client, refusal, None, UnreadInput::None),
            }
        }
    };
    tracing::debug!(status = refusal.status().0, reason = refusal.body().trim_end(), "refused");
    let mut response = Vec::new();
    encode_refusal(&mut response, &refusal, echo.as_ref());
    if client.socket.send_all(&response).await.is_err() {
        return;
    }
    match unread {
        UnreadInput::None => client.close(limits).await,
        UnreadInput::Some => client.linger(limits).await,
    }
}
