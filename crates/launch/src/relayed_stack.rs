//! Serves a stack whose runner relays connections (`spec/runner.md#connections-of-a-stack`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aifo_egress::RelayedConnection;
use aifo_sidecar::{RelayedStack, StackConnection, StackEvent};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::port_relay::dial_host;

/// Serves a stack until its runner is lost, or the future is dropped, which ends every connection.
pub(crate) async fn serve_relayed(
    mut stack: RelayedStack,
    gateway: aifo_egress::RelayedStack,
    host_ports: Vec<u16>,
) {
    let host_ports: Arc<[u16]> = host_ports.into();
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
    if !host_ports.contains(&dialled.port()) {
        return gateway.serve(RelayedConnection { socket, dialled, peer, reset }).await;
    }
    // The listener has all addresses; those of names are not this machine.
    if dialled.ip() != IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return;
    }
    match (dial_host(dialled.port()).await, client(socket)) {
        (Some(server), Ok(client)) => {
            let _ = server.stream.set_nodelay(true);
            aifo_egress::relay(client, server.stream).await;
        }
        _ => reset.store(true, Ordering::Relaxed),
    }
}

/// Registers a stream socket of another family than TCP, which reads, writes and shuts down alike.
fn client(socket: OwnedFd) -> io::Result<TcpStream> {
    TcpStream::from_std(std::net::TcpStream::from(socket))
}
