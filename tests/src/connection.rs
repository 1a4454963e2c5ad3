//! A raw connection to a proxy: bytes out, bytes in.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Answer, DEADLINE};

/// Where a proxy listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// Loopback TCP.
    Tcp(SocketAddr),
}

impl Address {
    /// Reads `unix:///path` or `http://ip:port/exec`.
    pub fn parse(url: &str) -> Option<Self> {
        if let Some(path) = url.strip_prefix("unix://") {
            return Some(Address::Unix(path.into()));
        }
        let rest = url.strip_prefix("http://")?.strip_suffix("/exec")?;
        Some(Address::Tcp(rest.parse().ok()?))
    }
}

/// One connection. Every read and write has a deadline; missing it fails the test.
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

    /// Connects, if somebody listens.
    pub fn try_open(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Address::Tcp(address) => Stream::Tcp(TcpStream::connect_timeout(address, DEADLINE)?),
        };
        let mut connection = Connection { stream, received: Vec::new() };
        connection.set_deadline(DEADLINE);
        Ok(connection)
    }

    /// Changes how long one read or write may take.
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
        self.try_send(bytes).expect("the proxy takes the bytes");
        self
    }

    /// Sends all bytes, unless the proxy has closed already.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.stream {
            Stream::Unix(stream) => stream.write_all(bytes.as_ref()),
            Stream::Tcp(stream) => stream.write_all(bytes.as_ref()),
        }
    }

    /// Says that nothing more will be sent, and keeps reading.
    pub fn half_close(&mut self) -> &mut Self {
        // A proxy that has answered and closed makes this fail, which is as good.
        let _ = match &self.stream {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
        };
        self
    }

    /// Reads what has come, up to the size of `buffer`; 0 is the end.
    ///
    /// A reset counts as the end: a server that closes with unread bytes sends one after its
    /// answer, and whether the answer is whole is the parser's to say.
    #[track_caller]
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        let read = loop {
            let read = match &mut self.stream {
                Stream::Unix(stream) => stream.read(buffer),
                Stream::Tcp(stream) => stream.read(buffer),
            };
            // A read with a time limit is not restarted by the kernel after a signal.
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

    /// Reads until `needle` has arrived; returns all that was received so far.
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

    /// Forgets what was received so far.
    pub fn forget(&mut self) -> &mut Self {
        self.received.clear();
        self
    }

    /// Everything until the end of the stream, with what was received before.
    #[track_caller]
    pub fn rest(mut self) -> Vec<u8> {
        while self.read_more() > 0 {}
        self.received
    }

    /// The whole answer.
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
