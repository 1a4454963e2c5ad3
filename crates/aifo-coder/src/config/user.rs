//! The user's file, which may set every key.

use aifo_launch::Confine;
use aifo_types::{Endpoint, Kind, ToolName};

use crate::config::error::{ConfigError, suggestion};
use crate::config::file::{File, KindEntries};
use crate::config::source::{Source, Sourced};
use crate::config::toolchains::AUTO;
use crate::config::values::{
    Config, SmartMode, ToolEffect, ToolRule, confine_words, parse_confine,
};

impl Config {
    /// Overrides values with those of the user's file.
    pub(crate) fn apply_user(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries;
        for (name, kind) in &entries.kind {
            self.apply_kind(file, name, kind.get_ref(), &file.source(kind.span()))?;
        }
        if let Some(words) = file.sourced(&entries.toolchains) {
            self.toolchains = self.toolchains_named(words)?;
        }
        if let Some(Sourced { value, source }) = file.sourced(&entries.idle_stop_secs) {
            self.idle_stop_secs = Sourced::new(limit(value), source);
        }
        if let Some(Sourced { value, source }) = file.sourced(&entries.max_secs) {
            self.max_secs = Sourced::new(limit(value), source);
        }
        if let Some(sourced) = file.sourced(&entries.max_executions) {
            self.max_executions = check_max_executions(sourced)?;
        }
        self.verbose.set(file.sourced(&entries.verbose));
        if let Some(Sourced { value, source }) = file.sourced(&entries.listen) {
            let endpoint: Endpoint =
                value.parse().map_err(|error| ConfigError::new(&source, format!("{error}")))?;
            self.listen = Sourced::new(Some(endpoint), source);
        }
        if let Some(sourced) = file.sourced(&entries.local_python) {
            if !sourced.value.is_absolute() {
                let what =
                    format!("local_python '{}' is not an absolute path", sourced.value.display());
                return Err(ConfigError::new(&sourced.source, what));
            }
            self.local_python.set(Some(sourced));
        }
        if let Some(sourced) = file.sourced(&entries.confine) {
            self.confine = confine_mode(sourced)?;
        }
        self.containers.apply_file(file)?;
        self.apply_env(file)?;
        self.apply_notify(file)?;
        if let Some(Sourced { value, source }) = file.sourced(&entries.agent.smart) {
            let smart = SmartMode::parse(&value).ok_or_else(|| {
                ConfigError::invalid_value(&source, &value, "agent.smart", &["auto", "on", "off"])
            })?;
            self.agent.smart = Sourced::new(smart, source);
        }
        self.apply_agents(file)?;
        self.apply_permissions(file)?;
        self.agent.node.set(file.sourced(&entries.agent.node));
        self.agent.python.set(file.sourced(&entries.agent.python));
        Ok(())
    }

    fn apply_kind(
        &mut self,
        file: &File,
        name: &str,
        entries: &KindEntries,
        header: &Source,
    ) -> Result<(), ConfigError> {
        let known = self.policy.kind_named(name).map(|policy| policy.kind.clone());
        let kind = match (&known, &entries.tools) {
            (Some(kind), None) => kind.clone(),
            (Some(kind), Some(tools)) => {
                let what = format!("toolchain '{kind}' already has tools");
                let source = file.source(tools.span());
                return Err(ConfigError::new(&source, what).hint("add tools with: allow = [..]"));
            }
            (None, Some(_)) => new_kind(name).map_err(|what| ConfigError::new(header, what))?,
            (None, None) => return Err(self.unknown_kind(name, header)),
        };
        for allowed in [&entries.tools, &entries.allow] {
            if let Some(sourced) = file.sourced(allowed) {
                self.policy.allow(&kind, parse_tool_names(&sourced)?);
                let rule =
                    ToolRule { kind: kind.clone(), effect: ToolEffect::Allow, tools: sourced };
                self.tool_rules.push(rule);
            }
        }
        if let Some(image) = file.sourced(&entries.image) {
            self.name_image(kind.as_str(), image)?;
        }
        self.deny(&kind, file.sourced(&entries.deny))
    }

