//! The user's own file, which may say anything.

use aifo_launch::ConfinementMode;
use aifo_types::{Endpoint, Kind, ToolName};

use crate::config::error::{ConfigError, suggestion};
use crate::config::file::{File, KindEntries};
use crate::config::source::{Source, Sourced};
use crate::config::toolchains::AUTO;
use crate::config::values::{Config, Effect, Smart, ToolRule, parse_confine};

impl Config {
    /// Puts what a user's file says over what held before.
    pub(crate) fn apply_user(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries;
        for (name, kind) in &entries.kind {
            self.apply_kind(file, name, kind.get_ref(), &file.source(kind.span()))?;
        }
        if let Some(words) = file.told(&entries.toolchains) {
            self.toolchains = self.toolchains_named(words)?;
        }
        if let Some(Sourced { value, source }) = file.told(&entries.idle_stop_secs) {
            self.idle_stop_secs = Sourced::new(limit(value), source);
        }
        if let Some(Sourced { value, source }) = file.told(&entries.max_secs) {
            self.max_secs = Sourced::new(limit(value), source);
        }
        if let Some(told) = file.told(&entries.max_executions) {
            self.max_executions = at_least_one(told)?;
        }
        self.verbose.set(file.told(&entries.verbose));
        if let Some(Sourced { value, source }) = file.told(&entries.listen) {
            let endpoint: Endpoint =
                value.parse().map_err(|error| ConfigError::new(&source, format!("{error}")))?;
            self.listen = Sourced::new(Some(endpoint), source);
        }
        if let Some(told) = file.told(&entries.local_python) {
            if !told.value.is_absolute() {
                let what = format!("local_python '{}' is not absolute", told.value.display());
                return Err(ConfigError::new(&told.source, what));
            }
            self.local_python.set(Some(told));
        }
        if let Some(told) = file.told(&entries.confine) {
            self.confine = confine(told)?;
        }
        self.containers.apply_file(file)?;
        self.apply_env(file)?;
        self.apply_notify(file)?;
        if let Some(Sourced { value, source }) = file.told(&entries.agent.smart) {
            let smart = Smart::parse(&value).ok_or_else(|| {
                let what = format!("'{value}' is not a way to be smart");
                ConfigError::new(&source, what).hint("say \"auto\", \"on\" or \"off\"")
            })?;
            self.agent.smart = Sourced::new(smart, source);
        }
        self.apply_agents(file)?;
        self.apply_permissions(file)?;
        self.agent.node.set(file.told(&entries.agent.node));
        self.agent.python.set(file.told(&entries.agent.python));
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
                let what = format!("toolchain '{kind}' has its tools already");
                let source = file.source(tools.span());
                return Err(ConfigError::new(&source, what).hint("add to them with: allow = [..]"));
            }
            (None, Some(_)) => new_kind(name).map_err(|what| ConfigError::new(header, what))?,
            (None, None) => return Err(self.unknown_kind(name, header)),
        };
        for allowed in [&entries.tools, &entries.allow] {
            if let Some(told) = file.told(allowed) {
                self.policy.allow(&kind, tool_names(&told)?);
                let rule = ToolRule { kind: kind.clone(), effect: Effect::Allow, tools: told };
                self.tool_rules.push(rule);
            }
        }
        if let Some(image) = file.told(&entries.image) {
            self.name_image(kind.as_str(), image)?;
        }
        self.deny(&kind, file.told(&entries.deny))
    }

    /// Takes tools away from a kind, which every file may do.
    pub(crate) fn deny(
        &mut self,
        kind: &Kind,
        told: Option<Sourced<Vec<String>>>,
    ) -> Result<(), ConfigError> {
        if let Some(tools) = told {
            self.policy.deny(kind, tool_names(&tools)?);
            self.tool_rules.push(ToolRule { kind: kind.clone(), effect: Effect::Deny, tools });
        }
        Ok(())
    }

    fn unknown_kind(&self, name: &str, header: &Source) -> ConfigError {
        let error = ConfigError::new(header, format!("there is no toolchain '{name}'"));
        let known = self.policy.kinds().iter().map(|policy| policy.kind.as_str());
        match suggestion(name, known) {
            Some(meant) => error.hint(format!("did you mean [kind.{meant}]?")),
            None => error.hint("a new one lists its tools: tools = [..]"),
        }
    }

    fn apply_env(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries.env;
        if let Some(names) = file.told(&entries.allow) {
            self.allow_variables(names)?;
        }
        if let Some(variables) = file.told(&entries.set) {
            self.set_variables(variables)?;
        }
        match file.told(&entries.deny) {
            Some(names) => self.deny_variables(names),
            None => Ok(()),
        }
    }

    fn apply_notify(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries.notify;
        if let Some(told) = file.told(&entries.command) {
            let program = told.value.first().map(String::as_str).unwrap_or_default();
            if !program.starts_with('/') {
                let what = format!("the command '{program}' is not an absolute path");
                let hint = "for example: command = [\"/usr/bin/notify-send\", \"{args}\"]";
                return Err(ConfigError::new(&told.source, what).hint(hint));
            }
            self.notify.command.set(Some(told));
        }
        self.notify.enabled.set(file.told(&entries.enabled));
        self.notify.allow.set(file.told(&entries.allow));
        self.notify.options.set(file.told(&entries.options));
        self.notify.safe_dirs.set(file.told(&entries.safe_dirs));
        self.notify.trim_env.set(file.told(&entries.trim_env));
        self.notify.env_allow.set(file.told(&entries.env_allow));
        self.notify.timeout_secs.set(file.told(&entries.timeout_secs));
        Ok(())
    }
}

