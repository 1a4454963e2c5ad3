//! The limits on peers.

use std::time::Duration;

/// The limits on a peer's bytes and time (`spec/toolexec.md#limits`).
///
/// Sizes are in bytes. The readers enforce them; the owner of the sockets enforces times and
/// counts.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Header lines in one head, without the request line; then 431. Set by the protocol. Apache
    /// allows 100, nginx limits only bytes.
    pub max_headers: usize,
    /// One head, including line ends and preceding empty lines; then 431. Apache allows 8 KiB per
    /// line, nginx 32 KiB in total, Node 16 KiB, hyper about 400 KiB.
    pub max_head: usize,
    /// A decoded request body; then 413. Set by the protocol.
    pub max_body: usize,
    /// Bytes of a refused request's body that are read and discarded, so that the client receives
    /// the response and not a reset. Also the maximum of a chunked body before decoding, which
    /// bounds tiny chunks with long extensions. One-byte chunks (6 bytes each) fit: it is 16 times
    /// the body.
    pub max_drain: usize,
    /// One chunk's size line without its line end: 16 digits and a short extension. Clients of this
    /// protocol send no extension. Go allows 4 KiB, h11 limits only the digits.
    pub max_chunk_line: usize,
    /// All trailer lines with line ends. This protocol's own is 18 bytes; hyper allows 16 KiB.
    pub max_trailer: usize,
    /// Bytes read after a request body before the connection is closed. A connection carries one
    /// request; curl and Node send nothing after it.
    pub max_surplus: usize,
    /// From accept to the complete head. nginx and Node wait 60 s, Apache 20 s; these clients are
    /// on the same machine and write the head at once.
    pub head_timeout: Duration,
    /// Between two reads of an incomplete body; then 408. nginx waits 60 s, Apache 20 s.
    pub body_stall: Duration,
    /// Time to read a refused request's body; equal to nginx's `lingering_timeout`.
    pub drain_time: Duration,
    /// Tools running at once; then 429. Each needs about three descriptors in the proxy.
    pub max_executions: usize,
    /// Calls that wait for a user's approval; then 429.
    pub max_unapproved: usize,
    /// Arguments and variables of a call that waits for approval; then 403. So waiting calls hold at
    /// most two thirds of `max_memory`.
    pub max_asked: usize,
    /// Connections whose request is incomplete or being refused.
    pub max_waiting: usize,
    /// Memory for all requests that are read or wait for their tool, parsed arguments included, and
    /// for buffered output, which gets at most half; then 503. Holds the largest argument list that
    /// Linux accepts from a caller with the usual stack of 8 MiB.
    pub max_memory: usize,
    /// All version 1 responses on disk; then 500 with 125.
    pub max_spool: usize,
    /// One text of a log record; the rest is cut off. `PATH_MAX` of Linux.
    pub max_log_text: usize,
    /// The file of the log of calls; then it is rotated. One older file is kept.
    pub max_log: usize,
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
            max_unapproved: 64,
            max_asked: 256 * KIB,
            max_waiting: 256,
            max_memory: 24 * MIB,
            max_spool: 1024 * MIB,
            max_log_text: 4 * KIB,
            max_log: 8 * MIB,
        }
    }
}

const KIB: usize = 1024;
pub(crate) const MIB: usize = 1024 * KIB;
