//! How an agent is spoken to over ACP (`spec/agents.md#acp`): how it is started, what it is served, and
//! where it differs from what the protocol says.

use std::time::Duration;

/// What a client has to know of an agent before it speaks to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcpProfile {
    /// The program in its image, with its arguments.
    pub command: Vec<String>,
    /// Whether it is served files: `fs/read_text_file` and `fs/write_text_file`. Only agents that make
    /// do with it.
    pub fs: bool,
    /// Whether it is served terminals: `terminal/*`. Only agents that run commands by them.
    pub terminal: bool,
    /// What it is answered when it reads a file that is not there.
    pub missing_file: MissingFileReply,
    /// What the chunks of its messages are.
    pub stream: Stream,
    /// The id of the option that allows once, where several options say that they do.
    pub allow_option: Option<String>,
    /// How long its first answer may take.
    pub initialize: Duration,
    /// Whether it stays when its stdin ends, so that waiting for its end is no use.
    pub kill_on_eof: bool,
    /// The variables that it gets only when it is spoken to like this, with their values.
    pub set: Vec<(String, String)>,
}

/// What an agent is answered when it reads a file that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingFileReply {
    /// The protocol's error.
    #[default]
    Error,
    /// An empty text, for agents that could create no file after an error.
    Empty,
}

/// What the chunks of an agent's messages are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// Pieces of the message.
    #[default]
    Delta,
    /// All of the message so far.
    Snapshot,
    /// One of the two, which is found out.
    Auto,
}

impl AcpProfile {
    /// An agent that is started so, of which nothing else is known: nothing is served.
    pub fn plain(command: Vec<String>) -> Self {
        AcpProfile {
            command,
            fs: false,
            terminal: false,
            missing_file: MissingFileReply::default(),
            stream: Stream::default(),
            allow_option: None,
            initialize: INITIALIZE,
            kill_on_eof: false,
            set: Vec::new(),
        }
    }
}

impl MissingFileReply {
    /// What a configuration file calls it.
    pub fn parse(word: &str) -> Option<Self> {
        [MissingFileReply::Error, MissingFileReply::Empty]
            .into_iter()
            .find(|known| known.as_str() == word)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            MissingFileReply::Error => "error",
            MissingFileReply::Empty => "empty",
        }
    }
}

impl Stream {
    /// What a configuration file calls it.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Stream::Delta, Stream::Snapshot, Stream::Auto];
        all.into_iter().find(|known| known.as_str() == word)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Delta => "delta",
            Stream::Snapshot => "snapshot",
            Stream::Auto => "auto",
        }
    }
}

/// Agents that have their runtimes to load have taken twenty seconds on a busy machine.
const INITIALIZE: Duration = Duration::from_secs(60);