/// Seconds as people write them: 0 is no limit.
pub(crate) fn limit(seconds: u64) -> Option<u64> {
    (seconds > 0).then_some(seconds)
}

/// Whether tools are held to their place, by its word.
pub(crate) fn confine(told: Sourced<String>) -> Result<Sourced<ConfinementMode>, ConfigError> {
    let Sourced { value, source } = told;
    match parse_confine(&value) {
        Some(confine) => Ok(Sourced::new(confine, source)),
        None => Err(ConfigError::new(&source, format!("'{value}' is not a way to confine"))
            .hint("say \"auto\", \"required\" or \"off\"")),
    }
}

/// With none at once, nothing would ever run.
pub(crate) fn at_least_one(told: Sourced<usize>) -> Result<Sourced<usize>, ConfigError> {
    if told.value == 0 {
        return Err(ConfigError::new(
            &told.source,
            "at least one tool must be able to run at once",
        ));
    }
    Ok(told)
}

fn new_kind(name: &str) -> Result<Kind, String> {
    let kind = Kind::parse(name).map_err(|invalid| invalid.to_string())?;
    if kind == Kind::host() {
        return Err(format!("'{kind}' cannot name a toolchain: it stands for the host itself"));
    }
    if kind == Kind::agent() {
        return Err(format!("'{kind}' cannot name a toolchain: it stands for the agent itself"));
    }
    if kind.as_str() == AUTO {
        return Err(format!("'{kind}' cannot name a toolchain: it stands for all of them"));
    }
    Ok(kind)
}

fn tool_names(told: &Sourced<Vec<String>>) -> Result<Vec<ToolName>, ConfigError> {
    let parse = |name: &String| match ToolName::parse(name.as_bytes()) {
        // Under such a name the shim would be something else than that tool.
        Ok(tool) if !tool.as_str().starts_with("aifo-") => Ok(tool),
        Ok(_) => Err(format!("'{name}' cannot be a tool: names in aifo- are ours")),
        Err(invalid) => Err(format!("'{name}' cannot be a tool: {invalid}")),
    };
    let parsed = told.value.iter().map(parse).collect::<Result<_, _>>();
    parsed.map_err(|what| ConfigError::new(&told.source, what))
}
