//! Configuration of a session, with the source of each value (`spec/config.md`).
//!
//! In scope: the table with a row for each key; files, environment and flags; and the session settings
//! that follow. The user's file overrides built-in values, the environment overrides the file, and flags
//! override both. The workspace file comes last and can only restrict, because an agent can edit it.
//!
//! Out of scope: commands and their output (`aifo-coder`).
//!
//! ```no_run
//! use aifo_config::{Flags, load};
//!
//! let config = load("/home/me/project".as_ref(), &Flags::default())?;
//! println!("{} toolchains", config.toolchains.value.list.len());
//! # Ok::<(), aifo_config::ConfigError>(())
//! ```
//!
//! Architecture invariant: no value is read again after the table; each has its source.

mod agents;
mod backend;
mod carried;
mod checks;
mod choices;
mod definition;
mod dropped;
mod environment;
mod error;
mod file;
mod flags;
mod format;
mod item;
mod key;
mod keys;
mod kinds;
mod kubernetes;
mod layers;
mod network;
mod paths;
mod permissions;
mod program;
mod registries;
mod rules;
mod session;
mod session_config;
mod session_error;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod toolchains;
mod user_file;
mod variables;
pub mod why;

pub use carried::carried_settings;
pub use checks::SessionCheck;
pub use choices::OnHangup;
pub use error::{ConfigError, UsageError, suggestion};
pub use file::File;
pub use flags::{
    Cluster, Containers, Flags, FlagsOf, Permissions, Pod, Project, Session, Smart, State,
    flag_words,
};
pub use key::ConfigEntry;
pub use kinds::{ToolEffect, ToolRule, is_engine_word};
pub use kubernetes::{parse_label, parse_subdomain};
pub use layers::{detach_keys, load, load_for_session, load_user};
pub use paths::{real, user_file_name, user_file_path, workspace_file_path};
pub use program::{ProgramImage, SessionProgram, without_effect};
pub use session_error::SessionError;
pub use source::Source;
pub use table::Config;
pub use toolchains::Toolchains;
pub use user_file::{CallRule, UserFileError, add_call_rule, add_net_rules, remove_net_rules};
pub use variables::{EnvEffect, EnvRule};
