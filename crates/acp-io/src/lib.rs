//! The tokio side of the Agent Client Protocol (`spec/acp.md#processes`): an agent as a process with
//! three pipes, and what drives a [`Client`](aifo_acp::Client) with them.
//!
//! In scope: pipes that never block each other, the end of an agent and of all that it started, the
//! log of what went over the wire.
//!
//! Out of scope: what the agent may do, and where it runs: whoever starts it hands in a command.

mod bridge;
mod calls;
mod conversation;
mod host;
mod peer;
mod pipe;
mod replay;
mod stdio;
mod tail;
mod wire_log;

pub use bridge::Bridge;
pub use conversation::Conversation;
pub use host::{Ended, Host, NoHost, Served};
pub use peer::{Peer, PeerEnd, PeerLimits};
pub use replay::{Misfit, News, Replay, Told, replay};
pub use stdio::Stdio;
pub use wire_log::{Encoding, Entry, Line, Pipe, What, WireLog, WireLogLimits, parts};
