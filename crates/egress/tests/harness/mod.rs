//! A served stack on loopback, with a resolver and a dialer of the test.
//!
//! The listeners are at all addresses and a free port, `PORT` in rules; the dialer connects a public address to
//! a server of the test, and records it.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aifo_egress::{
    BoxFuture, ConnectionError, ConnectionEvent, Dial, Gateway, Limits, NetRules, Phase, Resolve,
    Stack,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) const A: u16 = 1;
pub(crate) const PTR: u16 = 12;
pub(crate) const TXT: u16 = 16;
pub(crate) const AAAA: u16 = 28;

/// The address of a server of the test outside.
pub(crate) const PUBLIC: &str = "93.184.216.34";

/// No step takes longer.
const DEADLINE: Duration = Duration::from_secs(20);

/// Fails the test if the future does not end.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.expect("ends in time")
}

/// Names, addresses and servers outside, and a record of their use.
#[derive(Clone, Default)]
pub(crate) struct Outside(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    names: HashMap<String, Vec<Vec<IpAddr>>>,
    servers: HashMap<IpAddr, SocketAddr>,
    silent: Vec<IpAddr>,
    resolved: Vec<String>,
    dialled: Vec<SocketAddr>,
}

impl Outside {
    /// Adds an answer for a name; the last one stays.
    pub(crate) fn name(&self, name: &str, addresses: &[&str]) -> &Self {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.0.lock().unwrap().names.entry(name.to_owned()).or_default().push(addresses);
        self
    }

    /// Connects an address, at every port, to a server.
    pub(crate) fn server(&self, address: &str, server: SocketAddr) -> &Self {
        self.0.lock().unwrap().servers.insert(address.parse().unwrap(), server);
        self
    }

    /// Lets connections to an address hang.
    pub(crate) fn silent(&self, address: &str) {
        self.0.lock().unwrap().silent.push(address.parse().unwrap());
    }

    pub(crate) fn dialled(&self) -> Vec<SocketAddr> {
        self.0.lock().unwrap().dialled.clone()
    }

    pub(crate) fn resolved(&self) -> Vec<String> {
        self.0.lock().unwrap().resolved.clone()
    }
}

impl Resolve for Outside {
    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<IpAddr>>> {
        let mut state = self.0.lock().unwrap();
        state.resolved.push(host.to_owned());
        let answer = match state.names.get_mut(host) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(io::Error::other("no such name")),
        };
        Box::pin(async { answer })
    }
}

