//! The environment, and the file that stands in for it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aifo_process::{Lookup, find_in_path};
use aifo_types::env;
use nix::fcntl::OFlag;
use nix::unistd::getuid;

/// The `AIFO_` variables of this call.
///
/// Agents start some children, MCP servers for one, with hardly any environment. Then the settings
/// come from `shim.env` beside the link that was called, else from `/run/aifo/shim.env`
/// (`spec/shim.md#settings`). A variable that is set always wins.
#[derive(Debug)]
pub(crate) struct Variables {
    file: HashMap<String, String>,
}

const FILE_NAME: &str = "shim.env";
const SYSTEM_FILE: &str = "/run/aifo/shim.env";
/// Bytes of the file that are read: a handful of short lines.
const MAX_FILE: u64 = 64 * 1024;

impl Variables {
    /// Looks for a file only if the environment does not say where the proxy is.
    pub(crate) fn read(tool: &[u8]) -> Self {
        let complete = from_environment(env::URL).is_some()
            && (from_environment(env::TOKEN).is_some()
                || from_environment(env::TOKEN_FILE).is_some());
        if complete {
            return Variables { file: HashMap::new() };
        }
        let beside = link_directory(tool).map(|directory| directory.join(FILE_NAME));
        let files = beside.into_iter().chain([PathBuf::from(SYSTEM_FILE)]);
        let text = files.filter_map(|file| trusted_text(&file)).next().unwrap_or_default();
        Variables { file: parse(&text) }
    }

    /// A variable that is set, not empty, and text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        from_environment(name).or_else(|| self.file.get(name).cloned())
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| env::is_truthy(&value))
    }
}

/// What the file of the whole system says, by name; nothing if there is none to be trusted.
pub(crate) fn system_file_variables() -> HashMap<String, String> {
    trusted_text(Path::new(SYSTEM_FILE)).map(|text| parse(&text)).unwrap_or_default()
}

fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The folder in which the shell, or whoever called us, found the link.
fn link_directory(tool: &[u8]) -> Option<PathBuf> {
    let called = PathBuf::from(std::env::args_os().next()?);
    let link = if called.components().count() > 1 {
        called
    } else {
        let path = std::env::var_os("PATH")?;
        match find_in_path(std::str::from_utf8(tool).ok()?, &path) {
            Lookup::Found(link) => link,
            Lookup::NotExecutable(_) | Lookup::Absent => return None,
        }
    };
    link.parent().map(Path::to_owned)
}

/// The file's text, if nobody but us and root can have written it.
fn trusted_text(path: &Path) -> Option<String> {
    let mut options = File::options();
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let file = options.open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let owner = metadata.uid();
    let is_trusted_owner = owner == getuid().as_raw() || owner == 0;
    if !metadata.is_file() || !is_trusted_owner || metadata.mode() & 0o022 != 0 {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// `AIFO_NAME=value` lines; everything else is passed over.
fn parse(text: &str) -> HashMap<String, String> {
    let lines = text.lines().filter_map(|line| line.trim().split_once('='));
    let variables =
        lines.filter(|(name, value)| name.starts_with(env::PREFIX) && !value.is_empty());
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_our_names_count() {
        let text = "# a comment\nAIFO_A=1\nPATH=/evil\n AIFO_B=x=y \nAIFO_C=\nAIFO_D\n";
        let variables = parse(text);
        assert_eq!(variables.get("AIFO_A").map(String::as_str), Some("1"));
        assert_eq!(variables.get("AIFO_B").map(String::as_str), Some("x=y"));
        assert_eq!(variables.len(), 2);
    }
}
