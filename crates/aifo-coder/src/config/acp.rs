//! `[agents.NAME.acp]`: how an agent is spoken to over ACP, changed or new.

use std::collections::BTreeMap;
use std::time::Duration;

use aifo_launch::{AcpProfile, AgentSpec, ChunkMode, MissingFileReply};
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

/// Puts what a user's file says over the profile of an agent, or makes one.
pub(crate) fn change(
    spec: &mut AgentSpec,
    file: &File,
    entry: &Spanned<AcpEntries>,
) -> Result<(), ConfigError> {
    let entries = entry.get_ref();
    let command = file.told(&entries.command);
    if let Some(told) = &command
        && told.value.first().is_none_or(String::is_empty)
    {
        return Err(ConfigError::new(&told.source, "a command has a program"));
    }
    let known = spec.acp.take();
    let Some(command) =
        command.map(|told| told.value).or_else(|| Some(known.as_ref()?.command.clone()))
    else {
        let what = format!("nothing is known of how '{}' speaks ACP", spec.name);
        let error = ConfigError::new(&file.source(entry.span()), what);
        return Err(error.hint(format!("say how it is started: command = [\"{}\", ..]", spec.name)));
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
        *place = file.told(entry).map_or(*place, |told| told.value);
    }
    if let Some(told) = file.told(&entries.missing_file) {
        acp.missing_file = word(&told, MissingFileReply::parse, "\"error\" or \"empty\"")?;
    }
    if let Some(told) = file.told(&entries.stream) {
        acp.stream = word(&told, ChunkMode::parse, "\"delta\", \"snapshot\" or \"auto\"")?;
    }
    if let Some(told) = file.told(&entries.allow_option) {
        // An empty word takes the table's away.
        acp.allow_option = Some(told.value).filter(|option| !option.is_empty());
    }
    if let Some(told) = file.told(&entries.initialize_secs) {
        if told.value == 0 {
            let error = ConfigError::new(&told.source, "an agent takes time to answer");
            return Err(error.hint("at least one second"));
        }
        acp.initialize = Duration::from_secs(told.value);
    }
    if let Some(set) = file.told(&entries.set) {
        for (name, value) in set.value {
            check_variable(&name, &set.source)?;
            acp.set.retain(|(known, _)| *known != name);
            acp.set.push((name, value));
        }
    }
    spec.acp = Some(acp);
    Ok(())
}

/// A profile as `config show` has it. Values of variables may be anybody's secret; names are not.
pub(crate) fn shown(acp: &AcpProfile) -> Value {
    let set: Vec<_> = acp.set.iter().map(|(name, _)| name).collect();
    json!({
        "command": acp.command, "fs": acp.fs, "terminal": acp.terminal,
        "missing_file": acp.missing_file.as_str(), "stream": acp.stream.as_str(),
        "allow_option": acp.allow_option, "initialize_secs": acp.initialize.as_secs(),
        "kill_on_eof": acp.kill_on_eof, "set": set,
    })
}

fn word<T>(
    told: &Sourced<String>,
    parse: impl Fn(&str) -> Option<T>,
    known: &str,
) -> Result<T, ConfigError> {
    parse(&told.value).ok_or_else(|| {
        let what = format!("'{}' is not a word for it", told.value);
        ConfigError::new(&told.source, what).hint(format!("say {known}"))
    })
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
    fn a_profile_is_changed_or_new() {
        let ours = profile("", "qwen");
        let changed = profile(
            "[agents.qwen]\nimage = 'q'\n[agents.qwen.acp]\nfs = true\nallow_option = ''\nset = { A = '1' }",
            "qwen",
        );
        let set = vec![("A".to_owned(), "1".to_owned())];
        assert_eq!(changed, AcpProfile { fs: true, allow_option: None, set, ..ours });
        let new = profile(
            "[agents.mine.acp]\ncommand = ['mine', '--acp']\nterminal = true\nmissing_file = 'empty'\n\
             stream = 'auto'\nallow_option = 'yes'\ninitialize_secs = 5\nkill_on_eof = true",
            "mine",
        );
        let expected = AcpProfile {
            terminal: true,
            missing_file: MissingFileReply::Empty,
            stream: ChunkMode::Auto,
            allow_option: Some("yes".to_owned()),
            initialize: Duration::from_secs(5),
            kill_on_eof: true,
            ..AcpProfile::plain(vec!["mine".to_owned(), "--acp".to_owned()])
        };
        assert_eq!(new, expected);
        assert_eq!(config("").unwrap().agent_named("aider").unwrap().acp, None);
    }

    #[test]
    fn mistakes() {
        let rows = [
            (
                "[agents.aider.acp]\nfs = true",
                "/c.toml:1: nothing is known of how 'aider' speaks ACP\nhint: say how it is started",
            ),
            ("[agents.qwen.acp]\ncommand = []", "/c.toml:2: a command has a program"),
            (
                "[agents.qwen.acp]\nmissing_file = 'x'",
                "/c.toml:2: 'x' is not a word for it\nhint: ",
            ),
            ("[agents.qwen.acp]\nstream = 'x'", "hint: say \"delta\", \"snapshot\" or \"auto\""),
            ("[agents.qwen.acp]\ninitialize_secs = 0", "/c.toml:2: an agent takes time to answer"),
            (
                "[agents.qwen.acp]\nset = { PATH = '/x' }",
                "/c.toml:2: a tool's PATH is the sidecar's",
            ),
            ("[agents.qwen.acp]\nterminals = true", "hint: did you mean 'terminal'?"),
        ];
        for (text, expected) in rows {
            let error = config(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
