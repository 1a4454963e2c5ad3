//! Relays the connections of a listener to another network stack or this machine (`spec/network.md#mirrors`).

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use aifo_sidecar::{ConnectionListener, ConnectionStream};
use tokio::{
    net::TcpStream,
    sync::{Semaphore, watch},
    task::JoinSet,
};

use crate::port_log::{HOST, RelayedPort};

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
    pub(crate) stream: ConnectionStream,
    /// Its stack, or [`HOST`].
    pub(crate) name: String,
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
    /// until these connections must end. Without a server it resets the connection.
    pub(crate) async fn relay<D, F>(
        &self,
        mut listener: ConnectionListener,
        (port, dialled): (RelayedPort, DialledAddress),
        dial: D,
    ) where
        D: Fn() -> F,
        F: Future<Output = Result<Server, String>> + Send + 'static,
    {
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
            let Ok(client) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if dialled == DialledAddress::Localhost && refuse_other_address(&client, &port) {
                continue;
            }
            let (server, connections, port) = (dial(), self.clone(), port.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = serve(client, &port, server) => {}
                    () = connections.ended() => {}
                }
                drop(permit);
            });
        }
    }
}

/// Relays a client to the server that `server` returns. Resets it without one.
pub(crate) async fn serve(
    mut client: ConnectionStream,
    port: &RelayedPort,
    server: impl Future<Output = Result<Server, String>>,
) {
    let mut record = port.record();
    let Server { mut stream, name, owner } = match server.await {
        Ok(server) => server,
        Err(error) => {
            record.fail(format_args!("cannot connect: {error}"));
            // As the server's own kernel would answer.
            return client.reset_on_close();
        }
    };
    record.connected(&name);
    let _ = (client.stream.set_nodelay(true), stream.stream.set_nodelay(true));
    let owner_ended = async {
        match owner {
            Some(owner) => owner.ended().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        relayed = aifo_egress::relay(&mut client.stream, &mut stream.stream, &record.counts) => {
            if let Err(error) = relayed {
                client.reset_on_close();
                stream.reset_on_close();
                record.fail(error);
            }
        }
        () = owner_ended => record.fail(STACK_ENDED),
    }
}

/// Why a connection ended with its server stack.
const STACK_ENDED: &str = "the stack of the server ended";

/// Resets a connection to another address than 127.0.0.1, and returns whether it did: those of names are
/// not localhost.
pub(crate) fn refuse_other_address(client: &ConnectionStream, port: &RelayedPort) -> bool {
    match client.dialled {
        Some(dialled) if dialled.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) => false,
        dialled => {
            client.reset_on_close();
            if let Some(dialled) = dialled {
                port.refuse(dialled);
            }
            true
        }
    }
}

/// Relays connections of a stack's listeners at 127.0.0.1, each to the server that `dial` connects for the
/// port, until the future is dropped.
pub(crate) async fn relay_all<D, F>(
    listeners: Vec<std::net::TcpListener>,
    of_port: impl Fn(u16) -> RelayedPort,
    dial: D,
) where
    D: Fn(u16) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Server, String>> + Send + 'static,
{
    let (mut relays, mut guards) = (JoinSet::new(), Vec::new());
    for listener in listeners {
        // The sidecar has checked that it listens and does not block.
        let port = listener.local_addr().map(|bound| bound.port());
        let (port, listener) =
            match port.and_then(|port| Ok((port, ConnectionListener::new(listener)?))) {
                Ok(listening) => listening,
                Err(error) => {
                    tracing::error!("cannot use a listener of a stack: {error}");
                    continue;
                }
            };
        let (connections, guard) = Connections::new();
        guards.push(guard);
        let (dial, relayed) = (dial.clone(), (of_port(port), DialledAddress::Localhost));
        relays.spawn(async move {
            connections.relay(listener, relayed, || dial(port)).await;
        });
    }
    while relays.join_next().await.is_some() {}
}

/// Connects to a port of this machine's localhost. Errors: why it cannot.
pub(crate) async fn dial_host(port: u16) -> Result<Server, String> {
    let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
    let stream = ConnectionStream::tcp(connected.map_err(|error| error.to_string())?);
    Ok(Server { stream, name: HOST.to_owned(), owner: None })
}
