//! Reads and parses configuration files. The layers check the values.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::config::agents::AgentRow;
use crate::config::containers::ContainerEntries;
use crate::config::error::{ConfigError, suggestion};
use crate::config::permissions::PermissionEntries;
use crate::config::source::{FileLine, Source, Sourced};

/// A parsed configuration file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) entries: Entries,
    owner: Owner,
    /// The byte offset of each line.
    lines: Vec<usize>,
}

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    /// Any process that can write to the workspace, including the agent.
    Workspace,
}

/// All keys. User and workspace files have the same form, so that the error for a key in the wrong
/// file differs from the one for an unknown key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Entries {
    pub(crate) toolchains: Option<Spanned<Vec<String>>>,
    pub(crate) idle_stop_secs: Option<Spanned<u64>>,
    pub(crate) max_secs: Option<Spanned<u64>>,
    pub(crate) max_executions: Option<Spanned<usize>>,
    pub(crate) verbose: Option<Spanned<bool>>,
    pub(crate) listen: Option<Spanned<String>>,
    pub(crate) local_python: Option<Spanned<PathBuf>>,
    pub(crate) confine: Option<Spanned<String>>,
    pub(crate) backend: Option<Spanned<String>>,
    pub(crate) containers: ContainerEntries,
    pub(crate) kind: BTreeMap<String, Spanned<KindEntries>>,
    pub(crate) env: EnvEntries,
    pub(crate) notify: NotifyEntries,
    pub(crate) agent: AgentEntries,
    pub(crate) agents: BTreeMap<String, Spanned<AgentRow>>,
    pub(crate) permissions: PermissionEntries,
}

/// `[kind.NAME]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KindEntries {
    /// The tools of a new kind.
    pub(crate) tools: Option<Spanned<Vec<String>>>,
    /// Additional tools of an existing kind.
    pub(crate) allow: Option<Spanned<Vec<String>>>,
    pub(crate) deny: Option<Spanned<Vec<String>>>,
    /// The image of its containers.
    pub(crate) image: Option<Spanned<String>>,
}

/// `[env]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EnvEntries {
    /// Variables that are forwarded in addition to those of the table.
    pub(crate) allow: Option<Spanned<Vec<String>>>,
    pub(crate) deny: Option<Spanned<Vec<String>>>,
    /// Variables that every tool gets.
    pub(crate) set: Option<Spanned<BTreeMap<String, String>>>,
}

/// `[notify]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NotifyEntries {
    pub(crate) enabled: Option<Spanned<bool>>,
    pub(crate) command: Option<Spanned<Vec<String>>>,
    pub(crate) allow: Option<Spanned<Vec<String>>>,
    pub(crate) options: Option<Spanned<bool>>,
    pub(crate) safe_dirs: Option<Spanned<Vec<PathBuf>>>,
    pub(crate) trim_env: Option<Spanned<bool>>,
    pub(crate) env_allow: Option<Spanned<Vec<String>>>,
    pub(crate) timeout_secs: Option<Spanned<u64>>,
}

/// `[agent]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentEntries {
    pub(crate) smart: Option<Spanned<String>>,
    pub(crate) node: Option<Spanned<bool>>,
    pub(crate) python: Option<Spanned<bool>>,
}

/// Returns `$XDG_CONFIG_HOME/aifo/config.toml` or `~/.config/aifo/config.toml`; `None` without a
/// home directory.
pub(crate) fn user_file_path() -> Option<PathBuf> {
    let directory =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")));
    base.map(|base| base.join("aifo/config.toml"))
}

/// Returns the path of `.aifo.toml` in the workspace's root.
pub(crate) fn workspace_file_path(workspace: &Path) -> PathBuf {
    workspace.join(WORKSPACE_FILE)
}

impl File {
    /// Reads a file; `None` if it does not exist. A file named `.aifo.toml` is a workspace's.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ConfigError> {
        let unreadable =
            |error: std::io::Error| ConfigError::in_file(path, format!("cannot be read: {error}"));
        match path.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
            // An agent could create a FIFO here; opening it would block.
            Ok(metadata) if !metadata.is_file() => {
                return Err(ConfigError::in_file(path, "is not a file"));
            }
            Ok(_) => {}
        }
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(ConfigError::in_file(path, "is larger than 1 MiB"));
        }
        File::parse(path, &text).map(Some)
    }

    /// Parses the text of a file.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let owner = match path.file_name() {
            Some(name) if name == WORKSPACE_FILE => Owner::Workspace,
            _ => Owner::User,
        };
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        let path = path.to_owned();
        let mut file = File { path, entries: Entries::default(), owner, lines };
        match toml::from_str(text) {
            Ok(entries) => file.entries = entries,
            Err(error) => return Err(file.malformed(&error)),
        }
        Ok(file)
    }

    /// Returns whether it is a workspace's file, which can only restrict.
    pub(crate) fn is_workspaces(&self) -> bool {
        self.owner == Owner::Workspace
    }

    /// Errors: the file is in `workspace`, where an agent could extend its own permissions.
    pub(crate) fn check_outside(&self, workspace: &Path) -> Result<(), ConfigError> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !real(&self.path).starts_with(real(workspace)) {
            return Ok(());
        }
        let what = format!(
            "is in the workspace '{}', where an agent could extend its own permissions",
            workspace.display()
        );
        let hint = "choose a smaller workspace with --workspace, or move the file and set \
                    XDG_CONFIG_HOME";
        Err(ConfigError::in_file(&self.path, what).hint(hint))
    }

    /// Returns the source of a span of the text.
    pub(crate) fn source(&self, span: Range<usize>) -> Source {
        let line = self.lines.partition_point(|start| *start <= span.start).max(1);
        let line = FileLine { path: self.path.clone(), line };
        match self.owner {
            Owner::User => Source::UserFile(line),
            Owner::Workspace => Source::WorkspaceFile(line),
        }
    }

    /// Returns a value with its source, if the file has it.
    pub(crate) fn sourced<T: Clone>(&self, entry: &Option<Spanned<T>>) -> Option<Sourced<T>> {
        let entry = entry.as_ref()?;
        Some(Sourced::new(entry.get_ref().clone(), self.source(entry.span())))
    }

    fn malformed(&self, error: &toml::de::Error) -> ConfigError {
        let source = self.source(error.span().unwrap_or_default());
        let message = error.message();
        let Some(rest) = message.strip_prefix("unknown field `") else {
            return ConfigError::new(&source, message.replace('\n', "; "));
        };
        // "unknown field `x`, expected one of `a`, `b`": every second part is a name.
        let names: Vec<&str> = rest.split('`').step_by(2).collect();
        let (unknown, known) = names.split_first().unwrap_or((&"", &[]));
        let error = ConfigError::new(&source, format!("there is no key '{unknown}'"));
        let known = known.iter().copied().filter(|name| !name.is_empty());
        match suggestion(unknown, known.clone()) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error.hint(format!("known keys: {}", known.collect::<Vec<_>>().join(", "))),
        }
    }
}

