//! User, group and git identity in the agent's container.

use nix::unistd::{getgid, getuid};

use crate::git::git;
use crate::trusted::TrustedPrograms;

/// Returns `/etc/passwd`: root, and the caller as `coder`. Root as the caller has the same home.
pub(crate) fn passwd(home: &str, shell: &str, as_root: bool) -> String {
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
pub(crate) fn group(as_root: bool) -> String {
    let gid = if as_root { 0 } else { getgid().as_raw() };
    match gid {
        0 => "root:x:0:\nnogroup:x:65534:\n".to_owned(),
        gid => format!("root:x:0:\ncoder:x:{gid}:\nnogroup:x:65534:\n"),
    }
}

/// Returns `/etc/gitconfig` with the identity of git's global configuration; empty if there is
/// none.
pub(crate) async fn gitconfig(programs: &TrustedPrograms) -> String {
    let setting = |key| git_setting(programs, key);
    let (name, email) = tokio::join!(setting("user.name"), setting("user.email"));
    let line = |key: &str, value: Option<String>| {
        value.map(|value| format!("\t{key} = {}\n", quoted(&value))).unwrap_or_default()
    };
    let lines = line("name", name) + &line("email", email);
    if lines.is_empty() { lines } else { format!("[user]\n{lines}") }
}

async fn git_setting(programs: &TrustedPrograms, key: &str) -> Option<String> {
    let mut git = git(programs)?;
    // The project's own configuration is in the workspace.
    let output =
        git.args(["config", "--global", "--includes", "--get", key]).output().await.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let value = text.strip_suffix('\n').unwrap_or(&text);
    (output.status.success() && !value.is_empty()).then(|| value.to_owned())
}

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
