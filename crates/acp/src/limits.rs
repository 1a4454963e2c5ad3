//! Every bound an agent can run into, in one place.

use std::time::Duration;

/// How much of an agent's bytes, things and time we take before we give up (`spec/acp.md#limits`).
///
/// Sizes are bytes unless the name says otherwise.
#[derive(Clone, Debug)]
pub struct Limits {
    /// One line of an agent, without its `\n`. Real agents have sent 561 357 bytes in one; acpx
    /// takes 64 MiB, toad 10 MiB. A longer one is skipped to its end.
    pub frame: usize,
    /// What is kept of a line that is too long, to find out whose it was.
    pub frame_head: usize,
    /// One line of ours. A longer one is refused before a byte of it is written.
    pub frame_out: usize,
    /// JSON values in one line. A line of `[0,0,0,..` takes 36 times its length once it is parsed;
    /// the longest seen of a real agent has some ten thousand.
    pub values: usize,
    /// What is kept of the lines that are no messages, the newest.
    pub non_json_tail: usize,
    /// Requests of the agent that wait for us; one more is answered with -32603.
    pub requests: usize,
    /// Updates of sessions that we do not know, kept while one is being opened.
    pub early_updates: usize,
    /// The weight of these.
    pub early_bytes: usize,
    /// Updates that count in one turn.
    pub turn_updates: usize,
    /// The weight of what a turn keeps: its texts, its blocks and their order.
    pub turn_bytes: usize,
    /// Distinct names of updates that a turn counts apart.
    pub turn_kinds: usize,
    /// Tool calls of a session. The one that rests longest makes room, ended ones first.
    pub tool_calls: usize,
    /// The weight of all tool calls of a session.
    pub tool_bytes: usize,
    /// One image, decoded.
    pub image: usize,
    /// From `initialize` to its answer. On two busy cores real agents took up to 21 s.
    pub initialize: Duration,
    /// From opening a session to its answer, and for every other request that is no prompt.
    pub request: Duration,
    /// A turn in which nothing comes and nothing is owed to the agent.
    pub prompt_idle: Duration,
    /// A whole turn; `None` for as long as it takes.
    pub prompt_total: Option<Duration>,
    /// From a permission's request to its decision.
    pub permission: Duration,
    /// From `session/cancel` to the turn's end. Real agents took up to 573 ms.
    pub cancel_grace: Duration,
    /// After a prompt's answer: the quiet after which nothing more is expected.
    pub drain_idle: Duration,
    /// After a prompt's answer: the longest that is waited for quiet.
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
            image: 10 * MIB,
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
