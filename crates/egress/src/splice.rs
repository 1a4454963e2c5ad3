//! Relays bytes between a client and a host outside, in both directions.
//!
//! In scope: half-closed connections, back-pressure, counts, and the end of the only request of an HTTP
//! connection. An idle connection has no buffer; a stalled direction holds at most [`BUFFER`] bytes.

use std::cell::RefCell;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;

use crate::body::Body;
use crate::event::ConnectionError;
use crate::limits::Limits;

/// Relayed bytes of a connection.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// To the host outside.
    pub(crate) sent: AtomicU64,
    /// To the client.
    pub(crate) received: AtomicU64,
}

/// Bytes per read. One buffer per thread serves all connections. Over loopback this is half again as fast
/// as 64 KiB, and as fast as splice(2).
const BUFFER: usize = 256 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into_boxed_slice());
}

/// Relays all bytes between two connections until both sides closed or one failed, which resets the other
/// one. An idle connection stays open, a half-closed one as [`Limits`] says.
pub async fn relay(mut client: TcpStream, mut server: TcpStream) {
    let (counts, limits) = (Counts::default(), Limits::default());
    if splice(&mut client, &mut server, None, &counts, &limits).await.is_err() {
        for side in [client, server] {
            // Closing then resets the connection.
            let _ = side.set_zero_linger();
        }
    }
}

/// Relays until both sides closed, or one failed. With a `body`, the server receives only its bytes from
/// the client, and further ones are discarded.
pub(crate) async fn splice(
    client: &mut TcpStream,
    server: &mut TcpStream,
    body: Option<Body>,
    counts: &Counts,
    limits: &Limits,
) -> Result<(), ConnectionError> {
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let idle = IdleLimit::default();
    let request = async {
        match body {
            None => pump(client_read, server_write, &counts.sent, &idle, limits).await?,
            Some(body) => {
                pump_body(client_read, server_write, body, &counts.sent, &idle, limits).await?;
            }
        }
        idle.set(limits.half_closed);
        Ok(())
    };
    let response = async {
        pump(server_read, client_write, &counts.received, &idle, limits).await?;
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
    count: &AtomicU64,
    idle: &IdleLimit,
    limits: &Limits,
) -> Result<(), ConnectionError> {
    loop {
        match read_and_write(&from, &to).await? {
            Step::Moved(moved) => {
                count.fetch_add(moved as u64, Ordering::Relaxed);
            }
            Step::Rest { moved, rest } => {
                count.fetch_add(moved as u64, Ordering::Relaxed);
                if to.write_all(&rest).await.is_err() {
                    idle.set(limits.response_idle);
                    return Ok(());
                }
                count.fetch_add(rest.len() as u64, Ordering::Relaxed);
            }
            Step::Closed => {
                idle.set(limits.response_idle);
                return Ok(());
            }
            Step::End => break,
        }
    }
    // The other side may be gone already.
    let _ = to.shutdown().await;
    Ok(())
}

/// The result of one read.
enum Step {
    /// All bytes were written at once.
    Moved(usize),
    /// The rest must wait.
    Rest { moved: usize, rest: Vec<u8> },
    /// The writing side takes no more bytes.
    Closed,
    /// There are no more bytes.
    End,
}

async fn read_and_write(from: &ReadHalf<'_>, to: &WriteHalf<'_>) -> io::Result<Step> {
    loop {
        from.readable().await?;
        let step: io::Result<Step> = SCRATCH.with_borrow_mut(|scratch| {
            let length = from.try_read(scratch)?;
            if length == 0 {
                return Ok(Step::End);
            }
            let moved = match to.try_write(&scratch[..length]) {
                Ok(moved) => moved,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(_) => return Ok(Step::Closed),
            };
            Ok(match &scratch[moved..length] {
                [] => Step::Moved(moved),
                rest => Step::Rest { moved, rest: rest.to_vec() },
            })
        });
        match step {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            step => {
                tokio::task::coop::consume_budget().await;
                return step;
            }
        }
    }
}

/// Relays a request's body, then discards bytes until the client closes.
async fn pump_body(
    from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut body: Body,
    count: &AtomicU64,
    idle: &IdleLimit,
    limits: &Limits,
) -> Result<(), ConnectionError> {
    loop {
        from.readable().await?;
        let read = SCRATCH.with_borrow_mut(|scratch| {
            let length = from.try_read(scratch)?;
            let taken = body.take(&scratch[..length]);
            Ok((length, taken.map(|taken| scratch[..taken].to_vec())))
        });
        match read {
            Err(error) if io::Error::kind(&error) == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
            Ok((0, _)) => break,
            Ok((length, taken)) => {
                let taken = taken?;
                if to.write_all(&taken).await.is_err() {
                    idle.set(limits.response_idle);
                    return Ok(());
                }
                count.fetch_add(taken.len() as u64, Ordering::Relaxed);
                if taken.len() < length {
                    idle.set(limits.response_idle);
                }
            }
        }
        tokio::task::coop::consume_budget().await;
    }
    let _ = to.shutdown().await;
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
    async fn exceeded(&self, counts: &Counts) -> ConnectionError {
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
