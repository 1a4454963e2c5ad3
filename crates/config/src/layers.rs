//! The layers: the user's file, the environment, flags and the workspace file.

use std::path::Path;

use aifo_host::detect_kinds;
use aifo_launch::BackendChoice;
use aifo_terminal::DetachSequence;

use crate::carried::passed_settings;
use crate::error::ConfigError;
use crate::file::{File, FileTable};
use crate::flags::Flags;
use crate::item::Item;
use crate::key::{ConfigEntry, VariableLookup, extends};
use crate::paths::{real, workspace_file_path};
use crate::source::{Source, Sourced};
use crate::table::{ATTACH, Config, KEYS};
use crate::toolchains::{Toolchains, read_versions};

/// Loads all layers for a session over `workspace`. Errors, beside those of [`load`]: the user's file is in the
/// workspace, where an agent could extend its own permissions.
pub fn load_for_session(workspace: &Path, flags: &Flags) -> Result<Config, ConfigError> {
    if let Some(file) = user_file()? {
        file.check_outside(&real(workspace))?;
    }
    load(workspace, flags)
}

fn user_file() -> Result<Option<File>, ConfigError> {
    passed_settings().map_or_else(File::of_user, |passed| Ok(Some(passed)))
}

/// Loads all layers for a command about `workspace`, which need not be one of a session.
pub fn load(workspace: &Path, flags: &Flags) -> Result<Config, ConfigError> {
    let workspace = &real(workspace);
    let mut config = Config::builtin();
    if let Some(file) = user_file()? {
        config.apply_user(&file)?;
    }
    config.apply_environment(&|name| std::env::var_os(name))?;
    config.apply_flags(flags)?;
    if config.toolchains.is_builtin() {
        let mut found = Toolchains::of(detect_kinds(workspace));
        // A pod has the containers that it starts with.
        if config.backend.value != BackendChoice::Kubernetes {
            found.add_others(&config.kinds);
        }
        config.toolchains = Sourced::new(found, Source::Detected(workspace.clone()));
    }
    config.add_attached_kinds();
    read_versions(&mut config.toolchains.value, &|name| std::env::var_os(name))?;
    if let Some(file) = File::read(&workspace_file_path(workspace))? {
        config.tighten(&file)?;
    }
    Ok(config)
}

/// Loads the user's file only, for commands without a workspace.
pub fn load_user() -> Result<Config, ConfigError> {
    let mut config = Config::builtin();
    if let Some(file) = File::of_user()? {
        config.apply_user(&file)?;
    }
    Ok(config)
}

/// Returns the keys with which the user's file lets a client leave a session; `None` if none do. With an
/// error in the file they are the default ones: it must not keep a user out of a session.
pub fn detach_keys() -> Option<DetachSequence> {
    match load_user() {
        Ok(config) => config.detach_keys.value,
        Err(error) => {
            tracing::warn!("{error}");
            Some(DetachSequence::default())
        }
    }
}

impl Config {
    /// Overrides values with those of the user's file.
    pub fn apply_user(&mut self, file: &File) -> Result<(), ConfigError> {
        let table = file.table()?;
        let items = items(&table)?;
        for header in table.tables("kind") {
            self.kinds.define(&header)?;
        }
        for (index, item) in &items {
            if let Some(key) = KEYS.get(*index) {
                key.apply(self, item)?;
            }
        }
        Ok(())
    }

    /// Overrides values with the environment's. Empty variables are ignored.
    pub fn apply_environment(&mut self, lookup: VariableLookup<'_>) -> Result<(), ConfigError> {
        KEYS.iter().try_for_each(|key| key.read_environment(self, lookup))
    }

    /// Overrides values with the flags.
    pub fn apply_flags(&mut self, flags: &Flags) -> Result<(), ConfigError> {
        for key in KEYS {
            let names = key.names();
            let Some(flag) = names.flag else { continue };
            let words = flags.words(flag.long);
            if !words.is_empty() {
                key.apply(self, &Item::of_flag(names.key, flag.long, words))?;
            }
        }
        Ok(())
    }

    /// Restricts the configuration. Errors: keys that would extend it, and invalid values.
    pub fn tighten(&mut self, file: &File) -> Result<(), ConfigError> {
        let table = file.table()?;
        let items = items(&table)?;
        let keys = || items.iter().filter_map(|(index, item)| Some((KEYS.get(*index)?, item)));
        for (key, item) in keys() {
            if let Some(effect) = key.objection() {
                return Err(extends(item, effect));
            }
        }
        keys().try_for_each(|(key, item)| key.tighten(self, item))
    }

    /// Returns the rows of `config show`.
    pub fn entries(&self) -> Vec<ConfigEntry> {
        KEYS.iter().flat_map(|key| key.show(self)).collect()
    }

    /// Adds attached kinds to the session toolchains.
    pub fn add_attached_kinds(&mut self) {
        for kind in self.kinds.attached.keys() {
            self.toolchains.value.start_with_session(kind);
        }
    }
}

fn items<'a>(table: &'a FileTable<'_>) -> Result<Vec<(usize, Item<'a>)>, ConfigError> {
    table.check_permissions()?;
    // `--attach` has no key in files.
    let key = |key: &'static str| if key == ATTACH { "" } else { key };
    let names: Vec<_> = KEYS.iter().map(|row| key(row.names().key)).collect();
    table.items(&names)
}
