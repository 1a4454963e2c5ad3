//! ACP profiles of agents (`spec/agents.md#acp`): command, served methods, and differences from the
//! protocol.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::pairs;

/// The facts that a client needs before it connects to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default = "without_command", deny_unknown_fields)]
pub struct AcpProfile {
    /// The program in its image, with its arguments.
    pub command: Vec<String>,
    /// True if `fs/read_text_file` and `fs/write_text_file` are served: only to agents that work
    /// with them.
    pub fs: bool,
    /// True if `terminal/*` is served: only to agents that run commands by it.
    pub terminal: bool,
    /// The reply when it reads a missing file.
    pub missing_file: MissingFileReply,
    /// How its message chunks are to be joined.
    pub stream: ChunkMode,
    /// The id of the option that allows once, if several options claim to.
    pub allow_option: Option<String>,
    /// Time limit of its reply to `initialize`.
    #[serde(rename = "initialize_secs", deserialize_with = "seconds")]
    pub initialize: Duration,
    /// True if it keeps running when its stdin ends, so it has to be killed.
    pub kill_on_eof: bool,
    /// Variables that are set in this mode only, with their values.
    #[serde(deserialize_with = "pairs")]
    pub set: Vec<(String, String)>,
}

/// The reply to a read of a missing file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingFileReply {
    /// The protocol's error.
    #[default]
    Error,
    /// An empty text, for agents that cannot create a file after an error.
    Empty,
}

/// Content of a message chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChunkMode {
    /// A piece of the message.
    #[default]
    Delta,
    /// The whole message so far.
    Snapshot,
    /// Detected from the chunks.
    Auto,
}

impl AcpProfile {
    /// Returns a profile with defaults: nothing is served.
    pub fn plain(command: Vec<String>) -> Self {
        AcpProfile {
            command,
            fs: false,
            terminal: false,
            missing_file: MissingFileReply::default(),
            stream: ChunkMode::default(),
            allow_option: None,
            initialize: INITIALIZE,
            kill_on_eof: false,
            set: Vec::new(),
        }
    }
}

impl ChunkMode {
    /// Parses the value of the configuration file.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [ChunkMode::Delta, ChunkMode::Snapshot, ChunkMode::Auto];
        all.into_iter().find(|known| known.as_str() == word)
    }

    /// Returns the value of the configuration file.
    pub fn as_str(self) -> &'static str {
        match self {
            ChunkMode::Delta => "delta",
            ChunkMode::Snapshot => "snapshot",
            ChunkMode::Auto => "auto",
        }
    }
}

fn without_command() -> AcpProfile {
    AcpProfile::plain(Vec::new())
}

fn seconds<'de, D: Deserializer<'de>>(number: D) -> Result<Duration, D::Error> {
    u64::deserialize(number).map(Duration::from_secs)
}

/// Loading an agent's runtime has taken twenty seconds on a busy machine.
const INITIALIZE: Duration = Duration::from_secs(60);
