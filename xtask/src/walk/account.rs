//! The account of a story: a new home directory, and a shell in it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;

/// Users of stories, if root goes them: each story has its own, so that no other session of this machine
/// is theirs.
const FIRST_UID: u32 = 200_000;
/// How many stories one process goes, and how many processes have different users.
const STORIES: u32 = 64;
const PROCESSES: u32 = 4096;

/// The parent of sessions' temporary directories.
const TEMPORARY: &str = "/var/tmp";

/// The socket whose group may use the Docker daemon.
const SOCKET: &str = "/var/run/docker.sock";

/// Longer than any story takes on a loaded machine, in seconds.
const LIMIT: &str = "300";

/// Precedes the status and the time in the shell's output.
const MARK: char = '\u{1e}';

/// A new account. Its processes are ended and its files removed on drop.
pub(super) struct Account {
    directory: TempDir,
    uid: u32,
    /// True if the user may use the Docker daemon.
    uses_docker: bool,
}

/// A command and its result.
pub(super) struct Step {
    pub(super) command: String,
    pub(super) output: String,
    pub(super) status: i32,
    pub(super) time: Duration,
}

impl Account {
    /// Creates a home directory that has the archive, its sum, and an empty `project`.
    pub(super) fn new(archive: &Path, uses_docker: bool) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("aifo-walk-").tempdir_in(TEMPORARY)?;
        let account = Account { directory, uid: next_uid(), uses_docker };
        let [home, project, runtime] = [account.home(), account.project(), account.runtime()];
        let modes = [(account.directory.path(), 0o755), (&home, 0o755), (&project, 0o755)];
        for (directory, mode) in modes.into_iter().chain([(runtime.as_path(), 0o700)]) {
            fs::create_dir_all(directory)?;
            fs::set_permissions(directory, Permissions::from_mode(mode))?;
        }
        for file in [archive.to_owned(), archive.with_extension("gz.sha256")] {
            let name = file.file_name().context("an archive has a name")?;
            fs::copy(&file, account.home().join(name))
                .with_context(|| format!("cannot copy {}", file.display()))?;
        }
        for directory in [&home, &project, &runtime] {
            account.own(directory)?;
        }
        Ok(account)
    }

    /// Unpacks the archive as README says.
    pub(super) fn install(&self, archive: &Path) -> Result<()> {
        let local = self.home().join(".local");
        fs::create_dir(&local)?;
        self.own(&local)?;
        let mut tar = self.command("tar");
        tar.arg("-xzf").arg(self.home().join(archive.file_name().unwrap_or_default()));
        tar.arg("-C").arg(local).arg("--strip-components=1");
        let status = tar.status().context("cannot run tar")?;
        if !status.success() {
            bail!("tar failed: {status}");
        }
        Ok(())
    }

    /// Writes the project file.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.project().join(name);
        fs::write(&path, text)?;
        self.own(&path)
    }

    /// Types the commands into one shell, in the project.
    pub(super) fn type_in(&self, commands: &[&str]) -> Result<Vec<Step>> {
        const REPORT: &str = "printf '\\036%s %s\\n' \"$?\" \"$EPOCHREALTIME\"\n";
        let typed: String = commands.iter().map(|command| format!("{command}\n{REPORT}")).collect();
        let script = self.directory.path().join("typed");
        fs::write(&script, format!("exec 2>&1\n{REPORT}{typed}"))?;
        fs::set_permissions(&script, Permissions::from_mode(0o644))?;
        let mut bash = self.command("setsid");
        // Without a terminal; the limit also ends commands in the background.
        bash.args(["--wait", "timeout", "--kill-after=5", LIMIT, "bash"]).arg(&script);
        let output = bash.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).replace(&self.home_text(), "/home/me");
        let runtime = self.runtime().to_string_lossy().into_owned();
        let text = text.replace(&runtime, "/run/user/me");
        // Names of the user's volumes have the uid.
        let text = text.replace(&format!("-{}-", self.uid), "-UID-");
        let steps = steps(commands, &text);
        if steps.len() < commands.len() {
            bail!("the shell ended before '{}': {}\n{text}", commands[steps.len()], output.status);
        }
        Ok(steps)
    }

    /// A command of the user, with the environment of a new login.
    fn command(&self, program: &str) -> Command {
        let mut command = match geteuid().is_root() {
            true => {
                let mut command = Command::new("setpriv");
                let id = self.uid.to_string();
                let group = self.group().to_string();
                command.args(["--reuid", &id, "--regid", &id, "--groups", &group, "--", program]);
                command
            }
            false => Command::new(program),
        };
        let home = self.home_text();
        let path = format!("{home}/.local/bin:/usr/local/bin:/usr/bin:/bin");
        command.env_clear().current_dir(self.project());
        command.env("XDG_RUNTIME_DIR", self.runtime()).env("TMUX_TMPDIR", self.runtime());
        command.envs([
            ("HOME", home.as_str()),
            ("PATH", &path),
            ("TERM", "dumb"),
            ("LANG", "C.UTF-8"),
        ]);
        command
    }

    /// The daemon group, or the user's own.
    fn group(&self) -> u32 {
        let daemons = || fs::metadata(SOCKET).ok().map(|socket| socket.gid());
        daemons().filter(|_| self.uses_docker).unwrap_or(self.uid)
    }

    fn own(&self, path: &Path) -> Result<()> {
        let is_root = geteuid().is_root();
        match is_root {
            true => chown(path, Some(self.uid), Some(self.uid)).map_err(Into::into),
            false => Ok(()),
        }
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    fn runtime(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    fn home_text(&self) -> String {
        self.home().to_string_lossy().into_owned()
    }

    fn project(&self) -> PathBuf {
        self.home().join("project")
    }

    /// Ends the processes whose HOME is this account's: tmux's server, podman's pause process.
    fn end_processes(&self) {
        let variable = format!("HOME={}", self.home_text());
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|pid| pid.parse().ok()) else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|it| it == variable.as_bytes()) {
                // It may have ended by itself.
                _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

impl Account {
    /// Removes what killed sessions have left, which no later account of this user would remove.
    fn remove_temporary_directories(&self) {
        if !geteuid().is_root() {
            return;
        }
        for entry in fs::read_dir(TEMPORARY).into_iter().flatten().flatten() {
            let is_of_session = entry.file_name().to_string_lossy().starts_with("aifo-");
            if is_of_session && entry.metadata().is_ok_and(|it| it.uid() == self.uid) {
                // Another process may have removed it.
                _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.uses_docker {
            // Caches are volumes of the daemon, which outlives the account.
            let mut clear = self.command("aifo-coder");
            clear.args(["cache", "clear"]).current_dir(self.home());
            if !geteuid().is_root() {
                // The other caches are the developer's.
                clear.arg("--project").arg("--workspace").arg(self.project());
            }
            _ = clear.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        self.end_processes();
        self.remove_temporary_directories();
    }
}

/// Returns a user id that no earlier story of this process had.
fn next_uid() -> u32 {
    static GONE: AtomicU32 = AtomicU32::new(0);
    let story = GONE.fetch_add(1, Ordering::Relaxed) % STORIES;
    FIRST_UID + std::process::id() % PROCESSES * STORIES + story
}

/// Divides the shell's output at its marks.
fn steps(commands: &[&str], text: &str) -> Vec<Step> {
    let mut parts = text.split(MARK);
    // What precedes the first mark is not of a command.
    _ = parts.next();
    let mut parts = parts.filter_map(|part| {
        let (mark, output) = part.split_once('\n')?;
        let (status, time) = mark.split_once(' ')?;
        Some((status.parse::<i32>().ok()?, time.parse::<f64>().ok()?, output))
    });
    let Some((_, mut before, mut output)) = parts.next() else { return Vec::new() };
    let mut steps = Vec::new();
    for (command, (status, time, next)) in commands.iter().zip(parts) {
        let seconds = Duration::from_secs_f64((time - before).max(0.0));
        let command = (*command).to_owned();
        steps.push(Step { command, output: output.to_owned(), status, time: seconds });
        (before, output) = (time, next);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_divided_by_command() {
        let text = "\u{1e}0 1.0\none\n\u{1e}0 2.5\n\u{1e}3 2.5\n";
        let steps = steps(&["echo one", "exit 3"], text);
        let parts: Vec<_> = steps.iter().map(|it| (it.output.as_str(), it.status)).collect();
        assert_eq!(parts, [("one\n", 0), ("", 3)]);
        assert_eq!(steps[0].time, Duration::from_millis(1500));
        assert!(super::steps(&["a"], "\u{1e}0 1.0\nkilled").is_empty());
    }
}
