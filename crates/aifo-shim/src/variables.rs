//! The shim variables: environment and `shim.env`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aifo_process::{Lookup, find_in_path};
use aifo_types::{container_path, env};
use nix::fcntl::OFlag;
use nix::unistd::getuid;

/// The `AIFO_` variables of this call.
///
/// Agents start some children, such as MCP servers, with a nearly empty environment. Missing
/// variables are then read from a file (`spec/shim.md#settings`). A variable that is set takes
/// precedence.
#[derive(Debug)]
pub(crate) struct Variables {
    /// Names and values of the environment.
    set: Vec<(&'static [u8], &'static [u8])>,
    file: BTreeMap<String, String>,
}

const FILE_NAME: &str = "shim.env";
const MAX_FILE: u64 = 64 * 1024;

impl Variables {
    /// Reads a file only if the environment lacks the proxy address or token. A file beside a
    /// program of the workspace is not read: tools can write it.
    pub(crate) fn read(tool: &[u8], program: Option<&Path>) -> Self {
        let variables = Variables::of(&aifo_process::environment());
        let has_token =
            variables.text(env::TOKEN).is_some() || variables.text(env::TOKEN_FILE).is_some();
        if variables.text(env::URL).is_some() && has_token {
            return variables;
        }
        let link = || link_directory(tool).map(|directory| directory.join(FILE_NAME));
        let beside = if program.is_none() { link() } else { None };
        let files = beside.into_iter().chain([PathBuf::from(container_path::SHIM_SETTINGS)]);
        let text = files.filter_map(|file| trusted_text(&file)).next().unwrap_or_default();
        Variables { file: parse(&text).into_iter().collect(), ..variables }
    }

    /// Takes the variables of an environment, and reads no file.
    pub(crate) fn of(environment: &[&'static [u8]]) -> Self {
        let ours =
            environment.iter().filter(|variable| variable.starts_with(env::PREFIX.as_bytes()));
        let set = ours.filter_map(|variable| {
            let equals = variable.iter().position(|byte| *byte == b'=')?;
            Some((variable.get(..equals)?, variable.get(equals + 1..)?))
        });
        Variables { set: set.collect(), file: BTreeMap::new() }
    }

    /// Returns a variable that is set, not empty, and valid UTF-8.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.in_environment(name).or_else(|| self.file.get(name).cloned())
    }

    /// Returns the first variable of this name, as the C library does.
    fn in_environment(&self, name: &str) -> Option<String> {
        let (_, value) = self.set.iter().find(|(set, _)| *set == name.as_bytes())?;
        let value = std::str::from_utf8(value).ok()?;
        (!value.is_empty()).then(|| value.to_owned())
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| env::is_truthy(&value))
    }
}

/// Returns the variables of the system-wide file, or none if it is missing or not trusted.
pub(crate) fn system_file_variables() -> HashMap<String, String> {
    trusted_text(Path::new(container_path::SHIM_SETTINGS))
        .map(|text| parse(&text))
        .unwrap_or_default()
}

/// Returns the directory of the link that was called.
fn link_directory(tool: &[u8]) -> Option<PathBuf> {
    let called = PathBuf::from(std::env::args_os().next()?);
    let link = if called.components().count() > 1 {
        called
    } else {
        let path = std::env::var_os("PATH")?;
        match find_in_path(OsStr::from_bytes(tool), &path) {
            Lookup::Found(link) => link,
            Lookup::NotExecutable(_) | Lookup::Absent => return None,
        }
    };
    link.parent().map(Path::to_owned)
}

/// Returns the file's text if only root and the current user can write it.
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

/// Parses `AIFO_NAME=value` lines and ignores all others.
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
    fn only_aifo_variables_are_read() {
        let text = "# a comment\nAIFO_A=1\nPATH=/evil\n AIFO_B=x=y \nAIFO_C=\nAIFO_D\n";
        let variables = parse(text);
        assert_eq!(variables.get("AIFO_A").map(String::as_str), Some("1"));
        assert_eq!(variables.get("AIFO_B").map(String::as_str), Some("x=y"));
        assert_eq!(variables.len(), 2);
    }
}
