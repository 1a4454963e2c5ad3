//! Limits of a gateway.

use std::time::Duration;

/// Limits of a gateway; each stack has its own counts. The defaults suit every session; tests set others.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections of a stack at once. Further ones are reset.
    pub connections: usize,
    /// DNS connections over TCP of a stack at once. Further ones are closed.
    pub dns_connections: usize,
    /// The time for a whole ClientHello, or a request head.
    pub first_bytes: Duration,
    /// The time for the addresses of a name.
    pub resolve: Duration,
    /// The time for a connection outside, over all addresses of a name, and for a parent proxy's response.
    pub connect: Duration,
    /// The time until the next address of a name is tried as well (RFC 8305).
    pub attempt: Duration,
    /// The time without a byte after which a connection ends that one side closed. An open connection
    /// may be idle forever.
    pub half_closed: Duration,
    /// The time without a byte of the response, after a client sent more than one request, or a side
    /// takes no more bytes.
    pub response_idle: Duration,
    /// The time for which a client may read the cause of a refusal.
    pub refusal: Duration,
    /// The time for which an address of a name may be used again.
    pub cache: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            dns_connections: 64,
            first_bytes: Duration::from_secs(10),
            resolve: Duration::from_secs(20),
            connect: Duration::from_secs(30),
            attempt: Duration::from_millis(250),
            half_closed: Duration::from_secs(600),
            response_idle: Duration::from_secs(5),
            refusal: Duration::from_secs(2),
            cache: Duration::from_secs(5),
        }
    }
}