    /// Denies tools of a kind, which the workspace's file may do too.
    pub(crate) fn deny(
        &mut self,
        kind: &Kind,
        sourced: Option<Sourced<Vec<String>>>,
    ) -> Result<(), ConfigError> {
        if let Some(tools) = sourced {
            self.policy.deny(kind, parse_tool_names(&tools)?);
            self.tool_rules.push(ToolRule { kind: kind.clone(), effect: ToolEffect::Deny, tools });
        }
        Ok(())
    }

    fn unknown_kind(&self, name: &str, header: &Source) -> ConfigError {
        let error = ConfigError::new(header, format!("there is no toolchain '{name}'"));
        let known = self.policy.kinds().iter().map(|policy| policy.kind.as_str());
        match suggestion(name, known) {
            Some(meant) => error.hint(format!("did you mean [kind.{meant}]?")),
            None => error.hint("define a new toolchain with: tools = [..]"),
        }
    }

    fn apply_env(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries.env;
        if let Some(names) = file.sourced(&entries.allow) {
            self.allow_variables(names)?;
        }
        if let Some(variables) = file.sourced(&entries.set) {
            self.set_variables(variables)?;
        }
        match file.sourced(&entries.deny) {
            Some(names) => self.deny_variables(names),
            None => Ok(()),
        }
    }

    fn apply_notify(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries.notify;
        if let Some(sourced) = file.sourced(&entries.command) {
            let program = sourced.value.first().map(String::as_str).unwrap_or_default();
            if !program.starts_with('/') {
                let what = format!("command '{program}' is not an absolute path");
                let hint = "for example: command = [\"/usr/bin/notify-send\", \"{args}\"]";
                return Err(ConfigError::new(&sourced.source, what).hint(hint));
            }
            self.notify.command.set(Some(sourced));
        }
        self.notify.enabled.set(file.sourced(&entries.enabled));
        self.notify.allow.set(file.sourced(&entries.allow));
        self.notify.options.set(file.sourced(&entries.options));
        self.notify.safe_dirs.set(file.sourced(&entries.safe_dirs));
        self.notify.trim_env.set(file.sourced(&entries.trim_env));
        self.notify.env_allow.set(file.sourced(&entries.env_allow));
        self.notify.timeout_secs.set(file.sourced(&entries.timeout_secs));
        Ok(())
    }
}

/// Converts seconds to a limit; 0 is none.
pub(crate) fn limit(seconds: u64) -> Option<u64> {
    (seconds > 0).then_some(seconds)
}

/// Parses `confine`.
pub(crate) fn confine_mode(sourced: Sourced<String>) -> Result<Sourced<Confine>, ConfigError> {
    let Sourced { value, source } = sourced;
    match parse_confine(&value) {
        Some(confine) => Ok(Sourced::new(confine, source)),
        None => Err(ConfigError::invalid_value(&source, &value, "confine", &confine_words())),
    }
}

/// Rejects 0, with which no tool would run.
pub(crate) fn check_max_executions(sourced: Sourced<usize>) -> Result<Sourced<usize>, ConfigError> {
    if sourced.value == 0 {
        return Err(ConfigError::new(&sourced.source, "max_executions must be at least 1"));
    }
    Ok(sourced)
}

fn new_kind(name: &str) -> Result<Kind, String> {
    let kind = Kind::parse(name).map_err(|invalid| invalid.to_string())?;
    if kind == Kind::host() {
        return Err(format!("'{kind}' cannot name a toolchain: reserved for the host"));
    }
    if kind == Kind::agent() {
        return Err(format!("'{kind}' cannot name a toolchain: reserved for the agent"));
    }
    if kind.as_str() == AUTO {
        return Err(format!("'{kind}' cannot name a toolchain: reserved for all toolchains"));
    }
    Ok(kind)
}

fn parse_tool_names(sourced: &Sourced<Vec<String>>) -> Result<Vec<ToolName>, ConfigError> {
    let parse = |name: &String| match ToolName::parse(name.as_bytes()) {
        // The shim binary runs other programs under such names.
        Ok(tool) if !tool.as_str().starts_with("aifo-") => Ok(tool),
        Ok(_) => {
            Err(format!("invalid tool name '{name}': names starting with 'aifo-' are reserved"))
        }
        Err(invalid) => Err(format!("invalid tool name '{name}': {invalid}")),
    };
    let parsed = sourced.value.iter().map(parse).collect::<Result<_, _>>();
    parsed.map_err(|what| ConfigError::new(&sourced.source, what))
}
