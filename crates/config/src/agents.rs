//! `[agents.NAME]`: changes and additions to the table of agents.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use aifo_agents::{
    AcpProfile, AgentSpec, ChunkMode, FileFormat, MissingFileReply, StateFile, known_agents,
};
use aifo_policy::Forwarding;
use serde_json::{Map, Value, json};

use crate::error::{ConfigError, suggestion};
use crate::file::items;
use crate::format::{ABSOLUTE_PATH, Format, SWITCH, WHOLE, absolute_path, enumeration, plain};
use crate::item::Item;
use crate::key::ConfigEntry;
use crate::network;
use crate::source::{Source, Sourced};

/// The table of agents. Known ones are read when they are asked for, as every start makes this table.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    /// Rows that the user changed or added.
    own: Vec<AgentSpec>,
    /// Their names.
    changed: Vec<Sourced<String>>,
}

/// A key of a row.
struct Field<T: 'static> {
    key: &'static str,
    get: fn(&AgentSpec) -> Option<&T>,
    get_mut: fn(&mut AgentSpec) -> Option<&mut T>,
    format: Format<T>,
    /// Combines the value with that of the table.
    merge: fn(&mut T, T),
}

trait AgentKey: Sync {
    fn key(&self) -> &'static str;
    fn apply(&self, spec: &mut AgentSpec, item: &Item<'_>) -> Result<(), ConfigError>;
    fn show(&self, spec: &AgentSpec) -> Option<Value>;
}

/// The path of a field of a row, and the path of a field of its ACP profile.
macro_rules! field {
    ($key:literal, $($place:ident).+, $format:expr) => {
        Field {
            key: $key,
            get: |spec| Some(&spec.$($place).+),
            get_mut: |spec| Some(&mut spec.$($place).+),
            format: $format,
            merge: replace,
        }
    };
}
macro_rules! acp_field {
    ($key:expr, $place:ident, $format:expr) => {
        Field {
            key: $key,
            get: |spec| spec.acp.as_ref().map(|acp| &acp.$place),
            get_mut: |spec| spec.acp.as_mut().map(|acp| &mut acp.$place),
            format: $format,
            merge: replace,
        }
    };
}

/// All keys of a row.
static KEYS: &[&dyn AgentKey] = &[
    &field!("image", image, IMAGE),
    &field!("packages", packages, PACKAGES),
    &field!("command", command, COMMAND),
    &field!("state", state, BELOW_HOME),
    &field!("private", private, PRIVATE),
    &field!("credentials", credentials, CREDENTIALS),
    &field!("import", import, IMPORT),
    &field!("conversations", conversations, BELOW_HOME),
    &field!("settings", settings, BELOW_HOME),
    &field!("variables", variables, VARIABLES),
    &Field { merge: set, ..field!("set", set, SET) },
    &field!("hosts.model", hosts.model, HOSTS),
    &field!("hosts.telemetry", hosts.telemetry, HOSTS),
    &field!("hosts.update", hosts.update, HOSTS),
    &field!("node", smart.node, SWITCH),
    &field!("python", smart.python, SWITCH),
    &field!("local_python", local_python, ABSOLUTE_PATH),
    &field!("shell", shell, Format::new(absolute_path, plain)),
    // Creates the profile, so it is the first of its keys.
    &acp_field!(ACP_COMMAND, command, COMMAND),
    &acp_field!("acp.fs", fs, SWITCH),
    &acp_field!("acp.terminal", terminal, SWITCH),
    &acp_field!("acp.missing_file", missing_file, MISSING_FILE),
    &acp_field!("acp.stream", stream, STREAM),
    &acp_field!("acp.allow_option", allow_option, OPTION),
    &acp_field!("acp.initialize_secs", initialize, TIMEOUT),
    &acp_field!("acp.kill_on_eof", kill_on_eof, SWITCH),
    &Field { merge: set, ..acp_field!("acp.set", set, SET) },
];

type Pairs = Vec<(String, String)>;

const IMAGE: Format<Option<String>> = Format::new(
    |item| match item.text()? {
        image if image.trim().is_empty() => Err(item.error("image must not be empty")),
        image => Ok(Some(image)),
    },
    plain,
);
/// Names of Debian packages, which become words of a command in an image's recipe.
const PACKAGES: Format<Vec<String>> = Format::new(
    |item| {
        let names = item.list()?;
        match names.iter().find(|name| !is_debian_package(name)) {
            Some(name) => {
                let what = format!("'{name}' is no name of a Debian package");
                Err(item.error(what).hint("for example: \"postgresql-client\""))
            }
            None => Ok(names),
        }
    },
    plain,
);
const COMMAND: Format<Vec<String>> = Format::new(
    |item| match item.list()? {
        words if words.first().is_none_or(String::is_empty) => {
            Err(item.error("command must start with a program"))
        }
        words => Ok(words),
    },
    plain,
);
const BELOW_HOME: Format<Vec<PathBuf>> =
    Format::new(|item| paths(item, is_below, "is not below HOME", "[\".mine\"]"), plain);
const PRIVATE: Format<Vec<PathBuf>> = Format::new(
    |item| {
        let is_private = |path: &Path| is_below(path.strip_prefix("/tmp").unwrap_or(path));
        let example = "[\".mine/run\", \"/tmp/mine-UID\"]";
        paths(item, is_private, "is neither below HOME nor in /tmp", example)
    },
    plain,
);
/// A JSON or TOML file, copied whole.
const CREDENTIALS: Format<Option<StateFile>> = Format::new(
    |item| {
        let path = PathBuf::from(item.text()?);
        let file = whole_file(path);
        match is_below(&file.from) && file.format != FileFormat::Text {
            true => Ok(Some(file)),
            false => {
                let what = format!("'{}' is no JSON or TOML file below HOME", file.from.display());
                Err(item.error(what).hint("for example: \".mine/auth.json\""))
            }
        }
    },
    |file| json!(file.as_ref().map(|file| &file.from)),
);
/// Files that are copied whole.
const IMPORT: Format<Vec<StateFile>> = Format::new(
    |item| Ok((BELOW_HOME.parse)(item)?.into_iter().map(whole_file).collect()),
    |files| files.iter().map(|file| json!(file.from)).collect(),
);
const VARIABLES: Format<Vec<String>> = Format::new(
    |item| {
        let names = item.list()?;
        names.iter().try_for_each(|name| check_variable(name, item))?;
        Ok(names)
    },
    plain,
);
/// Shown without the values, which may be secret.
const SET: Format<Pairs> = Format::new(
    |item| {
        let pairs: BTreeMap<String, String> = item.toml()?;
        pairs.keys().try_for_each(|name| check_variable(name, item))?;
        Ok(pairs.into_iter().collect())
    },
    |pairs| pairs.iter().map(|(name, _)| Value::from(name.as_str())).collect(),
);
const HOSTS: Format<Vec<String>> = Format::new(
    |item| {
        let list = item.list()?;
        network::check(&list, item)?;
        Ok(list)
    },
    plain,
);
/// An empty word removes the table's option.
const OPTION: Format<Option<String>> =
    Format::new(|item| Ok(Some(item.text()?).filter(|option| !option.is_empty())), plain);
const TIMEOUT: Format<Duration> = Format::new(
    |item| match item.number(WHOLE)? {
        0 => Err(item.error("initialize_secs must be at least 1")),
        seconds => Ok(Duration::from_secs(seconds)),
    },
    |timeout| json!(timeout.as_secs()),
);
enumeration!(MISSING_FILE: MissingFileReply =
    [(MissingFileReply::Error, "error"), (MissingFileReply::Empty, "empty")]);
enumeration!(STREAM: ChunkMode =
    [(ChunkMode::Delta, "delta"), (ChunkMode::Snapshot, "snapshot"), (ChunkMode::Auto, "auto")]);

impl Agents {
    /// Returns all rows, sorted by name.
    pub fn all(&self) -> Vec<&AgentSpec> {
        let is_own = |agent: &&AgentSpec| self.own.iter().any(|own| own.name == agent.name);
        let known = known_agents().iter().filter(|agent| !is_own(agent));
        let mut all: Vec<_> = known.chain(&self.own).collect();
        all.sort_by_key(|agent| &agent.name);
        all
    }