impl Dial for Outside {
    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<TcpStream>> {
        let mut state = self.0.lock().unwrap();
        state.dialled.push(address);
        let server = state.servers.get(&address.ip()).copied();
        let is_silent = state.silent.contains(&address.ip());
        Box::pin(async move {
            match server {
                _ if is_silent => std::future::pending().await,
                Some(server) => TcpStream::connect(server).await,
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

/// A served stack.
pub(crate) struct World {
    pub(crate) port: u16,
    pub(crate) outside: Outside,
    pub(crate) serving: JoinHandle<()>,
    dns_udp: SocketAddr,
    dns_tcp: SocketAddr,
    events: mpsc::UnboundedReceiver<ConnectionEvent>,
}

/// Serves a stack with these rules, in which `PORT` is the listener's port.
pub(crate) async fn start(rules: &[&str], outside: &Outside) -> World {
    start_with(rules, outside, |gateway| gateway).await
}

/// As [`start`], with a changed gateway.
pub(crate) async fn start_with(
    rules: &[&str],
    outside: &Outside,
    change: impl FnOnce(Gateway) -> Gateway,
) -> World {
    let localhost = (Ipv4Addr::LOCALHOST, 0);
    let stack = Stack {
        dns_udp: std::net::UdpSocket::bind(localhost).unwrap(),
        dns_tcp: std::net::TcpListener::bind(localhost).unwrap(),
        listeners: vec![std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()],
    };
    let port = stack.listeners[0].local_addr().unwrap().port();
    let (dns_udp, dns_tcp) =
        (stack.dns_udp.local_addr().unwrap(), stack.dns_tcp.local_addr().unwrap());
    let list: Vec<String> =
        rules.iter().map(|rule| rule.replace("PORT", &port.to_string())).collect();
    let rules = NetRules::parse(&list).unwrap();
    assert!(rules.ports().contains(&port) || list.is_empty());
    let (sender, events) = mpsc::unbounded_channel();
    let report = move |event| {
        let _ = sender.send(event);
    };
    let gateway = Gateway::new(Arc::new(rules), report)
        .with_resolver(outside.clone())
        .with_dialer(outside.clone());
    let serving = tokio::spawn(change(gateway).serve("tools".to_owned(), stack));
    World { port, outside: outside.clone(), serving, dns_udp, dns_tcp, events }
}

impl World {
    /// Looks a name up and connects to it, as programs do.
    pub(crate) async fn connect(&self, name: &str) -> TcpStream {
        let address = self.look_up(name).await.expect("the name has an address");
        soon(TcpStream::connect((address, self.port))).await.unwrap()
    }

    /// Returns the address of a name; the response code if there is none.
    pub(crate) async fn look_up(&self, name: &str) -> Result<Ipv4Addr, u8> {
        let (code, data) = self.ask(name, A).await;
        <[u8; 4]>::try_from(data).map(Ipv4Addr::from).map_err(|_| code)
    }

    /// Sends a query over UDP, and returns the response code and the data of the only record.
    pub(crate) async fn ask(&self, name: &str, kind: u16) -> (u8, Vec<u8>) {
        let query = query(name, kind);
        let response = self.exchange(&query).await;
        (response[3] & 0xf, response.get(query.len() + 12..).unwrap_or_default().to_vec())
    }

    /// Sends a datagram, and returns the response.
    pub(crate) async fn exchange(&self, query: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.send_to(query, self.dns_udp).await.unwrap();
        let mut response = vec![0; 4096];
        let length = soon(socket.recv(&mut response)).await.unwrap();
        response.truncate(length);
        response
    }

    /// Connects to DNS over TCP.
    pub(crate) async fn connect_dns(&self) -> TcpStream {
        TcpStream::connect(self.dns_tcp).await.unwrap()
    }

    pub(crate) async fn event(&mut self) -> ConnectionEvent {
        soon(self.events.recv()).await.expect("an event")
    }

    /// Takes the next event, if there is one.
    pub(crate) fn try_event(&mut self) -> Option<ConnectionEvent> {
        self.events.try_recv().ok()
    }

    /// Takes all events so far, and returns their number.
    pub(crate) fn count_events(&mut self) -> usize {
        std::iter::from_fn(|| self.events.try_recv().ok()).count()
    }

    /// Waits for the end of a connection that was not connected outside, and returns the cause.
    pub(crate) async fn refused(&mut self) -> ConnectionError {
        let event = self.event().await;
        assert_eq!(event.phase, Phase::Closed, "{event:?}");
        assert_eq!((event.sent, event.received), (0, 0), "{event:?}");
        event.error.expect("a cause")
    }

    /// Sends bytes to a name, and returns the cause of the refusal and what the client reads.
    pub(crate) async fn send_refused(
        &mut self,
        name: &str,
        bytes: &[u8],
    ) -> (ConnectionError, Vec<u8>) {
        let mut client = self.connect(name).await;
        // The gateway may close before it read all.
        let _ = client.write_all(bytes).await;
        let cause = self.refused().await;
        (cause, read_all(&mut client).await)
    }
}

/// Reads up to the end, or a reset.
pub(crate) async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = soon(stream.read_to_end(&mut bytes)).await;
    bytes
}

/// Reads until the text occurs.
pub(crate) async fn read_until(stream: &mut TcpStream, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains(text) {
        let read = soon(stream.read_buf(&mut bytes)).await.unwrap();
        assert!(read > 0, "ended after {:?}", String::from_utf8_lossy(&bytes));
    }
    bytes
}

/// Listens outside.
pub(crate) async fn server() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Limits of a test of time.
pub(crate) fn short(first_bytes: Duration) -> Limits {
    Limits { first_bytes, ..Limits::default() }
}

/// A query of one question.
pub(crate) fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut query = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend(kind.to_be_bytes());
    query.extend([0, 1]);
    query
}

/// A ClientHello in one record, with these server names.
pub(crate) fn client_hello(names: &[&str], padding: usize) -> Vec<u8> {
    let vector16 = |data: &[u8]| [&(data.len() as u16).to_be_bytes()[..], data].concat();
    let extension = |kind: u16, data: &[u8]| [&kind.to_be_bytes()[..], &vector16(data)].concat();
    let entry = |name: &&str| [&[0][..], &vector16(name.as_bytes())].concat();
    let list: Vec<u8> = names.iter().flat_map(entry).collect();
    let mut extensions = extension(21, &vec![0; padding]);
    if !names.is_empty() {
        extensions.extend(extension(0, &vector16(&list)));
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([&[0][..], &vector16(&[0x13, 1]), &[1, 0], &vector16(&extensions)].concat());
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1], &length[1..], &body].concat();
    [&[22, 3, 1][..], &vector16(&message)].concat()
}
