//! `[agents.NAME]`: changes and additions to the table of agents.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use aifo_launch::AgentSpec;
use aifo_policy::Forwarding;
use serde::Deserialize;
use toml::Spanned;

use crate::config::acp::{self, AcpEntries};
use crate::config::error::{ConfigError, suggestion};
use crate::config::file::File;
use crate::config::source::{Source, Sourced};
use crate::config::values::Config;

/// `[agents.NAME]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentRow {
    pub(crate) image: Option<Spanned<String>>,
    pub(crate) command: Option<Spanned<Vec<String>>>,
    /// Directories below HOME.
    pub(crate) state: Option<Spanned<Vec<PathBuf>>>,
    /// Directories below those, separate for each session.
    pub(crate) private: Option<Spanned<Vec<PathBuf>>>,
    /// Files below HOME, read-only.
    pub(crate) settings: Option<Spanned<Vec<PathBuf>>>,
    /// Names of variables to forward.
    pub(crate) variables: Option<Spanned<Vec<String>>>,
    pub(crate) set: Option<Spanned<BTreeMap<String, String>>>,
    pub(crate) node: Option<Spanned<bool>>,
    pub(crate) python: Option<Spanned<bool>>,
    pub(crate) local_python: Option<Spanned<PathBuf>>,
    pub(crate) shell: Option<Spanned<PathBuf>>,
    pub(crate) acp: Option<Spanned<AcpEntries>>,
}

impl Config {
    /// Finds an agent. Errors: no agent has this name.
    pub(crate) fn agent_named(&self, name: &str) -> Result<&AgentSpec, ConfigError> {
        if let Some(found) = self.agents.iter().find(|agent| agent.name == name) {
            return Ok(found);
        }
        let known = self.agents.iter().map(|agent| agent.name.as_str());
        let error = ConfigError::new(&Source::Flag("AGENT"), format!("there is no agent '{name}'"));
        Err(match suggestion(name, known) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error.hint(format!(
                "list agents with `aifo-coder agents`, or run a command of this machine with: run -- {name}"
            )),
        })
    }

    /// Applies the agents of the user's file to the table.
    pub(crate) fn apply_agents(&mut self, file: &File) -> Result<(), ConfigError> {
        for (name, row) in &file.entries.agents {
            let header = file.source(row.span());
            check_name(name, &header)?;
            let index = self.agents.iter().position(|agent| agent.name == *name);
            let mut spec = match index.and_then(|index| self.agents.get(index)) {
                Some(known) => known.clone(),
                None => AgentSpec::unknown(name),
            };
            change(&mut spec, file, row.get_ref())?;
            match index.and_then(|index| self.agents.get_mut(index)) {
                Some(known) => *known = spec,
                None => self.agents.push(spec),
            }
            self.agent_rows.push(Sourced::new(name.clone(), header));
        }
        self.agents.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(())
    }
}

/// Returns the span of the first row, if there is one.
pub(crate) fn any(rows: &BTreeMap<String, Spanned<AgentRow>>) -> Option<Range<usize>> {
    rows.values().map(Spanned::span).min_by_key(|span| span.start)
}

fn change(spec: &mut AgentSpec, file: &File, row: &AgentRow) -> Result<(), ConfigError> {
    if let Some(image) = file.sourced(&row.image) {
        if image.value.trim().is_empty() {
            return Err(ConfigError::new(&image.source, "image must not be empty"));
        }
        spec.image = Some(image.value);
    }
    if let Some(command) = file.sourced(&row.command) {
        if command.value.first().is_none_or(String::is_empty) {
            return Err(ConfigError::new(&command.source, "command must start with a program"));
        }
        spec.command = command.value;
    }
    let places = [
        (&row.state, &mut spec.state),
        (&row.private, &mut spec.private),
        (&row.settings, &mut spec.settings),
    ];
    for (entry, place) in places {
        let Some(sourced) = file.sourced(entry) else { continue };
        if let Some(outside) = sourced.value.iter().find(|path| !is_below(path)) {
            let what = format!("'{}' is not below HOME", outside.display());
            return Err(ConfigError::new(&sourced.source, what).hint("for example: [\".mine\"]"));
        }
        *place = sourced.value;
    }
    if let Some(names) = file.sourced(&row.variables) {
        for name in &names.value {
            check_variable(name, &names.source)?;
        }
        spec.variables = names.value;
    }
    if let Some(set) = file.sourced(&row.set) {
        for (name, value) in set.value {
            check_variable(&name, &set.source)?;
            spec.set.retain(|(known, _)| *known != name);
            spec.set.push((name, value));
        }
    }
    spec.smart.node = file.sourced(&row.node).map_or(spec.smart.node, |sourced| sourced.value);
    spec.smart.python =
        file.sourced(&row.python).map_or(spec.smart.python, |sourced| sourced.value);
    for (entry, place) in [(&row.local_python, Some(&mut spec.local_python)), (&row.shell, None)] {
        let Some(sourced) = file.sourced(entry) else { continue };
        if !sourced.value.is_absolute() {
            let what = format!("'{}' is not an absolute path", sourced.value.display());
            return Err(ConfigError::new(&sourced.source, what));
        }
        match place {
            Some(python) => *python = Some(sourced.value),
            None => spec.shell = sourced.value,
        }
    }
    match &row.acp {
        Some(entries) => acp::change(spec, file, entries),
        None => Ok(()),
    }
}

