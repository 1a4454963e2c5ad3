//! The hosts in the user's own settings of package managers and git
//! (`spec/network.md#settings-of-the-user`).
//!
//! Tools and agents must not be able to write what is read here, so links are not followed and files in
//! the workspace are ignored.

mod formats;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aifo_host::{Beneath, Found};
use aifo_network::{NetworkRules, RuleScope, UrlHost};
use aifo_types::Kind;

use self::formats::Setting;
use crate::agent_urls::UnreachableUrl;

/// The places of the user's settings.
#[derive(Clone, Debug)]
pub struct UserSettings {
    variables: BTreeMap<String, String>,
    /// A real path.
    workspace: PathBuf,
}

/// A directory of the user, and a file in it that a program reads.
struct SettingsFile {
    /// For sources: `~/.npmrc`.
    shown: String,
    directory: PathBuf,
    name: PathBuf,
}

/// Longer files are not read.
const MAX_BYTES: u64 = 256 * 1024;

/// Rules of all settings together.
const MAX_RULES: usize = 64;

/// Reads the settings in a text.
type Parse = fn(&str) -> Vec<Setting>;

impl UserSettings {
    /// Settings of this environment, for a workspace.
    pub fn of_environment(workspace: &Path) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let variables = std::env::vars_os().filter_map(text).collect();
        UserSettings { variables, workspace: workspace.to_owned() }
    }

    /// Returns a variable's value, if it is not empty.
    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    /// Returns the directory that a variable names by an absolute path.
    fn directory(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns a file below HOME.
    fn in_home(&self, name: &str) -> Option<SettingsFile> {
        let directory = self.directory("HOME")?;
        Some(SettingsFile { shown: format!("~/{name}"), directory, name: name.into() })
    }

    /// Returns a file below the directory of configurations.
    fn in_config(&self, name: &str) -> Option<SettingsFile> {
        match self.directory("XDG_CONFIG_HOME") {
            Some(directory) => Some(SettingsFile::in_directory(directory, name)),
            None => self.in_home(&format!(".config/{name}")),
        }
    }

    /// Returns the file that a variable names.
    fn named(&self, variable: &str) -> Option<SettingsFile> {
        let path = self.directory(variable)?;
        let (directory, name) = (path.parent()?.to_owned(), path.file_name()?);
        Some(SettingsFile { shown: path.display().to_string(), directory, name: name.into() })
    }

    /// Returns the files of a kind's package managers with their formats.
    fn files(&self, kind: &str) -> Vec<(Option<SettingsFile>, Parse)> {
        match kind {
            "node" => vec![
                (
                    self.named("NPM_CONFIG_USERCONFIG")
                        .or_else(|| self.named("npm_config_userconfig"))
                        .or_else(|| self.in_home(".npmrc")),
                    formats::npmrc,
                ),
                (self.in_home(".yarnrc.yml"), formats::yarnrc),
            ],
            "python" => {
                let pip = match self.named("PIP_CONFIG_FILE") {
                    Some(file) => vec![Some(file)],
                    None => vec![self.in_config("pip/pip.conf"), self.in_home(".pip/pip.conf")],
                };
                let uv = self.named("UV_CONFIG_FILE").or_else(|| self.in_config("uv/uv.toml"));
                let pip = pip.into_iter().map(|file| (file, formats::pip as Parse));
                pip.chain([(uv, formats::uv as Parse)]).collect()
            }
            "rust" => {
                let file = |name: &str| match self.directory("CARGO_HOME") {
                    Some(directory) => Some(SettingsFile::in_directory(directory, name)),
                    None => self.in_home(&format!(".cargo/{name}")),
                };
                ["config.toml", "config"].map(|name| (file(name), formats::cargo as Parse)).into()
            }
            "go" => vec![(
                self.named("GOENV").or_else(|| self.in_config("go/env")),
                formats::go as Parse,
            )],
            _ => Vec::new(),
        }
    }

    /// Returns the settings in the variables of a kind's package managers, with the variable.
    fn variables(&self, kind: &str) -> Vec<(String, Setting)> {
        let names: &[&str] = match kind {
            "node" => &["NPM_CONFIG_REGISTRY", "npm_config_registry", "YARN_NPM_REGISTRY_SERVER"],
            "python" => &[
                "PIP_INDEX_URL",
                "PIP_EXTRA_INDEX_URL",
                "UV_DEFAULT_INDEX",
                "UV_INDEX",
                "UV_INDEX_URL",
                "UV_EXTRA_INDEX_URL",
            ],
            "go" => &["GOPROXY", "GOSUMDB", "GOPRIVATE"],
            _ => &[],
        };
        let is_cargo = |name: &str| {
            kind == "rust" && name.starts_with("CARGO_REGISTRIES_") && name.ends_with("_INDEX")
        };
        let mut found = Vec::new();
        for (name, value) in &self.variables {
            if names.contains(&name.as_str()) || is_cargo(name) {
                let settings = match kind {
                    "go" => formats::go(&format!("{name}={value}")),
                    _ => formats::urls(value, None),
                };
                found.extend(settings.into_iter().map(|setting| (name.clone(), setting)));
            }
        }
        found
    }

    /// Reads a file, unless a process in the workspace could have written it.
    fn read(&self, file: &SettingsFile) -> Option<String> {
        let directory = file.directory.canonicalize().ok()?;
        if directory.join(&file.name).starts_with(&self.workspace) {
            return None;
        }
        match Beneath::open(&directory).ok()?.read(&file.name, MAX_BYTES) {
            Found::File(bytes, _) => String::from_utf8(bytes).ok(),
            Found::Missing => None,
            Found::Rejected(why) => {
                tracing::info!("the hosts in '{}' are not allowed: it {why}", file.shown);
                None
            }
        }
    }

    /// Returns all settings of a file, with the file and line.
    fn settings(&self, file: Option<SettingsFile>, parse: Parse) -> Vec<(String, Setting)> {
        let Some(file) = file else { return Vec::new() };
        let Some(text) = self.read(&file) else { return Vec::new() };
        let source = |setting: &Setting| match setting.line {
            Some(line) => format!("{}:{line}", file.shown),
            None => file.shown.clone(),
        };
        parse(&text).into_iter().map(|setting| (source(&setting), setting)).collect()
    }
}

