//! User, group and git identity in the agent container.

use std::path::PathBuf;

use nix::unistd::{getgid, getuid};
use tokio::process::Command;

use crate::git::git;
use crate::own_directories::home;
use crate::trusted::TrustedPrograms;

/// Returns `/etc/passwd`: root, and the caller as `coder`. Root as the caller has the same home.
pub fn passwd(home: &str, shell: &str, as_root: bool) -> String {
    let caller = if as_root { (0, 0) } else { (getuid().as_raw(), getgid().as_raw()) };
    let line = |name: &str, (uid, gid): (u32, u32), home: &str, shell: &str| {
        format!("{name}:x:{uid}:{gid}:{name}:{home}:{shell}\n")
    };
    let nobody = line("nobody", (65534, 65534), "/nonexistent", "/usr/sbin/nologin");
    match caller.0 {
        // The first line with an id gives its name.
        0 => {
            line("coder", (0, caller.1), home, shell) + &line("root", (0, 0), home, shell) + &nobody
        }
        _ => {
            line("root", (0, 0), "/root", "/bin/sh") + &line("coder", caller, home, shell) + &nobody
        }
    }
}

/// Returns the matching `/etc/group`.
pub fn group(as_root: bool) -> String {
    let gid = if as_root { 0 } else { getgid().as_raw() };
    match gid {
        0 => "root:x:0:\nnogroup:x:65534:\n".to_owned(),
        gid => format!("root:x:0:\ncoder:x:{gid}:\nnogroup:x:65534:\n"),
    }
}

/// Returns `/etc/gitconfig` and the file of [`EXCLUDES`], from git's global configuration: `user.*`,
/// `init.defaultBranch` and the text of `core.excludesFile`. Nothing that runs commands is carried.
pub async fn git_settings(programs: &TrustedPrograms) -> (String, String) {
    let settings = global_settings(programs).await;
    if settings.iter().any(|(key, value)| key == "commit.gpgsign" && value == "true") {
        tracing::warn!(
            "commits in the agent's container are not signed: commit.gpgsign has no effect"
        );
    }
    let excludes = settings.iter().rev().find(|(key, _)| key == "core.excludesfile");
    let excludes = excludes.map_or(DEFAULT_EXCLUDES, |(_, path)| path);
    let excludes = read_excludes(excludes).unwrap_or_default();
    let mut text = String::new();
    for (key, value) in settings.iter().filter(|(key, _)| is_carried(key)) {
        if let Some((section, name)) = key.split_once('.') {
            text += &format!("[{section}]\n\t{name} = {}\n", quoted(value));
        }
    }
    if !excludes.is_empty() {
        text += &format!("[core]\n\texcludesFile = {EXCLUDES}\n");
    }
    (text, excludes)
}

/// Returns what an agent in a pod gets of git's global configuration: keys and values of `user.*` and
/// `init.defaultBranch`.
pub fn git_identity(programs: &TrustedPrograms) -> Vec<(String, String)> {
    let output = list_command(programs).and_then(|mut git| git.as_std_mut().output().ok());
    let settings = output.map(|output| parse(output.stdout)).unwrap_or_default();
    settings.into_iter().filter(|(key, _)| is_carried(key)).collect()
}

/// The user's ignored files in the agent container.
pub const EXCLUDES: &str = "/etc/git-excludes";

/// git's own default of `core.excludesFile`.
const DEFAULT_EXCLUDES: &str = "~/.config/git/ignore";

/// True for `user.NAME` and `init.defaultBranch`. git prints section and name in lower case.
fn is_carried(key: &str) -> bool {
    let is_users = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    key == "init.defaultbranch" || key.strip_prefix("user.").is_some_and(is_users)
}

/// Returns keys and values of git's global configuration, in their order.
async fn global_settings(programs: &TrustedPrograms) -> Vec<(String, String)> {
    let Some(mut git) = list_command(programs) else { return Vec::new() };
    let Ok(output) = git.output().await else { return Vec::new() };
    parse(output.stdout)
}

fn list_command(programs: &TrustedPrograms) -> Option<Command> {
    let mut git = git(programs)?;
    // The project's own configuration is in the workspace.
    git.args(["config", "--global", "--includes", "--null", "--list"]);
    Some(git)
}

fn parse(output: Vec<u8>) -> Vec<(String, String)> {
    let text = String::from_utf8(output).unwrap_or_default();
    let settings = text.split('\0').filter_map(|setting| setting.split_once('\n'));
    settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Reads the file of `core.excludesFile`.
fn read_excludes(path: &str) -> Option<String> {
    let path = match path.strip_prefix("~/") {
        Some(below) => home()?.join(below),
        None => PathBuf::from(path),
    };
    let is_small = path.metadata().is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES);
    if is_small { std::fs::read_to_string(path).ok() } else { None }
}

/// The largest file of ignored names.
const MAX_BYTES: u64 = 64 << 10;

/// Quotes a value for a git configuration file.
fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_git_reads_back() {
        assert_eq!(quoted("Jo \"J\" \\ #;"), "\"Jo \\\"J\\\" \\\\ #;\"");
    }

    #[test]
    fn no_setting_that_runs_a_command_is_carried() {
        for key in ["user.name", "user.email", "user.useconfigonly", "init.defaultbranch"] {
            assert!(is_carried(key), "{key}");
        }
        for key in ["core.pager", "user.a.b", "userx.name", "commit.gpgsign", "alias.x"] {
            assert!(!is_carried(key), "{key}");
        }
    }

    #[test]
    fn the_caller_has_a_name_and_a_home() {
        let uid = getuid().as_raw();
        let text = passwd("/home/coder", "/bin/bash", false);
        let line = text.lines().find(|line| line.starts_with("coder:")).unwrap();
        let fields: Vec<_> = line.split(':').collect();
        assert_eq!(fields.len(), 7);
        assert_eq!(fields.get(2), Some(&uid.to_string().as_str()));
        assert!(line.ends_with(":/home/coder:/bin/bash"));
        let first = text.lines().find(|line| line.split(':').nth(2) == Some(&uid.to_string()));
        assert_eq!(first, Some(line), "the id is first of all coder's");
    }
}
