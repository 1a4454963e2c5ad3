//! A TCP relay to a cluster's API server that a test can close.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::Outcome;

/// Passes connections to a port of localhost on to the API server of kubectl's current context.
#[derive(Debug)]
pub struct ApiRelay {
    address: SocketAddr,
    to: SocketAddr,
    /// Both ends of every connection; `None` while the relay is closed.
    open: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl ApiRelay {
    /// Starts a relay, and writes a kubeconfig that connects through it.
    pub fn open(kubeconfig: &Path) -> Self {
        let view = ["config", "view", "--raw", "--minify", "--flatten", "--output=json"];
        let text = Outcome::of(Command::new("kubectl").args(view)).exited(0).text();
        let mut config: Value = serde_json::from_str(&text).expect("the kubeconfig is JSON");
        let cluster = &mut config["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().expect("a server");
        let authority = server.trim_start_matches("https://").split('/').next().unwrap_or_default();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).to_owned();
        let with_port =
            if authority.contains(':') { authority.to_owned() } else { format!("{host}:443") };
        let to = with_port.to_socket_addrs().ok().and_then(|mut all| all.next());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        cluster["server"] = json!(format!("https://{address}"));
        cluster["tls-server-name"] = json!(host.trim_matches(['[', ']']));
        fs::write(kubeconfig, config.to_string()).expect("the directory is writable");
        let to = to.expect("the server has an address");
        let relay = ApiRelay { address, to, open: Arc::default() };
        relay.accept(listener);
        relay
    }

    /// Ends all connections, and refuses new ones.
    pub fn close(&self) {
        let ended = self.open.lock().expect("no thread has panicked").take();
        for stream in ended.into_iter().flatten() {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The listener ends with a connection that it does not accept.
        let _ = TcpStream::connect(self.address);
    }

    /// Accepts connections again.
    pub fn open_again(&self) {
        let mut bound = TcpListener::bind(self.address);
        while bound.is_err() {
            thread::yield_now();
            bound = TcpListener::bind(self.address);
        }
        self.accept(bound.expect("it is bound"));
    }

    fn accept(&self, listener: TcpListener) {
        *self.open.lock().expect("no thread has panicked") = Some(Vec::new());
        let (open, to) = (Arc::clone(&self.open), self.to);
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut open = open.lock().expect("no thread has panicked");
                let Some(streams) = open.as_mut() else { return };
                if let Err(error) = client.and_then(|client| connect(client, to, streams)) {
                    eprintln!("relay to the API server: {error}");
                }
            }
        });
    }
}

fn connect(client: TcpStream, to: SocketAddr, streams: &mut Vec<TcpStream>) -> io::Result<()> {
    let server = TcpStream::connect(to)?;
    for (mut from, mut into) in
        [(client.try_clone()?, server.try_clone()?), (server.try_clone()?, client.try_clone()?)]
    {
        thread::spawn(move || {
            // Either end may close it.
            let _ = io::copy(&mut from, &mut into);
            let _ = into.shutdown(Shutdown::Write);
        });
    }
    streams.extend([client, server]);
    Ok(())
}
