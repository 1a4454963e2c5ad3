//! Serves a stack whose connections and datagrams another process relays.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::client::{Client, RelayedConnection};
use crate::connection;
use crate::context::StackContext;
use crate::dns_server::{Resolver, serve_connection};

/// The port of DNS.
const DNS: u16 = 53;

/// A stack without passed sockets. Clones share its limits.
#[derive(Clone)]
pub struct RelayedStack {
    context: Arc<StackContext>,
    resolver: Arc<Resolver>,
    /// Permits of DNS over TCP.
    queries: Arc<Semaphore>,
}

impl RelayedStack {
    pub(crate) fn new(context: Arc<StackContext>) -> RelayedStack {
        let limit = context.gateway.limits.dns_connections;
        let resolver = Arc::new(Resolver::new(context.clone()));
        RelayedStack { context, resolver, queries: Arc::new(Semaphore::new(limit)) }
    }

    /// Answers a datagram for DNS; `None` if it gets no response.
    pub fn answer(&self, query: &[u8], peer: SocketAddr) -> Option<Vec<u8>> {
        self.resolver.answer_relayed(query, peer)
    }

    /// Serves a connection to its end: DNS at port 53. Dropping the future ends it.
    pub async fn serve(&self, connection: RelayedConnection) {
        let Ok(client) = Client::relayed(connection) else { return };
        if client.dialled.port() == DNS {
            let Ok(_permit) = self.queries.try_acquire() else { return };
            // The client closed, or its bytes are no queries.
            let _ = serve_connection(&self.resolver, client.stream, client.peer).await;
            return;
        }
        match self.context.try_permit() {
            Some(_permit) => connection::serve(self.context.clone(), client).await,
            None => connection::refuse_excess(self.context.clone(), client),
        }
    }
}

impl fmt::Debug for RelayedStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayedStack").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::gateway::Gateway;
    use crate::rules::NetRules;

    fn stack(rule: &str) -> RelayedStack {
        let rules = NetRules::parse(&[rule.to_owned()]).unwrap();
        Gateway::new(Arc::new(rules), |_| {}).relayed("tools".to_owned())
    }

    fn connection(port: u16) -> (UnixStream, RelayedConnection, Arc<AtomicBool>) {
        let (own, socket) = UnixStream::pair().unwrap();
        let reset = Arc::<AtomicBool>::default();
        let relayed = RelayedConnection {
            socket: socket.into(),
            dialled: ([127, 64, 0, 1], port).into(),
            peer: ([127, 0, 0, 1], 5000).into(),
            reset: reset.clone(),
        };
        (own, relayed, reset)
    }

    #[tokio::test]
    async fn a_relayed_connection_reaches_the_dialled_name() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let echo = std::thread::spawn(move || {
            let mut client = server.accept().unwrap().0;
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            client.write_all(text.to_uppercase().as_bytes()).unwrap();
        });
        let (mut own, relayed, reset) = connection(port);
        own.write_all(b"hello").unwrap();
        own.shutdown(std::net::Shutdown::Write).unwrap();
        stack(&format!("allowed.test:{port} address=127.0.0.1")).serve(relayed).await;
        echo.join().unwrap();
        let mut text = String::new();
        own.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), reset.load(Ordering::Relaxed)), ("HELLO", false));
    }

    #[tokio::test]
    async fn a_refused_connection_is_reset() {
        let (mut own, relayed, reset) = connection(9999);
        stack("allowed.test:443").serve(relayed).await;
        assert_eq!(own.read(&mut [0; 1]).unwrap(), 0);
        assert!(reset.load(Ordering::Relaxed));
    }
}
