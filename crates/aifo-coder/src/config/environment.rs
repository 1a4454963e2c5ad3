//! The environment layer.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use aifo_types::{Endpoint, env};

use crate::config::error::ConfigError;
use crate::config::source::{Source, Sourced};
use crate::config::user::{check_max_executions, limit};
use crate::config::values::{Config, SmartMode};

pub(crate) type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Config {
    /// Overrides values with the environment's. Empty variables are ignored.
    pub(crate) fn apply_environment(
        &mut self,
        lookup: VariableLookup<'_>,
    ) -> Result<(), ConfigError> {
        let names = [env::MAX_SECS, env::TIMEOUT_SECS];
        for name in names.into_iter().rev() {
            if let Some(Sourced { value, source }) = number(lookup, name)? {
                self.max_secs = Sourced::new(limit(value), source);
            }
        }
        if let Some(sourced) = number(lookup, env::MAX_CONNECTIONS)? {
            self.max_executions = check_max_executions(sourced)?;
        }
        self.verbose.set(switch(lookup, env::VERBOSE)?);
        if let Some(Sourced { value, source }) = switch(lookup, env::USE_UNIX)? {
            self.listen = Sourced::new(if value { None } else { tcp(lookup)? }, source);
        }
        self.local_python.set(text(lookup, env::LOCAL_PYTHON)?.map(path));
        self.apply_smart(lookup)?;
        self.apply_container_environment(lookup)?;
        self.notify.timeout_secs.set(number::<u64>(lookup, env::NOTIFY_TIMEOUT_SECS)?);
        self.notify.trim_env.set(switch(lookup, env::NOTIFY_TRIM_ENV)?);
        self.notify.env_allow.set(list(lookup, env::NOTIFY_ENV_ALLOW)?);
        self.notify.allow.set(list(lookup, env::NOTIFY_ALLOWLIST)?);
        if let Some(Sourced { value, source }) = list(lookup, env::NOTIFY_SAFE_DIRS)? {
            let dirs = value.into_iter().map(PathBuf::from).collect();
            self.notify.safe_dirs = Sourced::new(dirs, source);
        }
        Ok(())
    }

    /// Applies the smart switches as a shim does: those of a runtime only count if the main one is
    /// on.
    fn apply_smart(&mut self, lookup: VariableLookup<'_>) -> Result<(), ConfigError> {
        let Some(main) = switch(lookup, env::SMART)? else { return Ok(()) };
        let smart = if main.value { SmartMode::On } else { SmartMode::Off };
        self.agent.smart = Sourced::new(smart, main.source.clone());
        let runtimes =
            [(&mut self.agent.node, env::SMART_NODE), (&mut self.agent.python, env::SMART_PYTHON)];
        for (runtime, name) in runtimes {
            let own = switch(lookup, name)?;
            let own = own.unwrap_or_else(|| Sourced::new(false, main.source.clone()));
            *runtime = Sourced::new(Some(main.value && own.value), own.source);
        }
        Ok(())
    }
}

/// Returns any port of the environment's address.
fn tcp(lookup: VariableLookup<'_>) -> Result<Option<Endpoint>, ConfigError> {
    let host = text(lookup, env::BIND_HOST)?.map(|sourced| sourced.value);
    let host = host.unwrap_or_else(|| "127.0.0.1".to_owned());
    Ok(Some(Endpoint::Tcp { host, port: 0, prefix: String::new() }))
}

fn number<T: FromStr>(
    lookup: VariableLookup<'_>,
    name: &'static str,
) -> Result<Option<Sourced<T>>, ConfigError> {
    let Some(Sourced { value, source }) = text(lookup, name)? else { return Ok(None) };
    match value.parse() {
        Ok(number) => Ok(Some(Sourced::new(number, source))),
        Err(_) => Err(ConfigError::new(
            &source,
            format!("invalid value '{value}': expected a whole number"),
        )),
    }
}

pub(crate) fn switch(
    lookup: VariableLookup<'_>,
    name: &'static str,
) -> Result<Option<Sourced<bool>>, ConfigError> {
    let sourced = text(lookup, name)?;
    Ok(sourced.map(|sourced| Sourced::new(env::is_truthy(&sourced.value), sourced.source)))
}

