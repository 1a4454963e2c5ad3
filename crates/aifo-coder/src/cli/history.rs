//! Commands about checkpoints: `spec/history.md`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Changes {
    /// Print the changed lines
    #[arg(short, long)]
    pub(crate) patch: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "patch")]
    pub(crate) json: bool,
    /// Name of a session or beginning of its id, beginning of a call's id, and files or directories [default: the
    /// session of the current project]
    #[arg(value_name = "SESSION|CALL|PATH")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// Undo the last turn of the agent that changed something
    #[arg(long, conflicts_with = "session")]
    pub(crate) turn: bool,
    /// Undo everything since the session's start
    #[arg(long)]
    pub(crate) session: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Name of a session or beginning of its id, beginning of a call's id, and files or directories [default: the
    /// last call of the current project's session that changed something]
    #[arg(value_name = "SESSION|CALL|PATH")]
    pub(crate) words: Vec<String>,
}
