//! Serves a stack whose runner relays connections (`spec/runner.md#connections-of-a-stack`).

use std::net::SocketAddr;
use std::sync::Arc;

use aifo_egress::RelayedConnection;
use aifo_sidecar::{RelayedStack, StackConnection, StackEvent};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::host_ports::relay;

/// Serves a stack until its runner is lost, or the future is dropped, which ends every connection.
pub(crate) async fn serve_relayed(
    mut stack: RelayedStack,
    gateway: aifo_egress::RelayedStack,
    host_ports: Vec<u16>,
) {
    let host_ports = Arc::new(host_ports);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            event = stack.next() => match event {
                Some(StackEvent::Query { peer, data }) => {
                    if let Some(response) = gateway.answer(&data, peer.into()) {
                        stack.answer(peer, &response);
                    }
                }
                Some(StackEvent::Connected(connection)) => {
                    let (gateway, host_ports) = (gateway.clone(), Arc::clone(&host_ports));
                    connections.spawn(async move { serve(connection, gateway, &host_ports).await });
                }
                None => return,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(
    connection: StackConnection,
    gateway: aifo_egress::RelayedStack,
    host_ports: &[u16],
) {
    let StackConnection { socket, dialled, peer, reset } = connection;
    let (dialled, peer) = (SocketAddr::V4(dialled), SocketAddr::V4(peer));
    if host_ports.contains(&dialled.port()) {
        let socket = std::os::unix::net::UnixStream::from(socket);
        if let Ok(client) = UnixStream::from_std(socket) {
            relay(client, dialled).await;
        }
        return;
    }
    gateway.serve(RelayedConnection { socket, dialled, peer, reset }).await;
}