pub(crate) fn list(
    lookup: VariableLookup<'_>,
    name: &'static str,
) -> Result<Option<Sourced<Vec<String>>>, ConfigError> {
    let sourced = text(lookup, name)?;
    Ok(sourced.map(|Sourced { value, source }| {
        let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
        Sourced::new(words.map(str::to_owned).collect(), source)
    }))
}

fn path(sourced: Sourced<String>) -> Sourced<PathBuf> {
    Sourced::new(sourced.value.into(), sourced.source)
}

pub(crate) fn text(
    lookup: VariableLookup<'_>,
    name: impl Into<Cow<'static, str>>,
) -> Result<Option<Sourced<String>>, ConfigError> {
    let name = name.into();
    let value = lookup(&name);
    let source = Source::Environment(name);
    match value.map(OsString::into_string) {
        Some(Ok(value)) if !value.is_empty() => Ok(Some(Sourced::new(value, source))),
        Some(Err(_)) => Err(ConfigError::new(&source, "value is not valid UTF-8")),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn config(variables: &[(&str, &str)]) -> Result<Config, String> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        let mut config = Config::builtin();
        let applied = config.apply_environment(&|name| variables.get(name).map(OsString::from));
        applied.map(|()| config).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers() {
        let newer = config(&[(env::MAX_SECS, "5"), (env::TIMEOUT_SECS, "7")]).unwrap();
        assert_eq!(newer.max_secs.value, Some(5));
        assert_eq!(newer.max_secs.source, Source::Environment(env::MAX_SECS.into()));
        let older = config(&[(env::MAX_SECS, ""), (env::TIMEOUT_SECS, "7")]).unwrap();
        assert_eq!(older.max_secs.value, Some(7));
        assert_eq!(config(&[(env::MAX_SECS, "0")]).unwrap().max_secs.value, None);
        let error = config(&[(env::MAX_SECS, "5m")]).unwrap_err();
        assert_eq!(error, "AIFO_TOOLEEXEC_MAX_SECS: invalid value '5m': expected a whole number");
        assert!(config(&[(env::MAX_CONNECTIONS, "0")]).is_err());
    }

    #[test]
    fn listening() {
        let listen = |variables: &[_]| config(variables).unwrap().listen.value;
        assert_eq!(listen(&[(env::BIND_HOST, "0.0.0.0")]), None);
        assert_eq!(listen(&[(env::USE_UNIX, "1")]), None);
        let tcp = |host: &str| {
            Some(Endpoint::Tcp { host: host.to_owned(), port: 0, prefix: String::new() })
        };
        assert_eq!(listen(&[(env::USE_UNIX, "0")]), tcp("127.0.0.1"));
        assert_eq!(listen(&[(env::USE_UNIX, "0"), (env::BIND_HOST, "::1")]), tcp("::1"));
    }

    #[test]
    fn smart_switches_as_a_shim_reads_them() {
        let smart = |variables: &[_]| {
            let smart = config(variables).unwrap().smart_for(Some("codex"));
            (smart.node, smart.python)
        };
        assert_eq!(smart(&[]), (true, false), "the table");
        assert_eq!(
            smart(&[(env::SMART_PYTHON, "1")]),
            (true, false),
            "ignored without the main switch"
        );
        assert_eq!(smart(&[(env::SMART, "1")]), (false, false));
        assert_eq!(smart(&[(env::SMART, "1"), (env::SMART_PYTHON, "on")]), (false, true));
        assert_eq!(smart(&[(env::SMART, "0"), (env::SMART_NODE, "1")]), (false, false));
    }

    #[test]
    fn notifications() {
        let variables = [
            (env::NOTIFY_ALLOWLIST, "say, notify-send,"),
            (env::NOTIFY_SAFE_DIRS, "/usr/bin,/opt/bin"),
            (env::NOTIFY_TRIM_ENV, "yes"),
            (env::NOTIFY_TIMEOUT_SECS, "3"),
        ];
        let rules = config(&variables).unwrap().notify.rules();
        assert_eq!(rules.allowlist, ["say", "notify-send"]);
        assert_eq!(rules.safe_dirs, [PathBuf::from("/usr/bin"), PathBuf::from("/opt/bin")]);
        assert_eq!(rules.kept_variables().map(|names| names.len()), Some(4));
        assert_eq!(rules.timeout.map(|timeout| timeout.as_secs()), Some(3));
    }
}
