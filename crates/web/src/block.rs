//! The entries of a session history, as they are stored.

use serde::{Deserialize, Serialize};

/// One entry (`spec/web.md#history`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block {
    /// A prompt of the user.
    Prompt {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// The idempotency key of the request.
        request: String,
        time: u64,
    },
    /// A run of the agent's text.
    Text { thought: bool, text: String },
    /// The agent image, stored under this name.
    Image { name: String },
    /// A block of another type.
    Other { kind: String, text: String },
    /// A tool call.
    Tool(Box<ToolBlock>),
    /// A permission request.
    Question(Box<QuestionBlock>),
    /// The end of a turn.
    TurnEnd {
        outcome: String,
        error: Option<String>,
        usage: Option<String>,
        time: u64,
        millis: u64,
    },
    /// A message of aifo.
    Notice { text: String, is_error: bool, time: u64 },
}

/// A file that was sent with a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attachment {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// The name of a stored image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
}

/// A tool call, as far as the page shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolBlock {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) kind: String,
    /// The protocol's status, or why the call is unfinished.
    pub(crate) status: String,
    pub(crate) is_open: bool,
    pub(crate) command: Option<String>,
    pub(crate) paths: Vec<String>,
    pub(crate) content: Vec<ToolContent>,
    /// Milliseconds since 1970.
    pub(crate) started: u64,
    pub(crate) ended: Option<u64>,
    /// The calls that its session log has for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<ToolRun>,
}

/// A piece of a tool call's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToolContent {
    /// The end of an output.
    Output { text: String, is_cut: bool },
    /// An edit of a file.
    Diff { path: String, lines: Vec<DiffLine>, is_cut: bool },
    /// A stored image.
    Image { name: String },
}

/// A line of a diff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiffLine(pub(crate) DiffKind, pub(crate) String);

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DiffKind {
    #[serde(rename = "=")]
    Same,
    #[serde(rename = "+")]
    Added,
    #[serde(rename = "-")]
    Removed,
    /// Unchanged lines that are left out.
    #[serde(rename = "@")]
    Gap,
}

/// A call in the log of the session (`spec/log.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolRun {
    pub(crate) command: String,
    pub(crate) kind: String,
    pub(crate) ending: String,
    /// False if it is known to have succeeded, or to have run in place.
    #[serde(default)]
    pub(crate) has_failed: bool,
    /// `None` if it is not known.
    pub(crate) millis: Option<u64>,
}

/// A permission request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuestionBlock {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) kind: String,
    pub(crate) command: Option<String>,
    pub(crate) paths: Vec<String>,
    pub(crate) directory: String,
    pub(crate) reason: String,
    /// Id, kind and name of each option.
    pub(crate) options: Vec<(String, String, String)>,
    pub(crate) state: QuestionEnd,
    pub(crate) time: u64,
}

/// The state of a permission request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QuestionEnd {
    Pending,
    /// The selected option, and the rule or the user that selected it.
    Answered {
        option: String,
        by: String,
    },
    Withdrawn {
        why: String,
    },
}

impl Block {
    /// Ends what a stopped server has left open. Returns whether anything changed.
    pub(crate) fn interrupt(&mut self, why: &str, now: u64) -> bool {
        match self {
            Block::Tool(call) if call.is_open => {
                call.is_open = false;
                call.status = "abandoned".to_owned();
                call.ended = Some(now);
                true
            }
            Block::Question(question) if question.state == QuestionEnd::Pending => {
                question.state = QuestionEnd::Withdrawn { why: why.to_owned() };
                true
            }
            _ => false,
        }
    }

    /// Returns about how many bytes the entry takes.
    pub(crate) fn weight(&self) -> usize {
        let inner = match self {
            Block::Prompt { text, .. } | Block::Text { text, .. } => text.len(),
            Block::Other { text, .. } | Block::Notice { text, .. } => text.len(),
            Block::Image { .. } | Block::TurnEnd { .. } => 100,
            Block::Question(question) => {
                question.title.len() + question.command.as_deref().map_or(0, str::len) + 500
            }
            Block::Tool(call) => call.weight(),
        };
        inner.saturating_add(100)
    }
}

impl ToolBlock {
    fn weight(&self) -> usize {
        let content = self.content.iter().map(|content| match content {
            ToolContent::Output { text, .. } => text.len(),
            ToolContent::Diff { lines, .. } => lines.iter().map(|line| line.1.len() + 16).sum(),
            ToolContent::Image { .. } => 64,
        });
        self.title.len()
            + self.command.as_deref().map_or(0, str::len)
            + content.sum::<usize>()
            + 300
    }
}
