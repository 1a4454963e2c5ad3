//! DNS of a stack over UDP and TCP. No query leaves the gateway.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::context::{ACCEPT_RETRY, StackContext};
use crate::dns::{self, DnsQuestion, Lookup, MAX_QUERY};
use crate::event::{ConnectionError, ConnectionEvent, Phase};
use crate::name::Name;
use crate::resolver::BoxFuture;

/// The time within which the refusals of a name to a socket are one event: clients query several types, and
/// again.
const REPEAT: Duration = Duration::from_secs(1);

/// Names and sockets with a recent event. Further ones have none, so this is also a rate.
const MAX_RECENT: usize = 256;

/// The time without a query after which a connection is closed.
const TCP_IDLE: Duration = Duration::from_secs(10);

/// Answers datagrams, one response each.
pub(crate) async fn serve_udp(stack: Arc<StackContext>, socket: UdpSocket) {
    let resolver = Arc::new(Resolver::new(stack));
    let socket = Arc::new(socket);
    let mut buffer = vec![0; MAX_QUERY];
    let mut waiting = JoinSet::new();
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => match received {
                Ok((length, peer)) => {
                    let Answer { response, refused } = resolver.answer(&buffer[..length], peer);
                    let Some(response) = response else { continue };
                    let refused = refused.map(|event| (resolver.before(&event), event));
                    match refused {
                        // Only this client waits.
                        Some((Some(work), event)) => {
                            let (resolver, socket) = (resolver.clone(), socket.clone());
                            waiting.spawn(async move {
                                work.await;
                                resolver.stack.report(event);
                                let _ = socket.send_to(&response, peer).await;
                            });
                            continue;
                        }
                        Some((None, event)) => resolver.stack.report(event),
                        None => {}
                    }
                    // A client that closed its socket needs no response.
                    let _ = socket.send_to(&response, peer).await;
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
            Some(_) = waiting.join_next() => {}
        }
        tokio::task::coop::consume_budget().await;
    }
}

/// Answers connections, any number of queries each.
pub(crate) async fn serve_tcp(stack: Arc<StackContext>, listener: TcpListener) {
    let limit = stack.gateway.limits.dns_connections;
    let resolver = Arc::new(Resolver::new(stack));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, peer)) if connections.len() < limit => {
                    let resolver = resolver.clone();
                    connections.spawn(async move {
                        // The client closed, or its bytes are no queries.
                        let _ = serve_connection(&resolver, client, peer).await;
                    });
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

pub(crate) async fn serve_connection(
    resolver: &Resolver,
    mut client: TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    let mut received = Vec::new();
    loop {
        while let Some((query, length)) = dns::split_message(&received).map_err(io::Error::other)? {
            let Answer { response, refused } = resolver.answer(query, peer);
            if let Some(event) = refused {
                if let Some(work) = resolver.before(&event) {
                    work.await;
                }
                resolver.stack.report(event);
            }
            if let Some(response) = response {
                let framed = [&(response.len() as u16).to_be_bytes()[..], &response].concat();
                timeout(TCP_IDLE, client.write_all(&framed)).await??;
            }
            received.drain(..length);
        }
        if timeout(TCP_IDLE, client.read_buf(&mut received)).await?? == 0 {
            return Ok(());
        }
    }
}

/// The response to a query.
struct Answer {
    /// `None` if the query gets none.
    response: Option<Vec<u8>>,
    /// The event of a refused name, to be reported first.
    refused: Option<ConnectionEvent>,
}

/// Answers out of the rules and the table of names.
pub(crate) struct Resolver {
    stack: Arc<StackContext>,
    recent: Mutex<HashMap<(Name, SocketAddr), Instant>>,
}

impl Resolver {
    pub(crate) fn new(stack: Arc<StackContext>) -> Resolver {
        Resolver { stack, recent: Mutex::default() }
    }

    fn answer(&self, query: &[u8], peer: SocketAddr) -> Answer {
        let mut refused = None;
        let response = dns::answer(query, |question| self.look_up(question, peer, &mut refused));
        Answer { response, refused }
    }

    /// Answers at once: an event about a refused name does not know its caller.
    pub(crate) fn answer_relayed(&self, query: &[u8], peer: SocketAddr) -> Option<Vec<u8>> {
        let Answer { response, refused } = self.answer(query, peer);
        if let Some(event) = refused {
            self.stack.report(event);
        }
        response
    }

    /// Returns the work that the answer about a refused name waits for.
    fn before(&self, event: &ConnectionEvent) -> Option<BoxFuture<()>> {
        self.stack.before_refusal(event)
    }

    fn look_up(
        &self,
        question: &DnsQuestion,
        peer: SocketAddr,
        refused: &mut Option<ConnectionEvent>,
    ) -> Lookup {
        let gateway = &self.stack.gateway;
        match question {
            DnsQuestion::Name { name, .. } if gateway.rules().permits_name(name) => {
                match gateway.names().address(name) {
                    Ok(address) => Lookup::Address(address),
                    Err(error) => {
                        *refused = self.refusal(name, peer, error.into());
                        Lookup::Full
                    }
                }
            }
            DnsQuestion::Name { host: Some(host), .. } if gateway.rules().permits_name(host) => {
                Lookup::NoData
            }
            DnsQuestion::Name { name, .. } => {
                *refused = self.refusal(name, peer, ConnectionError::NoRule);
                Lookup::NoName
            }
            DnsQuestion::Pointer(address) => match gateway.names().name(*address) {
                Some(name) => Lookup::Pointer(name.clone()),
                None => Lookup::NoName,
            },
        }
    }

    /// Returns the event of a refused name, unless it had one a moment ago.
    fn refusal(
        &self,
        name: &Name,
        peer: SocketAddr,
        error: ConnectionError,
    ) -> Option<ConnectionEvent> {
        let now = Instant::now();
        let key = (name.clone(), peer);
        let mut recent = self.recent.lock().unwrap_or_else(|error| error.into_inner());
        if recent.len() >= MAX_RECENT {
            recent.retain(|_, time| now - *time < REPEAT);
        }
        if recent.len() >= MAX_RECENT || recent.get(&key).is_some_and(|time| now - *time < REPEAT) {
            return None;
        }
        recent.insert(key, now);
        drop(recent);
        let event = self.stack.event(name.to_string(), Phase::Closed);
        Some(ConnectionEvent { peer: Some(peer), error: Some(error), ..event })
    }
}