const WORKSPACE_FILE: &str = ".aifo.toml";
/// More than a user writes, and fast to read at every start.
const MAX_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        File::parse(Path::new("/c.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn every_key_is_read() {
        let text = r#"
            toolchains = ["rust", "py"]
            idle_stop_secs = 60
            max_secs = 600
            max_executions = 8
            verbose = true
            listen = "tcp://127.0.0.1:0"
            local_python = "/opt/venv/bin/python3"
            confine = "required"
            backend = "docker"

            [kind.java]
            tools = ["java", "javac"]
            [kind.rust]
            allow = ["just"]
            deny = ["rustup"]
            image = "rust:1.95"

            [containers]
            net = "separate"
            publish = ["3000:3000"]
            pools = ["10.89.0.0/16"]
            memory = "4g"
            pids = 512
            cpus = 1.5
            caches = "none"
            image_prefix = "registry.example/"
            image_tag = "stable"
            admit = ["npmrc", "ca-bundle"]
            ca_bundle = "/etc/ssl/company.pem"

            [env]
            allow = ["FOO", "MY_*"]
            deny = ["CC"]
            set = { MODE = "fast" }

            [notify]
            enabled = true
            command = ["/usr/bin/notify-send", "{args}"]
            allow = ["notify-send"]
            options = true
            safe_dirs = ["/usr/bin"]
            trim_env = true
            env_allow = ["DISPLAY"]
            timeout_secs = 5

            [agent]
            smart = "auto"
            node = true
            python = false

            [agents.mine]
            image = "registry.example/mine:1"
            command = ["mine"]
            state = [".mine"]
            private = [".mine/run"]
            settings = [".mine.toml"]
            variables = ["MINE_KEY"]
            set = { MODE = "fast" }
            node = true
            python = false
            local_python = "/opt/venv/bin/python3"
            shell = "/bin/sh"

            [agents.mine.acp]
            command = ["mine", "--acp"]
            fs = true
            terminal = false
            missing_file = "empty"
            stream = "auto"
            allow_option = "accept"
            initialize_secs = 90
            kill_on_eof = true
            set = { MODE = "fast" }

            [permissions]
            allow = ["read", { command = "cargo test" }, { kind = "edit", path = "src" }]
            ask = ["execute"]
            deny = [{ path = ".git" }]
            default = "deny"
        "#;
        let file = File::parse(Path::new("/c.toml"), text).unwrap();
        let sourced = file.sourced(&file.entries.max_secs).unwrap();
        assert_eq!((sourced.value, sourced.source.to_string().as_str()), (600, "/c.toml:4"));
        let rust = file.entries.kind.get("rust").unwrap().get_ref();
        let sourced = file.sourced(&rust.deny).unwrap();
        assert_eq!(sourced.source.to_string(), "/c.toml:16");
    }

    #[test]
    fn errors_have_a_line_and_a_hint() {
        let rows = [
            (
                "\ntoolchain = []",
                "/c.toml:2: there is no key 'toolchain'\nhint: did you mean 'toolchains'?",
            ),
            (
                "[kind.rust]\nfrobs = 'x'",
                "/c.toml:2: there is no key 'frobs'\nhint: known keys: tools, allow, deny, image",
            ),
            (
                "[notify]\n\nsafe-dirs = []",
                "/c.toml:3: there is no key 'safe-dirs'\nhint: did you mean 'safe_dirs'?",
            ),
            ("max_secs = 'x'", "/c.toml:1: invalid type: string \"x\", expected u64"),
        ];
        for (text, expected) in rows {
            assert_eq!(error(text), expected);
        }
        assert!(error("a = 1\nb").starts_with("/c.toml:2: "), "{}", error("a = 1\nb"));
        assert!(error("max_secs = -1").starts_with("/c.toml:1: "));
    }
}
