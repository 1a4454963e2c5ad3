//! A client connection: writes responses and detects the disconnect.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::time::Duration;

use aifo_process::PinnedProcess;
use aifo_sidecar::Socket;
use aifo_wire::Limits;
use nix::sys::socket::sockopt::{PeerCredentials, SndBuf};
use nix::sys::socket::{getsockopt, setsockopt};

/// Bytes of the send buffer of a connection that takes a tool output.
const SEND_BUFFER: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientTransport {
    Unix,
    Tcp,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: Socket,
    transport: ClientTransport,
}

impl Client {
    pub(crate) fn new(socket: Socket, transport: ClientTransport) -> Self {
        Client { socket, transport }
    }

    /// Enlarges the send buffer, as far as the system grants it, for a response with a tool output:
    /// with room for several chunks, proxy and client work concurrently instead of waking each other
    /// for each chunk.
    pub(crate) fn enlarge_send_buffer(&self) {
        // The response is slower without it.
        let _ = setsockopt(&self.socket, SndBuf, &SEND_BUFFER);
    }

    /// Returns the client's process, on this machine and in this or an inner PID namespace.
    pub(crate) fn process(&self) -> Option<PinnedProcess> {
        if self.transport == ClientTransport::Tcp {
            return None;
        }
        let peer = getsockopt(&self.socket, PeerCredentials).ok()?.pid();
        // 0 is one of another namespace.
        PinnedProcess::open(u32::try_from(peer).ok().filter(|pid| *pid > 0)?).ok()
    }

    /// Takes the connection off the reactor, to hand it to a runner.
    pub(crate) fn park(self) -> ParkedClient {
        ParkedClient { fd: self.socket.into_fd(), transport: self.transport }
    }

    /// Waits until the client has disconnected.
    ///
    /// A unix client that shut down only its sending half still waits for the response. On TCP a full
    /// close looks the same, so there the end of the stream is the disconnect
    /// (`spec/toolexec.md#disconnect`). Bytes after the request are discarded up to `surplus`, and not
    /// read beyond.
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
        // A socket error is a disconnect too.
        let _ = self.socket.hangup().await;
    }

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

    /// Closes after a response to an incomplete request. First discards input, within limits: to close
    /// at once would reset the connection before the client has read the response.
    pub(crate) async fn linger(self, limits: &Limits) {
        self.socket.shutdown(Shutdown::Write);
        // The connection closes in any case.
        let _ = tokio::time::timeout(limits.drain_time, self.drain(limits.max_drain)).await;
    }

    /// Closes after a complete exchange. Discards bytes that have already arrived, for the same reason.
    pub(crate) async fn close(self, limits: &Limits) {
        let _ = tokio::time::timeout(Duration::ZERO, self.drain(limits.max_surplus)).await;
    }

    async fn drain(&self, bound: usize) {
        let mut scratch = vec![0; 4 * 1024];
        let mut left = bound;
        while left > 0 {
            match self.socket.receive(&mut scratch).await {
                Ok(0) | Err(_) => return,
                Ok(count) => left = left.saturating_sub(count),
            }
        }
    }
}

/// A connection that a runner may use. The proxy's descriptor closes on drop.
#[derive(Debug)]
pub(crate) struct ParkedClient {
    pub(crate) fd: OwnedFd,
    transport: ClientTransport,
}

impl ParkedClient {
    pub(crate) fn unpark(self) -> Client {
        Client::new(Socket::new(self.fd), self.transport)
    }
}

/// The number of bytes to discard after a request.
#[derive(Debug)]
pub(crate) struct SurplusBudget {
    left: usize,
}

impl SurplusBudget {
    pub(crate) fn new(limits: &Limits) -> Self {
        SurplusBudget { left: limits.max_surplus }
    }
}
