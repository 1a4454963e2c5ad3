//! The settings of the user's file that hold in a pod (`spec/kubernetes.md#settings`).

use std::path::Path;

use aifo_types::env;
use toml::{Table, Value};

use crate::config::error::ConfigError;
use crate::config::file::File;

/// The keys of the file, and those below them that are left out.
const CARRIED: [(&str, &[&str]); 8] = [
    ("agent", &["keys", "on_hangup", "state", "state_import"]),
    ("ask", &["command"]),
    ("default_rules", &[]),
    ("env", &[]),
    ("judge", &[]),
    ("kind", &[]),
    ("permissions", &[]),
    ("rule", &[]),
];
/// The containers have the images.
const OF_KIND: &str = "image";
/// Linux has a limit of 128 KiB for a variable.
const MAX_BYTES: usize = 100 << 10;

/// Returns these settings of the user's file as TOML, a line for each key; empty without one.
pub(crate) fn carried_settings() -> Result<String, ConfigError> {
    let Some(file) = File::of_user()? else { return Ok(String::new()) };
    let table: Table = toml::from_str(file.text()).unwrap_or_default();
    let settings = carried(table);
    match settings.len() > MAX_BYTES {
        true => Err(ConfigError::in_file(
            file.path(),
            format!("has more than {} KiB of settings for a pod", MAX_BYTES >> 10),
        )),
        false => Ok(settings),
    }
}

/// Returns the settings that the client has passed to this pod, in place of a user's file.
pub(super) fn passed_settings() -> Option<File> {
    std::env::var_os(env::POD_SESSION)?;
    let text = std::env::var(env::POD_SETTINGS).ok()?;
    Some(File::new(Path::new(env::POD_SETTINGS), text))
}

fn carried(table: Table) -> String {
    let mut lines = String::new();
    for (key, mut value) in table {
        let Some((_, omitted)) = CARRIED.iter().find(|(name, _)| *name == key) else { continue };
        if let Value::Table(table) = &mut value {
            table.retain(|name, _| !omitted.contains(&name));
            if key == "kind" {
                for kind in table.iter_mut().filter_map(|(_, kind)| kind.as_table_mut()) {
                    kind.remove(OF_KIND);
                }
            }
        }
        lines += &format!("{} = {}\n", text(&key), inline(&value));
    }
    lines
}

/// Returns a value on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(word) => text(word),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(table) => {
            let rows: Vec<_> = table
                .iter()
                .map(|(key, value)| format!("{} = {}", text(key), inline(value)))
                .collect();
            format!("{{ {} }}", rows.join(", "))
        }
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(value) => value.to_string(),
        Value::Datetime(time) => time.to_string(),
    }
}

/// Returns a basic string.
fn text(word: &str) -> String {
    let escape = |letter: char| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => format!("\\u{:04X}", u32::from(letter)),
        letter => letter.to_string(),
    };
    format!("\"{}\"", word.chars().map(escape).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn rules_and_variables_hold_in_a_pod_and_nothing_else_is_passed() {
        let users = r#"
            listen = "tcp://127.0.0.1:1"
            [kind.rust]
            allow = ["just"]
            deny = ["cargo", "a\"b\\\u007f\n"]
            image = "registry.example/secret"
            [env]
            set = { MODE = "fast" }
            deny = ["AWS_*"]
            [ask]
            timeout_secs = 7
            command = ["/usr/bin/ask"]
            [keys.openai]
            command = ["/usr/bin/pass"]
            [agents.mine]
            variables = ["X"]
            [[rule]]
            id = "no-push"
        "#;
        let text = carried(toml::from_str(users).unwrap());
        let expected = concat!(
            "\"ask\" = { \"timeout_secs\" = 7 }\n",
            "\"env\" = { \"deny\" = [\"AWS_*\"], \"set\" = { \"MODE\" = \"fast\" } }\n",
            "\"kind\" = { \"rust\" = { \"allow\" = [\"just\"], ",
            "\"deny\" = [\"cargo\", \"a\\\"b\\\\\\u007F\\u000A\"] } }\n",
            "\"rule\" = [{ \"id\" = \"no-push\" }]\n",
        );
        assert_eq!(text, expected);
        let read: Table = toml::from_str(&text).unwrap();
        assert_eq!(read["kind"]["rust"]["deny"][1].as_str(), Some("a\"b\\\u{7f}\n"));
    }

    #[test]
    fn a_pod_applies_the_settings() {
        let users = "[kind.java]\ntools = [\"javac\"]\n[kind.rust]\ndeny = [\"cargo\"]\n";
        let text = carried(toml::from_str(users).unwrap());
        let mut config = Config::builtin();
        config.apply_user(&File::new(Path::new(env::POD_SETTINGS), text)).unwrap();
        let names: Vec<_> =
            config.kinds.policy.kinds().iter().map(|policy| policy.kind.to_string()).collect();
        assert!(names.contains(&"java".to_owned()), "{names:?}");
        assert!(config.kinds.policy.all_tools().contains(&"javac"));
    }
}
