//! The hosts in the user's own settings of package managers and git
//! (`spec/network.md#settings-of-the-user`).
//!
//! Tools and agents must not be able to write what is read here, so links are not followed and files in
//! the workspace are ignored.

mod formats;
mod passed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aifo_host::{Beneath, Found};
use aifo_network::{NetworkRules, RuleScope, UrlHost};
use aifo_types::Kind;

use self::formats::Setting;
use self::passed::Passed;
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

/// A format of settings.
#[derive(Clone, Copy)]
struct Format {
    /// Reads the hosts.
    hosts: fn(&str) -> Vec<Setting>,
    /// Returns the part that tools in containers get.
    passed: fn(&str) -> Passed,
    /// Where they get it; variables for go.
    to: &'static str,
}

const NPMRC: Format =
    Format { hosts: formats::npmrc, passed: passed::npmrc, to: "/home/coder/.npmrc" };
const YARNRC: Format =
    Format { hosts: formats::yarnrc, passed: passed::yarnrc, to: "/home/coder/.yarnrc.yml" };
/// The earlier of the two places, as its directory has nothing else.
const PIP: Format =
    Format { hosts: formats::pip, passed: passed::pip, to: "/home/coder/.pip/pip.conf" };
/// The system's place: a file that a variable names would replace the project's.
const UV: Format = Format { hosts: formats::uv, passed: passed::uv, to: "/etc/uv/uv.toml" };
const CARGO: Format =
    Format { hosts: formats::cargo, passed: passed::cargo, to: "/home/coder/.cargo/config.toml" };
const GO: Format = Format { hosts: formats::go, passed: passed::go, to: "" };

/// The user's settings of package managers that tools of a kind get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSettings {
    /// The kind.
    pub kind: Kind,
    /// Variables of its tools.
    pub variables: Vec<(String, String)>,
    /// Paths in its container, and texts.
    pub files: Vec<(PathBuf, String)>,
    /// The files and variables of the user that passed, for people.
    pub sources: Vec<String>,
    /// The keys that did not, for people.
    pub left_out: Vec<String>,
    /// Files with tokens beside the URLs, which do not pass.
    pub with_secrets: Vec<String>,
}

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
    fn files(&self, kind: &str) -> Vec<(Option<SettingsFile>, Format)> {
        match kind {
            "node" => vec![
                (
                    self.named("NPM_CONFIG_USERCONFIG")
                        .or_else(|| self.named("npm_config_userconfig"))
                        .or_else(|| self.in_home(".npmrc")),
                    NPMRC,
                ),
                (self.in_home(".yarnrc.yml"), YARNRC),
            ],
            "python" => {
                let pip = match self.named("PIP_CONFIG_FILE") {
                    Some(file) => vec![Some(file)],
                    None => vec![self.in_config("pip/pip.conf"), self.in_home(".pip/pip.conf")],
                };
                let uv = self.named("UV_CONFIG_FILE").or_else(|| self.in_config("uv/uv.toml"));
                let pip = pip.into_iter().map(|file| (file, PIP));
                pip.chain([(uv, UV)]).collect()
            }
            "rust" => {
                let file = |name: &str| match self.directory("CARGO_HOME") {
                    Some(directory) => Some(SettingsFile::in_directory(directory, name)),
                    None => self.in_home(&format!(".cargo/{name}")),
                };
                ["config.toml", "config"].map(|name| (file(name), CARGO)).into()
            }
            "go" => vec![(self.named("GOENV").or_else(|| self.in_config("go/env")), GO)],
            _ => Vec::new(),
        }
    }

    /// Returns the variables of a kind's package managers, with their values.
    fn named_variables(&self, kind: &str) -> Vec<(&String, &String)> {
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
        let is_named = |name: &str| names.contains(&name) || is_cargo(name);
        self.variables.iter().filter(|(name, _)| is_named(name)).collect()
    }

    /// Returns the settings in these variables, with the variable.
    fn variables(&self, kind: &str) -> Vec<(String, Setting)> {
        let settings = |(name, value): (&String, &String)| {
            let settings = match kind {
                "go" => formats::go(&format!("{name}={value}")),
                _ => formats::urls(value, None),
            };
            settings.into_iter().map(|setting| (name.clone(), setting)).collect::<Vec<_>>()
        };
        self.named_variables(kind).into_iter().flat_map(settings).collect()
    }

    /// Returns what the tools of these kinds get of the user's settings. Left out are files that are `admitted` as a
    /// whole, by their path in containers.
    pub fn for_tools(&self, kinds: &[Kind], admitted: &[PathBuf]) -> Vec<ToolSettings> {
        let of_kind = |kind: &Kind| {
            let mut settings = ToolSettings {
                kind: kind.clone(),
                variables: Vec::new(),
                files: Vec::new(),
                sources: Vec::new(),
                left_out: Vec::new(),
                with_secrets: Vec::new(),
            };
            for (file, format) in self.files(kind.as_str()) {
                let Some(file) = file else { continue };
                let to = PathBuf::from(format.to);
                let is_taken = settings.files.iter().any(|(taken, _)| *taken == to);
                if is_taken || admitted.contains(&to) {
                    continue;
                }
                let Some(text) = self.read(&file) else { continue };
                settings.add(file.shown, to, (format.passed)(&text));
            }
            for (name, value) in self.named_variables(kind.as_str()) {
                let passed = match kind.as_str() {
                    "go" => passed::go(&format!("{name}={value}")),
                    _ => passed::urls(name, value),
                };
                settings.add(name.clone(), PathBuf::new(), passed);
            }
            settings
        };
        let found = kinds.iter().map(of_kind);
        found.filter(|it| !it.sources.is_empty() || !it.left_out.is_empty()).collect()
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
    fn settings(
        &self,
        file: Option<SettingsFile>,
        hosts: fn(&str) -> Vec<Setting>,
    ) -> Vec<(String, Setting)> {
        let Some(file) = file else { return Vec::new() };
        let Some(text) = self.read(&file) else { return Vec::new() };
        let source = |setting: &Setting| match setting.line {
            Some(line) => format!("{}:{line}", file.shown),
            None => file.shown.clone(),
        };
        hosts(&text).into_iter().map(|setting| (source(&setting), setting)).collect()
    }
}

impl ToolSettings {
    /// Adds what passes of a source: a file, or without a path variables.
    fn add(&mut self, source: String, to: PathBuf, passed: Passed) {
        let left_out = passed.left_out.into_iter();
        self.left_out.extend(left_out.map(|what| format!("{what} ({source})")));
        if passed.has_secrets {
            self.with_secrets.push(source.clone());
        }
        if passed.text.is_empty() {
            return;
        }
        self.sources.push(source);
        if to.as_os_str().is_empty() {
            let variables = passed.text.lines().filter_map(|line| line.split_once('='));
            self.variables
                .extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        } else {
            self.files.push((to, passed.text));
        }
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
            let of_files = files.flat_map(|(file, format)| self.settings(file, format.hosts));
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
