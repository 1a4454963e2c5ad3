//! Relays ports of a stack's localhost to this machine's (`spec/network.md#host-ports`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Connections of a port at once. Further ones wait in the listener's queue.
const MAX_CONNECTIONS: usize = 1024;

/// Pause after a failed accept, as when the descriptor table is full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Relays a stack's listeners until the future is dropped, which ends every connection.
pub(crate) async fn relay_all(listeners: Vec<std::net::TcpListener>) {
    let mut tasks = JoinSet::new();
    for listener in listeners {
        // The sidecar has checked that it listens and does not block.
        match TcpListener::from_std(listener) {
            Ok(listener) => drop(tasks.spawn(relay_port(listener))),
            Err(error) => tracing::error!("cannot use the listener of a host port: {error}"),
        }
    }
    while tasks.join_next().await.is_some() {}
}

async fn relay_port(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((client, _)) => {
                    // The client may be gone.
                    let Ok(dialled) = client.local_addr() else { continue };
                    let _ = client.set_nodelay(true);
                    connections.spawn(relay(client, dialled));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Relays one connection to the port that the client dialled. Its failure is the client's: the connection
/// closes.
pub(crate) async fn relay(mut client: impl AsyncRead + AsyncWrite + Unpin, dialled: SocketAddr) {
    // The listener has all addresses; those of names are not this machine.
    if dialled.ip() != IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return;
    }
    let Ok(mut host) = TcpStream::connect((Ipv4Addr::LOCALHOST, dialled.port())).await else {
        return;
    };
    let _ = host.set_nodelay(true);
    let _ = copy_bidirectional(&mut client, &mut host).await;
}
