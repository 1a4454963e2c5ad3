//! Configuration of a session, with the source of each value (`spec/config.md`).
//!
//! The user's file overrides built-in values, the environment overrides the file, and flags
//! override both. The workspace's file comes last and can only restrict, because an agent can edit
//! it.

mod acp;
mod agents;
mod attach;
mod containers;
mod environment;
mod error;
mod file;
mod flags;
mod permissions;
mod registries;
mod show;
mod source;
mod toolchains;
mod user;
mod values;
mod variables;
mod workspace;

use std::path::{Path, PathBuf};

use aifo_launch::detect_kinds;

pub(crate) use self::containers::{Backend, ContainerFlags, backend_words, net_words};
pub(crate) use self::error::ConfigError;
pub(crate) use self::file::{File, user_file_path, workspace_file_path};
pub(crate) use self::flags::Flags;
pub(crate) use self::permissions::parse_rule_keyword;
pub(crate) use self::show::{ConfigEntry, entries};
pub(crate) use self::source::{Source, Sourced};
pub(crate) use self::toolchains::{StartMode, Toolchains};
pub(crate) use self::values::{
    Config, EnvEffect, EnvRule, ToolEffect, ToolRule, confine_words, parse_confine, user_file_name,
};

/// Loads all layers for a session over `workspace`.
pub(crate) fn load(workspace: &Path, flags: &Flags) -> Result<Config, ConfigError> {
    let workspace = &real(workspace);
    let mut config = Config::builtin();
    if let Some(file) = user_file_path().map(|path| File::read(&path)).transpose()?.flatten() {
        file.check_outside(workspace)?;
        config.apply_user(&file)?;
    }
    config.apply_environment(&|name| std::env::var_os(name))?;
    config.apply_flags(flags)?;
    if config.toolchains.is_builtin() {
        let found = Toolchains::of(detect_kinds(workspace));
        config.toolchains = Sourced::new(found, Source::Detected(workspace.clone()));
    }
    config.add_attached_kinds();
    config.apply_versions(&|name| std::env::var_os(name))?;
    if let Some(file) = File::read(&workspace_file_path(workspace))? {
        config.tighten(&file)?;
    }
    Ok(config)
}

/// Loads the user's file only, for commands without a workspace.
pub(crate) fn load_user() -> Result<Config, ConfigError> {
    let mut config = Config::builtin();
    if let Some(file) = user_file_path().map(|path| File::read(&path)).transpose()?.flatten() {
        config.apply_user(&file)?;
    }
    Ok(config)
}

/// Returns the real path of the workspace, or `workspace` if it does not exist, which the session
/// reports.
pub(crate) fn real(workspace: &Path) -> PathBuf {
    workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned())
}
