//! Ports of the tools that this machine serves (`spec/network.md#published-ports`).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use aifo_process::{bind_unix, connect_unix};
use aifo_sidecar::ConnectionListener;
use nix::{
    sys::socket::{Backlog, getsockopt, listen, sockopt::PeerCredentials},
    unistd::getuid,
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};

use crate::connection_file::PortUse;
use crate::mirrors::Mirrors;
use crate::port_log::HOST;
use crate::port_relay::{Connections, ConnectionsGuard, DialledAddress};
use crate::published_port::PublishedPort;

/// The published ports of a session. Dropping it closes listeners and connections.
#[derive(Debug)]
pub struct Publications {
    mirrors: Mirrors,
    /// Ports that stacks serve themselves, such as those of rules.
    reserved: Vec<u16>,
    connections: Connections,
    _guard: ConnectionsGuard,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    relays: JoinSet<()>,
    addresses: Vec<(SocketAddr, u16)>,
}

/// Published ports of a session at once.
const MAX_PUBLISHED: usize = 64;

impl Publications {
    pub(crate) fn new(mirrors: Mirrors, reserved: Vec<u16>) -> Self {
        let (connections, guard) = Connections::new();
        Publications { mirrors, reserved, connections, _guard: guard, open: Mutex::default() }
    }

    /// Publishes a port until the session ends, and returns its address on this machine: that of before, if
    /// the session has published the port at this address. Errors: the address cannot be bound, or the port is
    /// one of a rule.
    pub fn add(&self, published: PublishedPort) -> Result<SocketAddr, String> {
        let PublishedPort { address, or_any, port } = published;
        if self.reserved.contains(&port) {
            return Err(format!(
                "port {port} is a port of network rules, host ports or agent ports\n\
                 hint: have the tool listen on another port"
            ));
        }
        let failed = |error: io::Error| {
            format!(
                "cannot listen on {address}: {error}\nhint: publish another port of this machine"
            )
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |of: &&(SocketAddr, u16)| {
            of.1 == port && of.0.ip() == address.ip() && (or_any || of.0 == address)
        };
        if let Some((bound, _)) = open.addresses.iter().find(is_same) {
            return Ok(*bound);
        }
        if open.addresses.len() >= MAX_PUBLISHED {
            return Err(format!("a session publishes at most {MAX_PUBLISHED} ports"));
        }
        let listener = match std::net::TcpListener::bind(address) {
            Err(_) if or_any => std::net::TcpListener::bind((address.ip(), 0)),
            bound => bound,
        };
        let listener = listener.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let listener = ConnectionListener::new(listener).map_err(failed)?;
        let (mirrors, connections) = (self.mirrors.clone(), self.connections.clone());
        open.relays.spawn(async move {
            let dial = || {
                let mirrors = mirrors.clone();
                async move { mirrors.connect_to_tools(port).await }
            };
            let relayed = mirrors.relayed_port(HOST, port, PortUse::Published);
            connections.relay(listener, (relayed, DialledAddress::Any), dial).await;
        });
        open.addresses.push((bound, port));
        Ok(bound)
    }

    /// Returns each address on this machine with the port of the tools.
    pub fn addresses(&self) -> Vec<(SocketAddr, u16)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).addresses.clone()
    }
}

/// A request to a running session, a line of JSON.
#[derive(Serialize, Deserialize)]
struct Request {
    publish: String,
}

/// The response, a line of JSON.
#[derive(Serialize, Deserialize)]
enum Response {
    #[serde(rename = "address")]
    Published(SocketAddr),
    #[serde(rename = "error")]
    Refused(String),
}

/// The socket in a session directory, which no container mounts.
const SOCKET: &str = "publish.sock";

/// Bytes of a request or response.
const MAX_LINE: u64 = 4096;

/// Time for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves requests of this user at the session socket, until the future is dropped. Errors: the socket
/// cannot be created.
pub fn serve_requests(
    directory: &Path,
    publications: &Arc<Publications>,
) -> io::Result<impl Future<Output = ()> + Send + use<>> {
    let fd = bind_unix(&directory.join(SOCKET))?;
    listen(&fd, Backlog::new(8)?)?;
    let listener = UnixListener::from_std(fd.into())?;
    let publications = Arc::downgrade(publications);
    Ok(async move {
        loop {
            let Ok((client, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let is_own = getsockopt(&client, PeerCredentials)
                .is_ok_and(|peer| peer.uid() == getuid().as_raw());
            let Some(publications) = publications.upgrade() else { return };
            if is_own {
                // One at a time: a request takes a moment.
                let answered = answer(client, &publications);
                let _ = tokio::time::timeout(REQUEST_TIMEOUT, answered).await;
            }
        }
    })
}

async fn answer(client: UnixStream, publications: &Publications) -> io::Result<()> {
    let (reader, mut writer) = client.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(MAX_LINE)).read_line(&mut line).await?;
    let published = serde_json::from_str(&line)
        .map_err(|error| format!("invalid request: {error}"))
        .and_then(|Request { publish }| publish.parse().map_err(|error| format!("{error}")))
        .and_then(|port: PublishedPort| publications.add(port));
    let response = match published {
        Ok(address) => Response::Published(address),
        Err(error) => Response::Refused(error),
    };
    writer.write_all(&serde_json::to_vec(&response)?).await?;
    writer.write_all(b"\n").await
}

/// Has the running session with this directory publish a port until it ends. Returns the address on this
/// machine. Errors: the session's, or it does not publish ports, with a hint.
pub fn publish(directory: &Path, port: PublishedPort) -> Result<SocketAddr, String> {
    let failed = |error: io::Error| format!("the session did not answer: {error}");
    let path: PathBuf = directory.join(SOCKET);
    if !fs::exists(&path).unwrap_or(false) {
        return Err("the session has no network by name\n\
                    hint: start it with --net names, or with --publish"
            .to_owned());
    }
    let exchange = || -> io::Result<Response> {
        use std::io::{BufRead, Read, Write};
        let mut stream = std::os::unix::net::UnixStream::from(connect_unix(&path)?);
        stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        let request = Request { publish: port.to_string() };
        stream.write_all(&[&serde_json::to_vec(&request)?[..], b"\n"].concat())?;
        let mut line = String::new();
        io::BufReader::new(stream.take(MAX_LINE)).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    match exchange().map_err(failed)? {
        Response::Published(address) => Ok(address),
        Response::Refused(error) => Err(error),
    }
}
