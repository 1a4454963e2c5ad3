//! An agent's state: whose it is, and the files of the user that are copied into it.

use std::path::PathBuf;

/// The state that an agent in a container works with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateMode {
    /// A copy for this agent and project, kept by aifo.
    #[default]
    Own,
    /// The user's own, mounted writable.
    Host,
}

/// The part of the user's state that is copied into a new state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateImport {
    /// Settings without commands.
    #[default]
    Settings,
    /// Also conversations, once.
    Conversations,
}

/// A file of an agent, and the part of it that aifo copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// The user's file, relative to HOME.
    pub from: PathBuf,
    /// The copy, relative to the container's HOME.
    pub to: PathBuf,
    /// How it is parsed.
    pub format: FileFormat,
    /// The keys that are copied, as `a.*.b`, where `*` is any name or index and a final `**` is
    /// everything below; only plain values and lists of them. `a.b=one|other` copies only these
    /// words. A text has no keys.
    pub keys: Vec<String>,
}

/// The format of an agent's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// A JSON object.
    Json,
    /// A TOML table.
    Toml,
    /// Lines `NAME=VALUE`; other lines are ignored.
    Env,
    /// A text, which is copied whole.
    Text,
}
