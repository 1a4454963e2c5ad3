//! A server of this machine that greets every client.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Answers every connection to a loopback address, usually a free port of 127.0.0.1, with an HTTP response
/// of `hello`, until the test ends.
#[derive(Debug)]
pub struct HelloServer {
    /// Its port.
    pub port: u16,
    accepted: Arc<AtomicUsize>,
    was_closed: Arc<AtomicBool>,
}

const ANSWER: &str = "HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

impl HelloServer {
    /// Starts it in threads of its own.
    #[expect(clippy::new_without_default, reason = "creating a server should be explicit")]
    #[track_caller]
    pub fn new() -> Self {
        HelloServer::at(("127.0.0.1", 0)).expect("every user may bind port 0")
    }

    /// Starts it at an address. `None` if the user may not bind this port.
    #[track_caller]
    pub fn at(address: (&str, u16)) -> Option<Self> {
        let listener = match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
            listener => listener.expect("a free port"),
        };
        let port = listener.local_addr().expect("bound").port();
        let (accepted, was_closed) = (Arc::default(), Arc::default());
        let server = HelloServer { port, accepted, was_closed };
        let (accepted, closed) = (Arc::clone(&server.accepted), Arc::clone(&server.was_closed));
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                accepted.fetch_add(1, Ordering::SeqCst);
                let closed = Arc::clone(&closed);
                std::thread::spawn(move || {
                    // A client may close before it has read.
                    let _ = client.write_all(ANSWER.as_bytes());
                    let _ = client.read_to_end(&mut Vec::new());
                    closed.store(true, Ordering::SeqCst);
                });
            }
        });
        Some(server)
    }

    /// The connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// True once a client has closed its connection.
    pub fn was_closed(&self) -> bool {
        self.was_closed.load(Ordering::SeqCst)
    }

    /// A rule that allows this name at the server port.
    pub fn rule(&self, name: &str) -> String {
        format!("{name}:{} address=127.0.0.1", self.port)
    }
}

/// A Python program that connects to `HOST PORT`, and prints the last line of the answer, `closed`, or
/// the error's name.
pub const CONNECT: &str = "
import socket, sys, errno
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
    data = b''
    while not data.endswith(b'hello\\n'):
        more = s.recv(4096)
        if not more: break
        data += more
    print(data.decode().splitlines()[-1] if data else 'closed')
except socket.gaierror as e:
    print('no such name')
except OSError as e:
    print(errno.errorcode.get(e.errno, e))
";

/// A Python program that connects to `allowed.test PORT`, prints `connected`, and holds the connection.
pub const HOLD: &str = "
import socket, sys, time
s = socket.create_connection(('allowed.test', int(sys.argv[1])))
print('connected', flush=True)
time.sleep(600)
";
