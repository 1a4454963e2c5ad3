//! git on this machine, outside of every repository (`spec/trust.md#programs`).
//!
//! A repository configuration can name commands that git runs: `core.fsmonitor`, hooks, aliases,
//! pagers, filters, external diffs, `core.sshCommand`. An agent can write that configuration, and
//! not every key can be overridden. So the launcher's git never opens a repository.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use tokio::process::Command;

use crate::trusted::TrustedPrograms;

/// Returns a git command that reads only the user's and the system's configuration; `None` if there
/// is no trusted git. Its stdin and stderr are `/dev/null`.
pub(crate) fn git(programs: &TrustedPrograms) -> Option<Command> {
    let mut git = Command::new(programs.program("git").ok()?);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_repository(name)) {
        git.env_remove(name);
    }
    git.env("GIT_DIR", "/dev/null").env("PATH", programs.path()).current_dir("/");
    git.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    Some(git)
}

/// True if a variable may point git to a repository or its configuration: every `GIT_` variable
/// except those that name the user's and the system's files.
fn is_of_repository(name: &OsStr) -> bool {
    let kept = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"];
    name.as_bytes().starts_with(b"GIT_") && kept.iter().all(|kept| name != *kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Runs an ordinary git, to create a repository.
    fn prepare(directory: &Path, args: &[&str]) -> bool {
        let mut git = std::process::Command::new("git");
        let status = git.args(args).current_dir(directory).stdout(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    #[tokio::test]
    async fn the_configuration_of_a_repository_is_not_in_force() {
        let base = std::env::temp_dir().join(format!("aifo-git-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        if !prepare(&base, &["init", "--quiet"]) {
            eprintln!("skipped: git is not installed");
            return;
        }
        let ran = base.join("ran");
        let command = format!("touch {}", ran.display());
        for key in ["core.fsmonitor", "core.pager", "core.sshCommand", "diff.external"] {
            assert!(prepare(&base, &["config", key, &command]));
        }
        assert!(prepare(&base, &["config", "alias.mine", &format!("!{command}")]));
        assert!(prepare(&base, &["config", "user.name", "of the repository"]));

        let programs = TrustedPrograms::for_workspace(Path::new("/nonexistent"), &[]);
        for args in [&["status"][..], &["diff"], &["mine"], &["config", "--get", "alias.mine"]] {
            let mut git = git(&programs).unwrap();
            let output = git.arg("-C").arg(&base).args(args).output().await.unwrap();
            assert!(!output.status.success(), "git {args:?} finds no repository");
        }
        assert!(!ran.exists());
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn only_the_users_own_files_are_named() {
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG_COUNT", "GIT_SSH_COMMAND"] {
            assert!(is_of_repository(OsStr::new(name)), "{name}");
        }
        for name in ["GIT_CONFIG_GLOBAL", "HOME", "PATH"] {
            assert!(!is_of_repository(OsStr::new(name)), "{name}");
        }
    }
}
