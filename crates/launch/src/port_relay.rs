//! Relays the connections of a listener to another network stack or this machine (`spec/network.md#mirrors`).

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Connections at once; further ones wait in the listener's queue.
pub(crate) const MAX_CONNECTIONS: usize = 1024;

/// Pause after a failed accept, as when the descriptor table is full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The connections of a network stack, or of this machine's published ports. They end with their
/// [`ConnectionsGuard`]. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    /// Closed when they must end.
    open: watch::Receiver<()>,
}

/// Ends the connections when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionsGuard(
    #[allow(dead_code, reason = "closed on drop")] watch::Sender<()>,
);

/// The addresses at which a listener takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialledAddress {
    /// Those that it is bound to.
    Any,
    /// 127.0.0.1. A listener of a stack has all addresses, and the others stand for names.
    Localhost,
}

/// A connected server, and what ends its connections besides the listener's stack.
pub(crate) struct Server {
    pub(crate) stream: TcpStream,
    pub(crate) owner: Option<Connections>,
}

impl Connections {
    pub(crate) fn new() -> (Self, ConnectionsGuard) {
        let (sender, open) = watch::channel(());
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        (Connections { permits, open }, ConnectionsGuard(sender))
    }

    /// Returns whether these are the same.
    pub(crate) fn is_of(&self, other: &Connections) -> bool {
        Arc::ptr_eq(&self.permits, &other.permits)
    }

    /// Waits until they must end.
    pub(crate) async fn ended(&self) {
        // No value is ever sent.
        let _ = self.open.clone().changed().await;
    }

    /// Accepts connections until the future is dropped, and relays each to a server that `dial` connects,
    /// until these connections must end. Without a server it closes the connection.
    pub(crate) async fn relay<D, F>(&self, listener: TcpListener, dialled: DialledAddress, dial: D)
    where
        D: Fn() -> F,
        F: Future<Output = Option<Server>> + Send + 'static,
    {
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
            let Ok((client, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if dialled == DialledAddress::Localhost && !is_at_localhost(&client) {
                continue;
            }
            let (server, connections) = (dial(), self.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = serve(client, server) => {}
                    () = connections.ended() => {}
                }
                drop(permit);
            });
        }
    }
}

async fn serve(client: TcpStream, server: impl Future<Output = Option<Server>>) {
    let Some(Server { stream, owner }) = server.await else {
        // As the server's own kernel would answer.
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), stream.set_nodelay(true));
    let owner_ended = async {
        match owner {
            Some(owner) => owner.ended().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = aifo_egress::relay(client, stream) => {}
        () = owner_ended => {}
    }
}

fn is_at_localhost(client: &TcpStream) -> bool {
    client.local_addr().is_ok_and(|dialled| dialled.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Relays connections of a stack's listeners at 127.0.0.1, each to the server that `dial` connects for the
/// port, until the future is dropped.
pub(crate) async fn relay_all<D, F>(listeners: Vec<std::net::TcpListener>, dial: D)
where
    D: Fn(u16) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Option<Server>> + Send + 'static,
{
    let (mut relays, mut guards) = (JoinSet::new(), Vec::new());
    for listener in listeners {
        // The sidecar has checked that it listens and does not block.
        let port = listener.local_addr().map(|bound| bound.port());
        let (port, listener) =
            match port.and_then(|port| Ok((port, TcpListener::from_std(listener)?))) {
                Ok(listening) => listening,
                Err(error) => {
                    tracing::error!("cannot use a listener of a stack: {error}");
                    continue;
                }
            };
        let (connections, guard) = Connections::new();
        guards.push(guard);
        let dial = dial.clone();
        relays.spawn(async move {
            connections.relay(listener, DialledAddress::Localhost, || dial(port)).await;
        });
    }
    while relays.join_next().await.is_some() {}
}

/// Connects to a port of this machine's localhost.
pub(crate) async fn dial_host(port: u16) -> Option<Server> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
    Some(Server { stream, owner: None })
}