impl SettingsFile {
    fn in_directory(directory: PathBuf, name: &str) -> Self {
        let shown = directory.join(name).display().to_string();
        SettingsFile { shown, directory, name: name.into() }
    }
}

impl UserSettings {
    /// Allows the hosts in the user's own settings: of package managers for the tools of these kinds, of
    /// git for all. Returns the URLs that no rule can allow, of this machine or with an address.
    pub fn allow_settings(
        &self,
        rules: &mut NetworkRules,
        kinds: &[Kind],
        host_ports: &[u16],
    ) -> Vec<UnreachableUrl> {
        let mut found = Vec::new();
        for kind in kinds {
            let files = self.files(kind.as_str()).into_iter();
            let of_files = files.flat_map(|(file, parse)| self.settings(file, parse));
            let all = of_files.chain(self.variables(kind.as_str()));
            let scope = RuleScope::Kind(kind.clone());
            found.extend(all.map(|(source, setting)| (scope.clone(), source, setting)));
        }
        for file in [self.in_home(".gitconfig"), self.in_config("git/config")] {
            let all = self.settings(file, formats::git).into_iter();
            found.extend(all.map(|(source, setting)| (RuleScope::All, source, setting)));
        }
        let mut unreachable = Vec::new();
        for (scope, source, setting) in found.into_iter().take(MAX_RULES) {
            let rule = match setting.host {
                UrlHost::Rule(rule) => rule,
                UrlHost::LocalPort(port) if host_ports.contains(&port) => continue,
                host => {
                    unreachable.extend(UnreachableUrl::new(source, &host));
                    continue;
                }
            };
            if !rules.permits(&scope, &rule) {
                // Patterns of GOPRIVATE may be more than rules express.
                let _ = rules.allow(scope, rule, source);
            }
        }
        unreachable
    }
}

#[cfg(test)]
mod tests;
