//! A provider of the test: TLS with a certificate of its own, and a log of all that it receives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::tls::server_config;

/// The real key. It must never reach the agent.
pub(crate) const KEY: &str = "sk-the-real-key-of-the-user";

/// A request that the provider received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The request line and the headers, as they arrived.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    /// The values of a header.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }
}

/// The connection of a provider to its client.
pub(crate) type Tls = StreamOwned<ServerConnection, TcpStream>;

/// Answers a request. `false` closes the connection.
pub(crate) type Answer = dyn Fn(&Received, &mut Tls) -> bool + Send + Sync;

pub(crate) struct TestProvider {
    pub(crate) port: u16,
    /// PEM.
    pub(crate) certificate: tempfile::NamedTempFile,
    log: Arc<Mutex<Vec<Received>>>,
}

impl TestProvider {
    pub(crate) fn start(
        answer: impl Fn(&Received, &mut Tls) -> bool + Send + Sync + 'static,
    ) -> Self {
        let ((config, pem), log) = (server_config(), Arc::new(Mutex::new(Vec::new())));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answer, shared): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, answer) = (Arc::clone(&config), Arc::clone(&answer));
                let log = Arc::clone(&shared);
                thread::spawn(move || serve(stream.unwrap(), config, &*answer, &log));
            }
        });
        let mut certificate = tempfile::NamedTempFile::new().unwrap();
        certificate.write_all(pem.as_bytes()).unwrap();
        TestProvider { port, certificate, log }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.log.lock().unwrap().clone()
    }
}

fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    answer: &Answer,
    log: &Mutex<Vec<Received>>,
) {
    stream.set_nodelay(true).unwrap();
    let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    while let Some(received) = read(&mut tls) {
        log.lock().unwrap().push(received.clone());
        if !answer(&received, &mut tls) {
            return;
        }
    }
}

/// Reads a request; `None` at the end of the connection.
fn read(tls: &mut Tls) -> Option<Received> {
    let mut reader = BufReader::with_capacity(1, tls);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut received = Received { head, body: Vec::new() };
    if let [length] = received.values("content-length")[..] {
        received.body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut received.body).ok()?;
    } else if received.values("transfer-encoding") == ["chunked"] {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).unwrap() + 2];
            reader.read_exact(&mut chunk).ok()?;
            if chunk.len() == 2 {
                break;
            }
            received.body.extend_from_slice(&chunk[..chunk.len() - 2]);
        }
    }
    Some(received)
}

/// Answers every request with JSON.
pub(crate) fn json(text: &'static str) -> impl Fn(&Received, &mut Tls) -> bool + Send + Sync {
    move |_, tls| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: a=b\r\n";
        let answer = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
        tls.write_all(answer.as_bytes()).is_ok()
    }
}
