//! Every bound a peer can run into, in one place.

use std::time::Duration;

/// How much of a peer's bytes and time we take before we give up (`spec/toolexec.md#limits`).
///
/// Sizes are bytes unless the name says otherwise. The two readers enforce the sizes; times and
/// counts are for whoever owns the sockets.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Header lines in one head, without the request line. The protocol's own cap; Apache allows
    /// 100, nginx bounds bytes only. One more is a 431.
    pub max_headers: usize,
    /// One whole head, with its line ends and any empty lines before it. Apache takes 8 KiB a
    /// line, nginx 32 KiB in all, Node 16 KiB, hyper some 400 KiB. One more is a 431.
    pub max_head: usize,
    /// A request's body after decoding. The protocol's own cap; one more is a 413.
    pub max_body: usize,
    /// How much of a body nobody wants is read and thrown away so that the client, still writing,
    /// sees the answer and not a reset; also the most a chunked body may take up before decoding,
    /// so that tiny chunks with long extensions cannot go on for ever. 16 times the body keeps
    /// even one-byte chunks (6 bytes each) within it.
    pub max_drain: usize,
    /// One chunk's size line without its line end. 16 digits and a short extension: no client of
    /// this protocol sends one, Go accepts 4 KiB, h11 bounds only the digits.
    pub max_chunk_line: usize,
    /// All trailer lines together, with line ends. Ours is 18 bytes; hyper takes 16 KiB.
    pub max_trailer: usize,
    /// What may follow a request's body on the same connection before it is closed without
    /// reading on. We answer one request; curl and Node send nothing after it.
    pub max_surplus: usize,
    /// From accepting a connection to its complete head. nginx waits 60 s, Node 60 s, Apache 20 s;
    /// our clients are on the same machine and write the head in one go.
    pub head_timeout: Duration,
    /// Between two reads of a body that is not complete; then 408. nginx waits 60 s, Apache 20 s.
    pub body_stall: Duration,
    /// How long a body nobody wants is read before the connection is closed regardless; as long as
    /// nginx's `lingering_timeout`.
    pub drain_time: Duration,
    /// Tools running at once; one more is a 429. Each costs the proxy three descriptors or so.
    pub max_executions: usize,
    /// Connections that have not become an execution yet: being read, or being refused.
    pub max_waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_headers: 1024,
            max_head: 64 * KIB,
            max_body: MIB,
            max_drain: 16 * MIB,
            max_chunk_line: 256,
            max_trailer: 8 * KIB,
            max_surplus: 64 * KIB,
            head_timeout: Duration::from_secs(10),
            body_stall: Duration::from_secs(30),
            drain_time: Duration::from_secs(5),
            max_executions: 512,
            max_waiting: 256,
        }
    }
}

const KIB: usize = 1024;
pub(crate) const MIB: usize = 1024 * KIB;
