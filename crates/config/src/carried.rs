//! The settings of the user's file that hold in a pod (`spec/kubernetes.md#settings`).

use std::path::Path;

use aifo_types::{env, is_secret};
use toml::{Table, Value};

use crate::error::ConfigError;
use crate::file::File;
use crate::source::Layer;
use crate::table::Config;

/// The keys of the file, and those below them that are left out.
pub(super) const CARRIED: [(&str, &[&str]); 10] = [
    ("agent", &["keys", "on_hangup", "state", "state_import"]),
    ("agents", &[]),
    ("ask", &["command"]),
    ("default_rules", &[]),
    ("env", &[]),
    ("judge", &[]),
    ("kind", &[]),
    ("local_python", &[]),
    ("max_executions", &[]),
    ("rule", &[]),
];
/// Carried keys that a variable of this machine can set.
const BY_VARIABLE: [&str; 5] =
    ["agent.node", "agent.python", "agent.smart", "local_python", "max_executions"];
/// Not carried: the containers already run the images.
const IMAGE: &str = "image";
/// Keys of an agent row about this machine's files.
const OF_HOME: [&str; 6] =
    ["state", "private", "credentials", "import", "conversations", "settings"];
/// Linux has a limit of 128 KiB for a variable.
const MAX_BYTES: usize = 100 << 10;

/// Returns the settings that hold in the pod of an agent as TOML, a line for each key; empty without one.
pub fn carried_settings(config: &Config, agent: &str) -> Result<String, ConfigError> {
    let file = File::of_user()?;
    let table = file.as_ref().and_then(|file| toml::from_str(file.text()).ok());
    let mut table = kept(table.unwrap_or_default(), agent);
    for entry in config.entries().iter().filter(|entry| entry.layer() == Layer::Environment) {
        if BY_VARIABLE.contains(&entry.key.as_str())
            && let Ok(value) = Value::try_from(&entry.value)
        {
            set(&mut table, &entry.key, value);
        }
    }
    let keys = urls(config);
    if !keys.is_empty() {
        table.insert("keys".to_owned(), keys.into());
    }
    let lines: String =
        table.iter().map(|(key, value)| format!("{} = {}\n", text(key), inline(value))).collect();
    match lines.len() > MAX_BYTES {
        true => {
            let file = file.as_ref().map_or(Path::new(env::POD_SETTINGS), File::path);
            let problem = format!("has more than {} KiB of settings for a pod", MAX_BYTES >> 10);
            Err(ConfigError::in_file(file, problem))
        }
        false => Ok(lines),
    }
}

/// Returns the settings that the client has passed to this pod, in place of a user's file.
pub(super) fn passed_settings() -> Option<File> {
    std::env::var_os(env::POD_SESSION)?;
    let text = std::env::var(env::POD_SETTINGS).ok()?;
    Some(File::new(Path::new(env::POD_SETTINGS), text))
}

/// Returns the tables of `[keys]` with the URLs. Keys come from the secret of the pod.
fn urls(config: &Config) -> Table {
    let entries = config.services.entries().into_iter();
    // A pod localhost is that of its tools, which must not get the key.
    let urls =
        entries.filter_map(|(name, entry)| Some((name, entry.url.filter(|it| !it.is_local())?)));
    let table = |url: String| Value::Table(Table::from_iter([("url".to_owned(), url.into())]));
    urls.map(|(name, url)| (name, table(url.to_string()))).collect()
}

/// Returns the parts of the user's file that are carried.
fn kept(table: Table, agent: &str) -> Table {
    let mut all = Table::new();
    for (key, mut value) in table {
        let Some((_, omitted)) = CARRIED.iter().find(|(name, _)| *name == key) else { continue };
        if let Value::Table(table) = &mut value {
            table.retain(|name, _| !omitted.contains(&name));
            if key == "agents" {
                table.retain(|name, _| name == agent);
            }
            for row in table.iter_mut().filter_map(|(_, row)| row.as_table_mut()) {
                match key.as_str() {
                    "kind" => row.retain(|name, _| name != IMAGE),
                    "agents" => restrict_row(row),
                    _ => {}
                }
            }
            if table.is_empty() {
                continue;
            }
        }
        all.insert(key, value);
    }
    all
}

