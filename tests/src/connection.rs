//! A raw connection to a proxy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Answer, DEADLINE};

/// A proxy address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// Loopback TCP.
    Tcp(SocketAddr),
}

impl Address {
    /// Parses `unix:///path` or `http://ip:port/exec`.
    pub fn parse(url: &str) -> Option<Self> {
        if let Some(path) = url.strip_prefix("unix://") {
            return Some(Address::Unix(path.into()));
        }
        let rest = url.strip_prefix("http://")?.strip_suffix("/exec")?;
        Some(Address::Tcp(rest.parse().ok()?))
    }
}

/// A connection. Each read and write has a deadline and panics when it expires.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    received: Vec<u8>,
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Connection {
    /// Connects.
    #[track_caller]
    pub fn open(address: &Address) -> Self {
        Connection::try_open(address).unwrap_or_else(|e| panic!("cannot connect {address:?}: {e}"))
    }

    /// Connects; fails if the address is not listening.
    pub fn try_open(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Address::Tcp(address) => Stream::Tcp(TcpStream::connect_timeout(address, DEADLINE)?),
        };
        let mut connection = Connection { stream, received: Vec::new() };
        connection.set_deadline(DEADLINE);
        Ok(connection)
    }

    /// Sets the deadline of one read or write.
    pub fn set_deadline(&mut self, deadline: Duration) -> &mut Self {
        let deadline = Some(deadline);
        let set = match &self.stream {
            Stream::Unix(s) => s.set_read_timeout(deadline).and(s.set_write_timeout(deadline)),
            Stream::Tcp(s) => s.set_read_timeout(deadline).and(s.set_write_timeout(deadline)),
        };
        set.expect("a deadline can be set");
        self
    }

    /// Sends all bytes.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.try_send(bytes).expect("the proxy accepts the bytes");
        self
    }

    /// Sends all bytes, unless the proxy has closed.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.stream {
            Stream::Unix(stream) => stream.write_all(bytes.as_ref()),
            Stream::Tcp(stream) => stream.write_all(bytes.as_ref()),
        }
    }

    /// Shuts down the sending half.
    pub fn half_close(&mut self) -> &mut Self {
        // Fails if the proxy has closed, which is fine.
        let _ = match &self.stream {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
        };
        self
    }

    /// Reads up to the size of `buffer`; 0 is the end.
    ///
    /// A reset counts as the end: a server that closes with unread bytes sends one after its
    /// response. The parser decides whether the response is complete.
    #[track_caller]
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        let read = loop {
            let read = match &mut self.stream {
                Stream::Unix(stream) => stream.read(buffer),
                Stream::Tcp(stream) => stream.read(buffer),
            };
            // The kernel does not restart a read with a timeout after a signal.
            match read {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(count) => count,
            Err(e) if e.kind() == ErrorKind::ConnectionReset => 0,
            Err(e) => panic!("no answer: {e}; so far: {:?}", self.received.escape_ascii()),
        }
    }

    /// Reads until `needle` has arrived; returns all bytes received so far.
    #[track_caller]
    pub fn read_until(&mut self, needle: &[u8]) -> &[u8] {
        while !self.received.windows(needle.len()).any(|window| window == needle) {
            assert!(
                self.read_more() > 0,
                "ended before {:?}: {:?}",
                needle.escape_ascii(),
                self.received.escape_ascii()
            );
        }
        &self.received
    }

    /// Discards the received bytes.
    pub fn forget(&mut self) -> &mut Self {
        self.received.clear();
        self
    }

    /// Reads to the end of the stream; returns all received bytes.
    #[track_caller]
    pub fn rest(mut self) -> Vec<u8> {
        while self.read_more() > 0 {}
        self.received
    }

    /// Reads the complete response.
    #[track_caller]
    pub fn answer(self) -> Answer {
        let raw = self.rest();
        Answer::parse(&raw).unwrap_or_else(|why| panic!("{why}: {:?}", raw.escape_ascii()))
    }

    #[track_caller]
    fn read_more(&mut self) -> usize {
        let mut buffer = [0; 16 * 1024];
        let count = self.read(&mut buffer);
        self.received.extend_from_slice(&buffer[..count]);
        count
    }
}