/// Accepts names that are valid on a command line and in the name of an image.
fn check_name(name: &str, header: &Source) -> Result<(), ConfigError> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let starts_well = name.bytes().next().is_some_and(|b| b != b'-');
    if starts_well && name.len() <= 32 && name.bytes().all(plain) {
        return Ok(());
    }
    let what = format!("invalid agent name '{name}': use a-z, 0-9 and -, at most 32 characters");
    Err(ConfigError::new(header, what))
}

/// Accepts exact names of variables that are not reserved.
pub(crate) fn check_variable(name: &str, source: &Source) -> Result<(), ConfigError> {
    let allowed = Forwarding::builtin().allow(name);
    allowed.map_err(|invalid| ConfigError::new(source, invalid.to_string()))?;
    if name.contains('*') {
        let what = format!("invalid variable '{name}': patterns are not allowed here");
        return Err(ConfigError::new(source, what));
    }
    Ok(())
}

fn is_below(directory: &Path) -> bool {
    let mut parts = directory.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        let file = File::parse(Path::new("/c.toml"), text).map_err(|error| error.to_string())?;
        let mut config = Config::builtin();
        config.apply_user(&file).map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn rows_are_changed_and_added() {
        let config = config(
            "[agents.codex]\nimage = 'mine/codex:1'\nset = { A = '1' }\n\
             [agents.mine]\ncommand = ['mine', '--now']\nstate = ['.mine']\nnode = true\n\
             variables = ['MINE_KEY']\n",
        )
        .unwrap();
        let codex = config.agent_named("codex").unwrap();
        assert_eq!(codex.image.as_deref(), Some("mine/codex:1"));
        assert_eq!(codex.state, [PathBuf::from(".codex")], "other values are kept");
        assert!(codex.set.contains(&("A".to_owned(), "1".to_owned())));
        let mine = config.agent_named("mine").unwrap();
        assert_eq!(mine.command, ["mine", "--now"]);
        assert!(mine.smart.node && !mine.smart.python);
        assert!(config.smart_for(Some("mine")).node);
        let error = config.agent_named("codx").unwrap_err().to_string();
        assert!(error.ends_with("hint: did you mean 'codex'?"), "{error}");
    }

    #[test]
    fn invalid_rows() {
        let rows = [
            ("[agents.codex]\ncommand = []", "/c.toml:2: command must start with a program"),
            ("[agents.codex]\nstate = ['/etc']", "/c.toml:2: '/etc' is not below HOME"),
            ("[agents.codex]\nstate = ['.a/../..']", "/c.toml:2: '.a/../..' is not below HOME"),
            ("[agents.codex]\nvariables = ['X_*']", "/c.toml:2: invalid variable 'X_*'"),
            ("[agents.codex]\nset = { PATH = '/x' }", "/c.toml:2: variable 'PATH' is reserved"),
            (
                "[agents.codex]\nlocal_python = 'python3'",
                "/c.toml:2: 'python3' is not an absolute path",
            ),
            ("[agents.Codex]\nimage = 'x'", "/c.toml:1: invalid agent name 'Codex'"),
            ("[agents.codex]\nimages = 'x'", "/c.toml:2: there is no key 'images'"),
        ];
        for (text, expected) in rows {
            let error = config(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
