//! Limits on an agent input and time.

use std::time::Duration;

/// Limits of size, count and time (`spec/acp.md#limits`). Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// One incoming line, without its `\n`. A longer one is skipped. Observed: 561 357 bytes; acpx
    /// allows 64 MiB, toad 10 MiB.
    pub frame: usize,
    /// Bytes kept of an oversized line, to find its id.
    pub frame_head: usize,
    /// One outgoing line. A longer message is rejected unwritten.
    pub frame_out: usize,
    /// JSON values in one line. Parsing `[0,0,0,..` takes 36 times its length; real agents send
    /// some ten thousand values.
    pub values: usize,
    /// The last bytes kept of non-JSON output.
    pub non_json_tail: usize,
    /// Pending agent requests; one more is answered with -32603.
    pub requests: usize,
    /// Updates of unknown sessions, kept while a session is being opened.
    pub early_updates: usize,
    /// Memory of these.
    pub early_bytes: usize,
    /// Updates processed in one turn.
    pub turn_updates: usize,
    /// Memory of a turn's texts, blocks and order.
    pub turn_bytes: usize,
    /// Update kinds that a turn counts separately.
    pub turn_kinds: usize,
    /// Tool calls of a session. The least recently changed is evicted, ended ones first.
    pub tool_calls: usize,
    /// Memory of a session's tool calls.
    pub tool_bytes: usize,
    /// From `initialize` to its answer. Observed on two busy cores: up to 21 s.
    pub initialize: Duration,
    /// From any other request except a prompt to its answer.
    pub request: Duration,
    /// The longest time without input during a turn, while no agent request is pending.
    pub prompt_idle: Duration,
    /// The longest turn; `None` for no limit.
    pub prompt_total: Option<Duration>,
    /// From a permission request to its decision.
    pub permission: Duration,
    /// From `session/cancel` to the turn's end. Observed: up to 573 ms.
    pub cancel_grace: Duration,
    /// The pause after a prompt's answer that ends the turn.
    pub drain_idle: Duration,
    /// The longest wait for that pause.
    pub drain_total: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame: 32 * MIB,
            frame_head: 4 * KIB,
            frame_out: 16 * MIB,
            values: 256 * 1024,
            non_json_tail: 64 * KIB,
            requests: 64,
            early_updates: 256,
            early_bytes: 8 * MIB,
            turn_updates: 1_000_000,
            turn_bytes: 64 * MIB,
            turn_kinds: 64,
            tool_calls: 10_000,
            tool_bytes: 32 * MIB,
            initialize: Duration::from_secs(60),
            request: Duration::from_secs(60),
            prompt_idle: Duration::from_secs(600),
            prompt_total: None,
            permission: Duration::from_secs(300),
            cancel_grace: Duration::from_secs(5),
            drain_idle: Duration::from_millis(250),
            drain_total: Duration::from_secs(2),
        }
    }
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
