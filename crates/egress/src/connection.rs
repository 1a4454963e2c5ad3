//! One connection of a client: identifies, judges, checks the first bytes, dials, relays.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::body::Body;
use crate::client::Client;
use crate::context::StackContext;
use crate::event::{ConnectionError, ConnectionEvent, Phase};
use crate::hello::{Hello, parse_hello};
use crate::http::{Request, parse_request};
use crate::name::Name;
use crate::parent::ParentProxy;
use crate::refusal::refuse;
use crate::resolver::BoxFuture;
use crate::rule::Protocol;
use crate::rules::NameVerdict;
use crate::splice::{ByteCounts, splice};

/// Serves a connection to its end, and reports it.
pub(crate) async fn serve(stack: Arc<StackContext>, mut client: Client) {
    let (local, peer) = (client.dialled, client.peer);
    let (port, limits) = (local.port(), stack.gateway.limits);
    let name = stack.name_of(local.ip());
    let mut record = Record::new(stack, name.as_ref(), local, peer);
    match run(&mut record, &mut client.stream, name.as_ref(), port).await {
        Ok(()) => record.close(None),
        Err(error) if record.event.phase == Phase::Opened => {
            // The client must not take the part of a response for a whole one.
            client.reset();
            record.close(Some(error));
        }
        Err(error) => {
            if let Some(work) = record.before_refusal(&error) {
                work.await;
            }
            // The event comes before the answer, so its hint is there when the client fails.
            record.close(Some(error.clone()));
            refuse(client, record.protocol, name.as_ref(), port, &error, &limits).await;
        }
    }
}

/// Reports a connection that exceeds the limit, and resets it.
pub(crate) fn refuse_excess(stack: Arc<StackContext>, client: Client) {
    let (local, peer) = (client.dialled, client.peer);
    let limit = stack.gateway.limits.connections;
    let name = stack.name_of(local.ip());
    client.reset();
    Record::new(stack, name.as_ref(), local, peer).close(Some(ConnectionError::TooMany(limit)));
}

async fn run(
    record: &mut Record,
    client: &mut TcpStream,
    name: Option<&Name>,
    port: u16,
) -> Result<(), ConnectionError> {
    let stack = record.stack.clone();
    let gateway = &stack.gateway;
    let limits = &gateway.limits;
    let name = name.ok_or(ConnectionError::UnknownAddress)?;
    let verdict = gateway.rules().judge(name, port);
    let NameVerdict::Allowed { rule } = &verdict else { return Err(ConnectionError::NoRule) };
    record.event.verdict = verdict.clone();
    let _ = client.set_nodelay(true);
    record.protocol = rule.protocol(port);
    // The parent proxy gets requests themselves; it may refuse CONNECT to other ports than 443.
    let (parent, request_parent) = match record.protocol {
        Protocol::Http => {
            let parent = gateway.outside.request_parent_for(name, rule);
            (parent, parent)
        }
        _ => (gateway.outside.parent_for(name, rule), None),
    };
    let reading = read_first(client, record.protocol, name, port, request_parent);
    let timed_out = ConnectionError::FirstBytesTimeout(limits.first_bytes);
    let first = timeout(limits.first_bytes, reading).await.map_err(|_| timed_out)??;
    record.event.via_parent = parent.is_some();
    let mut outside = match request_parent {
        Some(parent) => gateway.outside.connect_parent(parent, limits).await?,
        None => gateway.outside.connect(name, port, rule, limits).await?,
    };
    record.open(outside.address);
    let _ = outside.stream.set_nodelay(true);
    outside.stream.write_all(&first.bytes).await?;
    record.counts.sent.fetch_add(first.bytes.len() as u64, Ordering::Relaxed);
    client.write_all(&outside.first).await?;
    record.counts.received.fetch_add(outside.first.len() as u64, Ordering::Relaxed);
    splice(client, &mut outside.stream, first.body, &record.counts, limits).await
}

/// The checked first bytes of a client.
struct First {
    /// For the host outside.
    bytes: Vec<u8>,
    /// The rest of an HTTP request.
    body: Option<Body>,
}

