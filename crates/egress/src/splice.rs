//! Relays bytes between a client and a host outside, in both directions.
//!
//! In scope: half-closed connections, back-pressure, counts, and the end of the only request of an HTTP
//! connection. An idle connection has no buffer.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;

use crate::body::Body;
use crate::buffer::Buffer;
use crate::event::ConnectionError;
use crate::limits::Limits;

/// Relayed bytes of a connection.
#[derive(Debug, Default)]
pub struct ByteCounts {
    /// To the host outside.
    pub(crate) sent: AtomicU64,
    /// To the client.
    pub(crate) received: AtomicU64,
}

impl ByteCounts {
    /// Returns the bytes to the server.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the bytes to the client.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// Bytes of a direction after which other connections have their turn.
const TURN: usize = 1 << 20;

/// Relays all bytes between two connections until both sides closed or one failed. An idle connection stays
/// open, a half-closed one as [`Limits`] says. Errors: one failed, and the caller resets the other one.
pub async fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
    counts: &ByteCounts,
) -> Result<(), ConnectionError> {
    splice(client, server, None, counts, &Limits::default()).await
}

/// Relays until both sides closed, or one failed. With a `body`, the server receives only its bytes from
/// the client, and further ones are discarded.
pub(crate) async fn splice(
    client: &mut TcpStream,
    server: &mut TcpStream,
    body: Option<Body>,
    counts: &ByteCounts,
    limits: &Limits,
) -> Result<(), ConnectionError> {
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let idle = IdleLimit::default();
    let request = async {
        pump(client_read, server_write, body, &counts.sent, &idle, limits).await?;
        idle.set(limits.half_closed);
        Ok(())
    };
    let response = async {
        pump(server_read, client_write, None, &counts.received, &idle, limits).await?;
        idle.set(limits.half_closed);
        Ok::<(), ConnectionError>(())
    };
    tokio::select! {
        ended = async { tokio::try_join!(request, response) } => ended.map(|_| ()),
        error = idle.exceeded(counts) => Err(error),
    }
}

/// Relays one direction until its end, then closes it.
///
/// An error of `from` is returned. If `to` takes no more bytes, the direction ends: its other direction
/// may still have a response, such as of a server that refuses a long request.
async fn pump(
    from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut body: Option<Body>,
    count: &AtomicU64,
    idle: &IdleLimit,
    limits: &Limits,
) -> Result<(), ConnectionError> {
    loop {
        from.readable().await?;
        // Only while there are bytes.
        let mut buffer = Buffer::take();
        let mut moved = 0;
        loop {
            let length = match from.try_read(&mut buffer) {
                Ok(0) => {
                    // The other side may be gone already.
                    let _ = to.shutdown().await;
                    return Ok(());
                }
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            };
            let taken = match &mut body {
                None => length,
                Some(body) => body.take(&buffer[..length])?,
            };
            let written = write_all(&to, &buffer[..taken], count).await;
            // Further requests are discarded.
            if written.is_err() || taken < length {
                idle.set(limits.response_idle);
            }
            if written.is_err() {
                return Ok(());
            }
            moved += length;
            if moved >= TURN {
                tokio::task::yield_now().await;
                moved = 0;
            }
        }
    }
}

async fn write_all(to: &WriteHalf<'_>, mut bytes: &[u8], count: &AtomicU64) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(written) => {
                count.fetch_add(written as u64, Ordering::Relaxed);
                bytes = &bytes[written..];
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The time without a byte after which a connection ends; none at first.
#[derive(Default)]
struct IdleLimit {
    limit: Mutex<Option<Duration>>,
    changed: Notify,
}

impl IdleLimit {
    /// Sets the limit, if it is the shortest one.
    fn set(&self, limit: Duration) {
        let mut current = self.limit.lock().unwrap_or_else(|error| error.into_inner());
        if current.is_none_or(|current| limit < current) {
            *current = Some(limit);
            self.changed.notify_one();
        }
    }

    /// Waits until the connection was idle for too long.
    async fn exceeded(&self, counts: &ByteCounts) -> ConnectionError {
        let total = || [&counts.sent, &counts.received].map(|count| count.load(Ordering::Relaxed));
        loop {
            let limit = *self.limit.lock().unwrap_or_else(|error| error.into_inner());
            let Some(limit) = limit else {
                self.changed.notified().await;
                continue;
            };
            let before = total();
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(limit) => if total() == before {
                    return ConnectionError::HalfClosed(limit);
                }
            }
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        ConnectionError::Broken(error.to_string())
    }
}