    /// Finds an agent. Errors: no agent has this name.
    pub fn named(&self, name: &str) -> Result<&AgentSpec, ConfigError> {
        if let Some(found) = self.find(name) {
            return Ok(found);
        }
        let known = self.all().into_iter().map(|agent| agent.name.as_str());
        let error = ConfigError::new(&Source::Flag("AGENT"), format!("there is no agent '{name}'"));
        Err(match suggestion(name, known) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error.hint(format!(
                "list agents with `aifo-coder agents`, or run a command of this machine with: run -- {name}"
            )),
        })
    }

    pub fn find(&self, name: &str) -> Option<&AgentSpec> {
        self.own.iter().chain(known_agents()).find(|agent| agent.name == name)
    }

    /// Returns the Debian packages that images get as well, by the agent.
    pub fn packages(&self) -> BTreeMap<String, Vec<String>> {
        let row = |agent: &AgentSpec| (agent.name.clone(), agent.packages.clone());
        self.own.iter().map(row).collect()
    }

    /// Changes or adds the row of `[agents.NAME]`.
    pub fn apply(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let name = item.name;
        check_name(item)?;
        let mut spec = self.find(name).cloned().unwrap_or_else(|| AgentSpec::unknown(name));
        change(&mut spec, item)?;
        self.own.retain(|agent| agent.name != name);
        self.own.push(spec);
        self.changed.push(Sourced::new(name.to_owned(), item.source.clone()));
        Ok(())
    }