/// Reads a ClientHello, or a request head, and checks its name. The head is rewritten for a
/// parent proxy.
async fn read_first(
    client: &TcpStream,
    protocol: Protocol,
    name: &Name,
    port: u16,
    parent: Option<&ParentProxy>,
) -> Result<First, ConnectionError> {
    let mut bytes = Vec::new();
    loop {
        let checked = match protocol {
            Protocol::Raw => Some(First { bytes: Vec::new(), body: None }),
            Protocol::Http => check_request(&bytes, name, port, parent)?,
            Protocol::Tls => {
                check_hello(&bytes, name)?.then(|| First { bytes: bytes.clone(), body: None })
            }
        };
        if let Some(first) = checked {
            return Ok(first);
        }
        if !read_more(client, &mut bytes).await? {
            return Err(ConnectionError::FirstBytesEnded);
        }
    }
}

/// Returns whether the ClientHello is complete.
fn check_hello(bytes: &[u8], name: &Name) -> Result<bool, ConnectionError> {
    match parse_hello(bytes) {
        Hello::NeedMore => Ok(false),
        Hello::Sni(sni) if sni == *name => Ok(true),
        Hello::Sni(sni) => Err(ConnectionError::OtherSni(sni)),
        Hello::NoSni => Err(ConnectionError::NoSni),
        Hello::Malformed(error) => Err(error.into()),
        Hello::NotTls => Err(ConnectionError::NotTls),
    }
}

/// Returns the head for the host, and the part of the body that followed it.
fn check_request(
    bytes: &[u8],
    name: &Name,
    port: u16,
    parent: Option<&ParentProxy>,
) -> Result<Option<First>, ConnectionError> {
    let Some(Request { mut head, received, mut body }) = parse_request(bytes, name, port)? else {
        return Ok(None);
    };
    if let Some(parent) = parent {
        head = parent.request_head(&head, name, port);
    }
    let rest = &bytes[received..];
    let taken = body.take(rest)?;
    head.extend(&rest[..taken]);
    Ok(Some(First { bytes: head, body: Some(body) }))
}

/// Appends available bytes; `false` at the end.
async fn read_more(client: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        client.readable().await?;
        bytes.reserve(FIRST_READ);
        match client.try_read_buf(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read.map(|read| read > 0),
        }
    }
}

/// A usual ClientHello, or head.
const FIRST_READ: usize = 2048;

/// The event of a connection. Reports the end once, also if its task is dropped.
struct Record {
    stack: Arc<StackContext>,
    event: ConnectionEvent,
    counts: ByteCounts,
    /// The protocol in which a refusal is answered.
    protocol: Protocol,
    is_closed: bool,
}

impl Record {
    fn new(
        stack: Arc<StackContext>,
        name: Option<&Name>,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Record {
        let name = name.map_or_else(|| local.ip().to_canonical().to_string(), Name::to_string);
        let event = ConnectionEvent {
            peer: Some(peer),
            port: Some(local.port()),
            ..stack.event(name, Phase::Closed)
        };
        let protocol = Protocol::of_port(local.port());
        Record { stack, event, counts: ByteCounts::default(), protocol, is_closed: false }
    }

    /// Reports the connection outside.
    fn open(&mut self, address: Option<SocketAddr>) {
        self.event.phase = Phase::Opened;
        self.event.address = address;
        self.stack.report(self.event.clone());
    }

    /// Returns the work that a refusal waits for; `None` for a failure whose cause the client can see.
    fn before_refusal(&self, error: &ConnectionError) -> Option<BoxFuture<()>> {
        // To the client every name resolves.
        if !error.is_refusal() && !matches!(error, ConnectionError::Resolve(_)) {
            return None;
        }
        let (verdict, error) = (NameVerdict::Refused, Some(error.clone()));
        self.stack.before_refusal(&ConnectionEvent { verdict, error, ..self.event.clone() })
    }

    /// Reports the end.
    fn close(&mut self, error: Option<ConnectionError>) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        if error.as_ref().is_some_and(ConnectionError::is_refusal) {
            self.event.verdict = NameVerdict::Refused;
        }
        self.event.phase = Phase::Closed;
        self.event.sent = self.counts.sent.load(Ordering::Relaxed);
        self.event.received = self.counts.received.load(Ordering::Relaxed);
        self.event.error = error;
        self.stack.report(self.event.clone());
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.close(Some(ConnectionError::GatewayEnded));
    }
}
