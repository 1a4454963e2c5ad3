//! The model's server and its log.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::answers::{Answered, answer};
use super::http::Request;
use super::{Script, ToolResult};

/// A listening scripted model. Drop closes the listener and every connection.
#[derive(Debug)]
pub struct FakeModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

/// A logged request.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedRequest {
    /// `POST`
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// The key that it has, in lower case.
    pub key: Option<String>,
    /// The body; `null` if it is missing or not JSON.
    pub body: Value,
    /// The response's status: 404 for unknown paths.
    pub status: u16,
    /// A summary of the model's reply; nothing for lists of models and the like.
    pub replied: Option<String>,
}

impl FakeModel {
    /// Starts a model on a free loopback port.
    #[track_caller]
    pub fn start(script: Script) -> Self {
        FakeModel::bind((Ipv4Addr::LOCALHOST, 0).into(), script).expect("loopback has a free port")
    }

    /// Starts a model at an address. Port 0 is any free one; fails if the address is in use.
    pub fn bind(address: SocketAddr, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(script));
        let listening = thread::spawn({
            let shared = Arc::clone(&shared);
            move || listen(&listener, &shared)
        });
        Ok(FakeModel { address, shared, listening: Some(listening) })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, without a path: `http://127.0.0.1:4000`.
    pub fn url(&self) -> String {
        self.url_at(&self.address.ip().to_string())
    }

    /// Its URL with another host name, for example that of a container's gateway.
    pub fn url_at(&self, host: &str) -> String {
        format!("http://{host}:{}", self.address.port())
    }

    /// Its script.
    pub fn script(&self) -> &Script {
        &self.shared.script
    }

    /// The reports so far, in the script's order, of the longest conversation.
    pub fn results(&self) -> Vec<ToolResult> {
        self.shared.log().results.clone()
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.shared.log().requests.clone()
    }

    /// Waits until command `number` of the script, from 0, has been sent.
    #[track_caller]
    pub fn called(&self, number: usize) {
        self.wait(&format!("command {number} is called"), |log| log.called > number);
    }

    /// Waits until the last turn of the script has been sent.
    #[track_caller]
    pub fn finished(&self) {
        self.wait("the script is over", |log| log.finished);
    }

    #[track_caller]
    fn wait(&self, what: &str, condition: impl Fn(&Log) -> bool) {
        let (mut log, start) = (self.shared.log(), Instant::now());
        while !condition(&log) {
            let left = PATIENCE.checked_sub(start.elapsed());
            let Some(left) = left else {
                // Releases the lock before the panic: drop takes it.
                let details = log.describe();
                drop(log);
                panic!("timed out after {PATIENCE:?}: {what}\n{details}");
            };
            let woken = self.shared.changed.wait_timeout(log, left);
            log = woken.expect("no holder of the lock panics").0;
        }
    }

    /// The address at which this machine reaches it: never `0.0.0.0`.
    fn reachable(&self) -> IpAddr {
        match self.address.ip() {
            ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            ip => ip,
        }
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.shared.log().closing = true;
        // Wakes the listener, which then checks `closing`.
        let _ = TcpStream::connect((self.reachable(), self.address.port()));
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

/// The timeout of each wait. Some agents take half a minute to start, and a command may wait for a
/// sidecar.
const PATIENCE: Duration = Duration::from_secs(300);

/// The state that connections share.
#[derive(Debug)]
struct Shared {
    script: Script,
    log: Mutex<Log>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<LoggedRequest>,
    results: Vec<ToolResult>,
    /// The number of commands that were sent.
    called: usize,
    finished: bool,
    closing: bool,
}

impl Shared {
    fn new(script: Script) -> Self {
        Shared { script, log: Mutex::default(), changed: Condvar::new() }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no holder of the lock panics")
    }

    /// Changes the log and wakes waiting threads.
    fn note(&self, change: impl FnOnce(&mut Log)) {
        change(&mut self.log());
        self.changed.notify_all();
    }
}

impl Log {
    fn describe(&self) -> String {
        let line = |asked: &LoggedRequest| {
            let replied = asked.replied.as_deref().unwrap_or("-");
            format!("{} {} {}: {replied}\n", asked.status, asked.method, asked.target)
        };
        self.requests.iter().map(line).collect()
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut connections: Vec<(TcpStream, JoinHandle<()>)> = Vec::new();
    for connection in listener.incoming() {
        if shared.log().closing {
            break;
        }
        connections.retain(|(_, serving)| !serving.is_finished());
        let Ok(connection) = connection else { continue };
        let Ok(other_end) = connection.try_clone() else { continue };
        let shared = Arc::clone(shared);
        connections.push((other_end, thread::spawn(move || serve(connection, &shared))));
    }
    for (connection, serving) in connections {
        let _ = connection.shutdown(Shutdown::Both);
        let _ = serving.join();
    }
}

/// Answers one request. Agents are killed at any time, so a broken connection is no error: an
/// undelivered reply does not count.
fn serve(mut connection: TcpStream, shared: &Shared) {
    let Ok(request) = Request::read(&mut connection) else { return };
    let body = serde_json::from_slice(&request.body).unwrap_or_default();
    let Answered { answer, replied, results, turn } = answer(&request, &body, &shared.script);
    // Logged before the reply is sent: the agent may end with the last reply.
    shared.note(|log| {
        let Request { method, target, key, .. } = request;
        let status = answer.status();
        log.requests.push(LoggedRequest { method, target, key, body, status, replied });
        if results.len() >= log.results.len() {
            log.results = results;
        }
    });
    let sent = answer.write(&mut connection).is_ok();
    let _ = connection.shutdown(Shutdown::Write);
    if sent && let Some(turn) = turn {
        shared.note(|log| {
            log.called = log.called.max(shared.script.commands_up_to(turn));
            log.finished |= Some(turn) == shared.script.last();
        });
    }
}
