//! Compares commands with the machine's real tools, run natively and through shims.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Running, Session, SessionSetup, can_run, eventually, files_below, is_alive, program};

/// How a command finds its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecMode {
    /// The real programs are first in PATH.
    Native,
    /// Shims are first and pass their descriptors.
    Passed,
    /// Shims are first and relay every byte.
    Relayed,
}

impl ExecMode {
    /// All modes, native first: the others must equal it.
    pub const ALL: [ExecMode; 3] = [ExecMode::Native, ExecMode::Passed, ExecMode::Relayed];
    /// The modes with shims.
    pub const SHIMS: [ExecMode; 2] = [ExecMode::Passed, ExecMode::Relayed];
}

/// The result of a command: its ending, its output, and the files it created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunResult {
    /// The exit code, or the signal that ended it.
    pub ending: Result<i32, i32>,
    /// Stdout as text.
    pub stdout: String,
    /// Stderr as text.
    pub stderr: String,
    /// Path, mode and content of each file below the two directories.
    pub files: Vec<(PathBuf, u32, String)>,
}

/// A session with real tools, a directory in the workspace and one outside.
///
/// Additional tools are `ninja` (the fake tool), `cmake` (`cat`) and `clang` (`yes`).
#[derive(Debug)]
pub struct Comparison {
    session: Session,
    tools: Vec<String>,
}

/// The rest of PATH, after tools or shims.
const REST: &str = "/usr/local/bin:/usr/bin:/bin";

impl Comparison {
    /// Starts a session with these tools of the machine. Without one of them, reports the test as
    /// skipped and returns `None`.
    #[track_caller]
    pub fn start(test: &str, tools: &[&str]) -> Option<Self> {
        let mut setup = SessionSetup::new().kinds(&["c-cpp", "python", "node"]);
        for tool in tools {
            let program = program(tool);
            // Each of these programs supports `--version`.
            let trial = program.as_deref().unwrap_or(Path::new(tool));
            if !can_run(test, &[trial.to_str().expect("a plain path"), "--version"]) {
                return None;
            }
            setup = setup.tool(tool, crate::Tool::Link(trial.to_owned()));
        }
        let setup = setup.script("cmake", "exec cat \"$@\"").script("clang", "exec yes \"$@\"");
        let path = format!("{}:{REST}", setup.tools().display());
        // A REPL writes its history to HOME, where a sidecar may not write.
        let setup = setup.env("PATH", &path).env("NODE_REPL_HISTORY", "");
        let names = tools.iter().copied().chain(["ninja", "cmake", "clang"]);
        let comparison =
            Comparison { session: setup.start(), tools: names.map(str::to_owned).collect() };
        comparison.give_settings();
        comparison.clear();
        Some(comparison)
    }

    /// The session of the shims.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The directory in the workspace where every command starts.
    pub fn dir(&self) -> PathBuf {
        self.session.workspace().join("here")
    }

    /// A directory outside every sidecar; `$OUTSIDE` for every command.
    pub fn outside(&self) -> PathBuf {
        self.session.scratch().join("outside")
    }

    /// A command that finds its tools in this mode. Its environment has only the shim variables,
    /// and its stdin is empty.
    pub fn command(&self, mode: ExecMode, words: &[&str]) -> Command {
        let (program, args) = words.split_first().expect("a command has a name");
        let mut command = Command::new(program);
        command.args(args).env_clear().current_dir(self.dir()).stdin(Stdio::null());
        command.env("HOME", self.session.scratch().join("home")).env("LANG", "C");
        command.env("TERM", "dumb").env("OUTSIDE", self.outside()).env("NODE_REPL_HISTORY", "");
        let first = match mode {
            ExecMode::Native => "tools",
            ExecMode::Passed | ExecMode::Relayed => "shims",
        };
        let first = self.session.scratch().join(first);
        command.env("PATH", format!("{}:{REST}", first.display()));
        if mode == ExecMode::Native {
            return command;
        }
        for tool in &self.tools {
            let shim = self.session.shim(tool);
            let ours = shim.get_envs().filter(|(name, _)| *name != "PATH");
            command.envs(ours.filter_map(|(name, value)| Some((name, value?))));
        }
        if mode == ExecMode::Relayed {
            command.env("AIFO_SHIM_RELAY", "1");
        }
        command
    }