    /// Returns a row for each agent that the user changed or added.
    pub fn show(&self) -> Vec<ConfigEntry> {
        let entry = |name: &Sourced<String>| {
            let spec = self.find(&name.value)?;
            let (mut row, mut acp) = (Map::new(), Map::new());
            for key in KEYS {
                let Some(value) = key.show(spec) else { continue };
                match key.key().strip_prefix("acp.") {
                    Some(name) => acp.insert(name.to_owned(), value),
                    None => row.insert(key.key().to_owned(), value),
                };
            }
            row.insert("acp".to_owned(), spec.acp.as_ref().map_or(Value::Null, |_| acp.into()));
            Some(ConfigEntry::new(format!("agents.{}", spec.name), row.into(), &name.source))
        };
        self.changed.iter().filter_map(entry).collect()
    }
}

impl<T> AgentKey for Field<T> {
    fn key(&self) -> &'static str {
        self.key
    }

    fn apply(&self, spec: &mut AgentSpec, item: &Item<'_>) -> Result<(), ConfigError> {
        let value = (self.format.parse)(item)?;
        if let Some(place) = (self.get_mut)(spec) {
            (self.merge)(place, value);
        }
        Ok(())
    }

    fn show(&self, spec: &AgentSpec) -> Option<Value> {
        (self.get)(spec).map(self.format.show)
    }
}

fn change(spec: &mut AgentSpec, item: &Item<'_>) -> Result<(), ConfigError> {
    let Some((value, text)) = item.table() else {
        return Err(item.error(format!("'{}' is not a table", item.name)));
    };
    let Some(table) = value.get_ref().as_table() else { return Ok(()) };
    let names: Vec<_> = KEYS.iter().map(|key| key.key()).collect();
    let found = items(text, table, &names)?;
    let has_command = found.iter().any(|(_, item)| item.key == ACP_COMMAND);
    if let (Some(acp), None) = (table.get("acp"), &spec.acp) {
        if !has_command {
            let what = format!("agent '{}' has no ACP command", spec.name);
            let error = ConfigError::new(&item.source_of(acp.span()), what);
            return Err(error.hint(format!("add: command = [\"{}\", ..]", spec.name)));
        }
        spec.acp = Some(AcpProfile::plain(Vec::new()));
    }
    for (index, mut item) in found {
        item.key = item.key.strip_prefix("acp.").unwrap_or(item.key);
        if let Some(key) = KEYS.get(index) {
            key.apply(spec, &item)?;
        }
    }
    Ok(())
}

fn replace<T>(place: &mut T, value: T) {
    *place = value;
}

/// Replaces variables of the same names.
fn set(place: &mut Pairs, pairs: Pairs) {
    place.retain(|(known, _)| pairs.iter().all(|(name, _)| name != known));
    place.extend(pairs);
}

/// Accepts names that are valid on a command line and in an image name.
fn check_name(item: &Item<'_>) -> Result<(), ConfigError> {
    let name = item.name;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let starts_well = name.bytes().next().is_some_and(|b| b != b'-');
    if starts_well && name.len() <= 32 && name.bytes().all(plain) {
        return Ok(());
    }
    let what = format!("invalid agent name '{name}': use a-z, 0-9 and -, at most 32 characters");
    Err(item.error(what))
}

/// A name in Debian's syntax: at least two of `a-z`, `0-9`, `+`, `-` and `.`, the first a letter or digit.
fn is_debian_package(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() >= 2
        && name.bytes().next().is_some_and(is_plain)
        && name.bytes().all(|b| is_plain(b) || b"+-.".contains(&b))
}

/// Accepts exact names of variables that are not reserved.
fn check_variable(name: &str, item: &Item<'_>) -> Result<(), ConfigError> {
    let allowed = Forwarding::builtin().allow(name);
    allowed.map_err(|invalid| item.error(invalid.to_string()))?;
    if name.contains('*') {
        let what = format!("invalid variable '{name}': patterns are not allowed here");
        return Err(item.error(what));
    }
    Ok(())
}

fn whole_file(path: PathBuf) -> StateFile {
    let format = match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => FileFormat::Json,
        Some("toml") => FileFormat::Toml,
        _ => FileFormat::Text,
    };
    let keys = if format == FileFormat::Text { Vec::new() } else { vec!["**".to_owned()] };
    StateFile { from: path.clone(), to: path, format, keys }
}

/// Parses a list of paths, each of which must be valid.
fn paths(
    item: &Item<'_>,
    is_valid: impl Fn(&Path) -> bool,
    problem: &str,
    example: &str,
) -> Result<Vec<PathBuf>, ConfigError> {
    let paths: Vec<PathBuf> = item.toml()?;
    match paths.iter().find(|path| !is_valid(path)) {
        Some(path) => {
            let what = format!("'{}' {problem}", path.display());
            Err(item.error(what).hint(format!("for example: {example}")))
        }
        None => Ok(paths),
    }
}

fn is_below(directory: &Path) -> bool {
    let mut parts = directory.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

const ACP_COMMAND: &str = "acp.command";
