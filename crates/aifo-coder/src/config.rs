//! Configuration of a session, with the source of each value (`spec/config.md`).
//!
//! [`table`] has a row for each key. The user's file overrides built-in values, the environment
//! overrides the file, and flags override both. The workspace's file comes last and can only
//! restrict, because an agent can edit it.

mod agents;
mod carried;
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
mod registries;
mod rules;
mod session;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod toolchains;
mod variables;

pub(crate) use self::carried::carried_settings;
pub(crate) use self::choices::OnHangup;
pub(crate) use self::error::{ConfigError, suggestion};
pub(crate) use self::file::File;
pub(crate) use self::flags::{
    Cluster, Containers, Flags, FlagsOf, Permissions, Pod, Project, Session, Smart, State,
    flag_words,
};
pub(crate) use self::key::ConfigEntry;
pub(crate) use self::kinds::{ToolEffect, ToolRule, is_engine_word};
pub(crate) use self::kubernetes::{parse_label, parse_subdomain};
pub(crate) use self::layers::{load, load_user};
pub(crate) use self::paths::{
    links_below, real, user_file_name, user_file_path, workspace_file_path,
};
pub(crate) use self::source::Source;
pub(crate) use self::table::Config;
pub(crate) use self::toolchains::{StartMode, Toolchains};
pub(crate) use self::variables::{EnvEffect, EnvRule};
