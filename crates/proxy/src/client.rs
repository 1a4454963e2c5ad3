//! One connection from a client: what it may still be told, and whether it is still there.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::time::Duration;

use aifo_sidecar::Socket;
use aifo_wire::Limits;

/// How a client came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientTransport {
    Unix,
    Tcp,
}

/// A connected client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: Socket,
    transport: ClientTransport,
}

impl Client {
    pub(crate) fn new(socket: Socket, transport: ClientTransport) -> Self {
        Client { socket, transport }
    }

    /// Leaves the connection to somebody else, for now or for good.
    pub(crate) fn park(self) -> ParkedClient {
        ParkedClient { fd: self.socket.into_fd(), transport: self.transport }
    }

    /// Waits until the client has gone.
    ///
    /// A unix client that only closed its sending half still waits for its answer. On TCP a full
    /// close looks the same, so there the end of the stream is the disconnect
    /// (`spec/toolexec.md#disconnect`). What a client sends behind its request is thrown away, up
    /// to a bound; whoever goes on sending is not read any more.
    pub(crate) async fn disconnected(&self, surplus: &mut SurplusBudget) {
        if self.transport == ClientTransport::Tcp {
            let mut scratch = [0; 4096];
            while surplus.left > 0 {
                match self.socket.receive(&mut scratch).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => surplus.left = surplus.left.saturating_sub(count),
                }
            }
        }
        // Whatever went wrong with the socket, there is nobody to talk to.
        let _ = self.socket.hangup().await;
    }

    /// Sends the concatenation of `parts`, all of it.
    pub(crate) async fn send_parts(&self, parts: [&[u8]; 3]) -> io::Result<()> {
        let mut left = parts;
        while left.iter().any(|part| !part.is_empty()) {
            let slices = left.map(IoSlice::new);
            let mut sent = self.socket.send_parts(&slices).await?;
            for part in &mut left {
                let taken = sent.min(part.len());
                *part = &part[taken..];
                sent -= taken;
            }
        }
        Ok(())
    }

    /// Closes after an answer that came before the request was read to its end: what the client
    /// still sends is read and thrown away, boundedly, so that it gets to read the answer. Closing
    /// at once would reset the connection under it.
    pub(crate) async fn linger(self, limits: &Limits) {
        self.socket.shutdown(Shutdown::Write);
        // Either way the connection closes now.
        let _ = tokio::time::timeout(limits.drain_time, self.drain(limits.max_drain)).await;
    }

    /// Closes after a complete exchange. SurplusBudget bytes that are there already are taken off, for
    /// the same reason.
    pub(crate) async fn close(self, limits: &Limits) {
        let _ = tokio::time::timeout(Duration::ZERO, self.drain(limits.max_surplus)).await;
    }

    async fn drain(&self, bound: usize) {
        let mut scratch = vec![0; 16 * 1024];
        let mut left = bound;
        while left > 0 {
            match self.socket.receive(&mut scratch).await {
                Ok(0) | Err(_) => return,
                Ok(count) => left = left.saturating_sub(count),
            }
        }
    }
}

/// A connection that somebody else talks on. It closes, on our side, when this is dropped.
#[derive(Debug)]
pub(crate) struct ParkedClient {
    pub(crate) fd: OwnedFd,
    transport: ClientTransport,
}

impl ParkedClient {
    /// Takes the connection back.
    pub(crate) fn unpark(self) -> io::Result<Client> {
        Ok(Client::new(Socket::new(self.fd)?, self.transport))
    }
}

/// How much a client may still send behind its request.
#[derive(Debug)]
pub(crate) struct SurplusBudget {
    left: usize,
}

impl SurplusBudget {
    pub(crate) fn new(limits: &Limits) -> Self {
        SurplusBudget { left: limits.max_surplus }
    }
}