/// Removes secrets and the keys about this machine from an agent row.
fn restrict_row(row: &mut Table) {
    row.retain(|name, _| name != IMAGE && !OF_HOME.contains(&name));
    let remove_secrets = |row: &mut Table| {
        if let Some(Value::Table(set)) = row.get_mut("set") {
            set.retain(|name, value| {
                !is_secret(name.as_bytes(), value.as_str().unwrap_or_default().as_bytes())
            });
        }
    };
    remove_secrets(row);
    if let Some(Value::Table(acp)) = row.get_mut("acp") {
        remove_secrets(acp);
    }
}

/// Sets the value of `KEY` or `TABLE.KEY`.
fn set(table: &mut Table, key: &str, value: Value) {
    let Some((name, below)) = key.split_once('.') else {
        table.insert(key.to_owned(), value);
        return;
    };
    let inner = table.entry(name).or_insert_with(|| Table::new().into());
    if let Value::Table(inner) = inner {
        inner.insert(below.to_owned(), value);
    }
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

    fn lines(users: &str, agent: &str) -> String {
        let table = kept(toml::from_str(users).unwrap(), agent);
        table.iter().map(|(key, value)| format!("{} = {}\n", text(key), inline(value))).collect()
    }

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
        let text = lines(users, "other");
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
    fn the_row_of_the_agent_is_passed_without_secrets_and_files_of_this_machine() {
        let users = r#"
            [agents.other]
            command = ["other"]
            [agents.mine]
            command = ["mine", "--chat"]
            image = "registry.example/mine"
            state = [".mine"]
            set = { MODE = "fast", MINE_TOKEN = "hush" }
            acp = { command = ["mine-acp"], set = { API_KEY = "hush", QUIET = "1" } }
        "#;
        let text = lines(users, "mine");
        let read: Table = toml::from_str(&text).unwrap();
        let row = read["agents"]["mine"].as_table().unwrap();
        assert_eq!(row.keys().map(String::as_str).collect::<Vec<_>>(), ["acp", "command", "set"]);
        assert!(!text.contains("hush") && !text.contains("other"), "{text}");
        let mut config = Config::builtin();
        config.apply_user(&File::new(Path::new(env::POD_SETTINGS), text)).unwrap();
        let spec = config.agent_named("mine").unwrap();
        assert_eq!(spec.command, ["mine", "--chat"]);
        assert_eq!(spec.set, [("MODE".to_owned(), "fast".to_owned())]);
    }

    #[test]
    fn a_pod_applies_the_settings() {
        let users = "[kind.java]\ntools = [\"javac\"]\n[kind.rust]\ndeny = [\"cargo\"]\n";
        let mut config = Config::builtin();
        config.apply_user(&File::new(Path::new(env::POD_SETTINGS), lines(users, "codex"))).unwrap();
        let names: Vec<_> =
            config.kinds.policy.kinds().iter().map(|policy| policy.kind.to_string()).collect();
        assert!(names.contains(&"java".to_owned()), "{names:?}");
        assert!(config.kinds.policy.all_tools().contains(&"javac"));
    }

    #[test]
    fn of_keys_only_urls_of_other_machines_are_passed() {
        let users = r#"
            [keys.openai]
            url = "https://llm.example/v1"
            file = "/home/me/.secrets/llm"
            [keys.compatible]
            url = "http://127.0.0.1:11434/v1"
            [keys.gemini]
            env = "WORK_KEY"
        "#;
        let mut config = Config::builtin();
        config.apply_user(&File::new(Path::new("/config.toml"), users.to_owned())).unwrap();
        assert_eq!(
            inline(&urls(&config).into()),
            r#"{ "openai" = { "url" = "https://llm.example/v1" } }"#
        );
    }
}
