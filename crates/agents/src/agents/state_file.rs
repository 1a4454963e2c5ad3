//! An agent state: whose it is, and the files of the user that are copied into it.

use std::path::PathBuf;

use serde::Deserialize;

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

/// Settings are written by hand; a larger file is not read.
pub(crate) const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// An agent file, and the part of it that aifo copies: only what is listed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateFile {
    /// The user's file, relative to HOME.
    pub from: PathBuf,
    /// The copy, relative to the container's HOME. An agent file omits it if the path is the same.
    #[serde(default)]
    pub to: PathBuf,
    /// How it is parsed.
    pub format: FileFormat,
    /// The keys that are copied, as `a.*.b`, where `*` is any name or index and a final `**` is
    /// everything below; only plain values and lists of them. `a.b=one|other` copies only these
    /// words. A text has no keys.
    ///
    /// No key of a known agent's settings names a program: no MCP server, hook, plugin or helper. A login
    /// that leads the agent elsewhere, such as a key with a server address, has only the listed words, as
    /// an agent in the container can write it.
    #[serde(default)]
    pub keys: Vec<String>,
}

/// The format of an agent file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
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
