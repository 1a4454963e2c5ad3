//! Runs commands: prints each to stderr, and names it in errors.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The workspace root.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// `cargo ARGS` in the workspace root, not started.
///
/// It does not get the variables of the package that cargo runs now: build scripts that watch them, as that of
/// ring, would run again, and all that depends on them be built again.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Prints and runs a command with inherited streams, and fails if it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("$ {line}");
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs a command silently and returns its trimmed stdout.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let line = line(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed: {}", output.status);
    }
    let text = String::from_utf8(output.stdout).with_context(|| format!("`{line}`: not UTF-8"))?;
    Ok(text.trim_end().to_owned())
}

/// Runs a command and returns its status and both output streams in order. Every line also goes to
/// stderr.
///
/// A process that the command left behind may hold its output open for good. It is waited for no longer than
/// [`LEFT_BEHIND`].
pub(crate) fn capture(command: &mut Command) -> Result<(ExitStatus, String)> {
    let line = brief(&line(command));
    eprintln!("$ {line}");
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot run `{line}`"))?;
    // The command holds the pipe's write ends; the reader would never see its end.
    command.stdout(io::stderr()).stderr(io::stderr());
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(reader).split(b'\n');
        lines.try_for_each(|line| sender.send(line).map_err(|_| ()))
    });
    let mut report = String::new();
    loop {
        match lines.recv_timeout(LEFT_BEHIND) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line?).into_owned();
                eprintln!("{line}");
                report += &line;
                report.push('\n');
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_none() => {}
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("a process that `{line}` left behind still holds its output");
                break;
            }
        }
    }
    Ok((child.wait()?, report))
}

/// How long the output of a command that has ended may be silent before its end is no longer waited for.
const LEFT_BEHIND: Duration = Duration::from_secs(2);

/// Cuts a line, which may name hundreds of tests.
fn brief(line: &str) -> String {
    const MOST: usize = 200;
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{} ..", &line[..at]),
        None => line.to_owned(),
    }
}

/// Returns the first executable file of this name in PATH.
pub(crate) fn find_in_path(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(executable)
}

/// A command as a shell would take it, with its variables in front.
pub(crate) fn line(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy())))
    });
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| quoted(&word.to_string_lossy()));
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    // Fails only for NUL bytes, which no argument contains.
    shlex::try_quote(word).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_pasted_into_a_shell() {
        let mut command = Command::new("cargo");
        command.args(["doc", "", "it's"]).env("RUSTDOCFLAGS", "-D warnings").env_remove("HOME");
        assert_eq!(line(&command), r#"RUSTDOCFLAGS='-D warnings' cargo doc '' "it's""#);
    }

    #[test]
    fn both_streams_are_read_in_order() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 1; echo 2 >&2; echo 3; exit 4"]);
        let (status, report) = capture(&mut command).unwrap();
        assert_eq!((status.code(), report.as_str()), (Some(4), "1\n2\n3\n"));
    }

    #[test]
    fn a_process_that_was_left_behind_is_not_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!"]);
        let (status, report) = capture(&mut command).unwrap();
        let left = report.trim().parse().unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(left), nix::sys::signal::Signal::SIGKILL)
            .unwrap();
        assert!(status.success());
    }

    #[test]
    fn programs_are_found_in_the_path_only() {
        assert!(find_in_path("sh").is_some());
        assert_eq!(find_in_path("no-such-program-here"), None);
    }
}