    /// A tool by its path.
    pub fn tool(&self, mode: ExecMode, tool: &str, args: &[&str]) -> Command {
        let dir = if mode == ExecMode::Native { "tools" } else { "shims" };
        let path = self.session.scratch().join(dir).join(tool);
        let path = path.to_str().expect("the scratch path is text");
        self.command(mode, &[&[path], args].concat())
    }

    /// Runs a command to its end in empty directories.
    #[track_caller]
    pub fn run(&self, mode: ExecMode, words: &[&str]) -> RunResult {
        self.clear();
        let running = Running::start(&mut self.command(mode, words));
        eventually(&format!("it has ended ({mode:?}): {words:?}"), || !is_alive(running.pid()));
        let outcome = running.finish();
        let ending = outcome.status.code().ok_or(outcome.status.signal().unwrap_or_default());
        let (stdout, stderr) = (outcome.text(), without_pids(&outcome.stderr));
        RunResult { ending, stdout, stderr, files: self.files() }
    }

    /// Runs a command in several modes; returns the native result, or the differences.
    #[track_caller]
    pub fn compare(&self, modes: &[ExecMode], words: &[&str]) -> Result<RunResult, String> {
        let native = self.run(ExecMode::Native, words);
        let mut difference = String::new();
        for &mode in modes.iter().filter(|mode| **mode != ExecMode::Native) {
            let left = self.run(mode, words);
            if left != native {
                let _ = writeln!(difference, "--- {words:?}\nNative {native:?}\n{mode:?} {left:?}");
            }
        }
        if difference.is_empty() { Ok(native) } else { Err(difference) }
    }

    /// Writes `shim.env`, as `run` does, for children that start without an environment.
    fn give_settings(&self) {
        let (url, token) = (self.session.url(), self.session.token());
        let file = self.session.scratch().join("shims/shim.env");
        let text = format!("AIFO_TOOLEEXEC_URL={url}\nAIFO_TOOLEEXEC_TOKEN={token}\n");
        fs::write(&file, text).expect("the scratch directory is writable");
        let owner_only = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&file, owner_only).expect("the scratch directory is writable");
    }

    /// Empties both directories.
    pub fn clear(&self) {
        for dir in [self.dir(), self.outside()] {
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir(&dir).expect("the scratch directory is writable");
        }
    }

    fn files(&self) -> Vec<(PathBuf, u32, String)> {
        let file = |path: PathBuf| {
            let about = fs::symlink_metadata(&path).expect("the file exists");
            let content = if about.is_file() { fs::read(&path).ok() } else { None };
            let text = String::from_utf8_lossy(&content.unwrap_or_default()).into_owned();
            let path = path.strip_prefix(self.session.scratch()).map(Path::to_owned);
            (path.expect("the file is below a known directory"), about.permissions().mode(), text)
        };
        let found = [self.dir(), self.outside()].into_iter().flat_map(|at| files_below(&at));
        let mut files: Vec<_> = found.map(file).collect();
        files.sort();
        files
    }
}

/// Replaces pids: bash prints one for each child killed by a signal (`bash: line 1: 4711 Terminated
/// python3`).
fn without_pids(stderr: &str) -> String {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            [shell, "line", number, pid, rest @ ..] if pid.parse::<u32>().is_ok() => {
                format!("{shell} line {number} PID {}\n", rest.join(" "))
            }
            _ => format!("{line}\n"),
        }
    };
    stderr.lines().map(line).collect()
}
