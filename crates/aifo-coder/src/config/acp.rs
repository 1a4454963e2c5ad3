//! `[agents.NAME.acp]`: changes and additions to the ACP profiles of agents.

use std::collections::BTreeMap;
use std::time::Duration;

use aifo_launch::{AcpProfile, AgentSpec, MissingFile, Stream};
use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use crate::config::agents::check_variable;
use crate::config::error::ConfigError;
use crate::config::file::File;
use crate::config::source::Sourced;

/// `[agents.NAME.acp]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AcpEntries {
    command: Option<Spanned<Vec<String>>>,
    fs: Option<Spanned<bool>>,
    terminal: Option<Spanned<bool>>,
    missing_file: Option<Spanned<String>>,
    stream: Option<Spanned<String>>,
    allow_option: Option<Spanned<String>>,
    initialize_secs: Option<Spanned<u64>>,
    kill_on_eof: Option<Spanned<bool>>,
    set: Option<Spanned<BTreeMap<String, String>>>,
}

/// Applies the user's file to the profile of an agent, or creates one.
pub(crate) fn change(
    spec: &mut AgentSpec,
    file: &File,
    entry: &Spanned<AcpEntries>,
) -> Result<(), ConfigError> {
    let entries = entry.get_ref();
    let command = file.sourced(&entries.command);
    if let Some(sourced) = &command
        && sourced.value.first().is_none_or(String::is_empty)
    {
        return Err(ConfigError::new(&sourced.source, "command must start with a program"));
    }
    let known = spec.acp.take();
    let Some(command) =
        command.map(|sourced| sourced.value).or_else(|| Some(known.as_ref()?.command.clone()))
    else {
        let what = format!("agent '{}' has no ACP command", spec.name);
        let error = ConfigError::new(&file.source(entry.span()), what);
        return Err(error.hint(format!("add: command = [\"{}\", ..]", spec.name)));
    };
    let mut acp = match known {
        Some(known) => AcpProfile { command, ..known },
        None => AcpProfile::plain(command),
    };
    let switches = [
        (&entries.fs, &mut acp.fs),
        (&entries.terminal, &mut acp.terminal),
        (&entries.kill_on_eof, &mut acp.kill_on_eof),
    ];
    for (entry, place) in switches {
        *place = file.sourced(entry).map_or(*place, |sourced| sourced.value);
    }
    if let Some(sourced) = file.sourced(&entries.missing_file) {
        acp.missing_file =
            parse_word(&sourced, MissingFile::parse, "missing_file", &["error", "empty"])?;
    }
    if let Some(sourced) = file.sourced(&entries.stream) {
        acp.stream = parse_word(&sourced, Stream::parse, "stream", &["delta", "snapshot", "auto"])?;
    }
    if let Some(sourced) = file.sourced(&entries.allow_option) {
        // An empty word removes the table's option.
        acp.allow_option = Some(sourced.value).filter(|option| !option.is_empty());
    }
    if let Some(sourced) = file.sourced(&entries.initialize_secs) {
        if sourced.value == 0 {
            return Err(ConfigError::new(&sourced.source, "initialize_secs must be at least 1"));
        }
        acp.initialize = Duration::from_secs(sourced.value);
    }
    if let Some(set) = file.sourced(&entries.set) {
        for (name, value) in set.value {
            check_variable(&name, &set.source)?;
            acp.set.retain(|(known, _)| *known != name);
            acp.set.push((name, value));
        }
    }
    spec.acp = Some(acp);
    Ok(())
}

/// Returns a profile for `config show`, with names of variables only: values may be secret.
pub(crate) fn shown(acp: &AcpProfile) -> Value {
    let set: Vec<_> = acp.set.iter().map(|(name, _)| name).collect();
    json!({
        "command": acp.command, "fs": acp.fs, "terminal": acp.terminal,
        "missing_file": acp.missing_file.as_str(), "stream": acp.stream.as_str(),
        "allow_option": acp.allow_option, "initialize_secs": acp.initialize.as_secs(),
        "kill_on_eof": acp.kill_on_eof, "set": set,
    })
}

fn parse_word<T>(
    sourced: &Sourced<String>,
    parse: impl Fn(&str) -> Option<T>,
    key: &str,
    words: &[&str],
) -> Result<T, ConfigError> {
    parse(&sourced.value)
        .ok_or_else(|| ConfigError::invalid_value(&sourced.source, &sourced.value, key, words))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::values::Config;

    fn config(text: &str) -> Result<Config, String> {
        let file = File::parse(Path::new("/c.toml"), text).map_err(|error| error.to_string())?;
        let mut config = Config::builtin();
        config.apply_user(&file).map_err(|error| error.to_string())?;
        Ok(config)
    }

    fn profile(text: &str, name: &str) -> AcpProfile {
        config(text).unwrap().agent_named(name).unwrap().acp.clone().unwrap()
    }

    #[test]
    fn profiles_are_changed_and_added() {
        let built_in = profile("", "qwen");
        let changed = profile(
            "[agents.qwen]\nimage = 'q'\n[agents.qwen.acp]\nfs = true\nallow_option = ''\nset = { A = '1' }",
            "qwen",
        );
        let set = vec![("A".to_owned(), "1".to_owned())];
        assert_eq!(changed, AcpProfile { fs: true, allow_option: None, set, ..built_in });
        let new = profile(
            "[agents.mine.acp]\ncommand = ['mine', '--acp']\nterminal = true\nmissing_file = 'empty'\n\
             stream = 'auto'\nallow_option = 'yes'\ninitialize_secs = 5\nkill_on_eof = true",
            "mine",
        );
        let expected = AcpProfile {
            terminal: true,
            missing_file: MissingFile::Empty,
            stream: Stream::Auto,
            allow_option: Some("yes".to_owned()),
            initialize: Duration::from_secs(5),
            kill_on_eof: true,
            ..AcpProfile::plain(vec!["mine".to_owned(), "--acp".to_owned()])
        };
        assert_eq!(new, expected);
        assert_eq!(config("").unwrap().agent_named("aider").unwrap().acp, None);
    }

    #[test]
    fn invalid_profiles() {
        let rows = [
            (
                "[agents.aider.acp]\nfs = true",
                "/c.toml:1: agent 'aider' has no ACP command\nhint: add: command = ",
            ),
            ("[agents.qwen.acp]\ncommand = []", "/c.toml:2: command must start with a program"),
            (
                "[agents.qwen.acp]\nmissing_file = 'x'",
                "/c.toml:2: invalid value 'x' for missing_file: expected error or empty",
            ),
            (
                "[agents.qwen.acp]\nstream = 'x'",
                "invalid value 'x' for stream: expected delta, snapshot or auto",
            ),
            (
                "[agents.qwen.acp]\ninitialize_secs = 0",
                "/c.toml:2: initialize_secs must be at least 1",
            ),
            ("[agents.qwen.acp]\nset = { PATH = '/x' }", "/c.toml:2: variable 'PATH' is reserved"),
            ("[agents.qwen.acp]\nterminals = true", "hint: did you mean 'terminal'?"),
        ];
        for (text, expected) in rows {
            let error = config(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
