//! Runs `aifo-coder serve` and always ends it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::dist::Dist;

/// The options of a session.
pub(crate) struct Options<'a> {
    /// The binaries to use.
    pub(crate) dist: &'a Dist,
    /// The tools' workspace.
    pub(crate) workspace: &'a Path,
    /// The kinds of sidecars.
    pub(crate) kinds: &'a [&'a str],
    /// The backend of the sidecars.
    pub(crate) backend: Backend<'a>,
    /// PATH of local sidecars.
    pub(crate) path: OsString,
    /// Further arguments of `serve`.
    pub(crate) arguments: &'a [String],
    /// Further variables of `serve`.
    pub(crate) variables: &'a [(&'a str, &'a Path)],
    /// A new file for stderr.
    pub(crate) log: PathBuf,
}

/// How sidecars run.
pub(crate) enum Backend<'a> {
    /// As local processes.
    Local,
    /// As containers of an engine, all from one image.
    Containers { engine: &'a str, image: &'a str },
    /// As containers of an engine, from the images of their kinds.
    OwnImages { engine: &'a str },
}

/// The session process; ended on drop.
pub(crate) struct Serve {
    child: Child,
    client_env: Vec<(String, String)>,
    log: PathBuf,
}

/// The variables that the session prints before it accepts calls.
const CLIENT_ENV: [&str; 3] = ["AIFO_TOOLEEXEC_URL", "AIFO_TOOLEEXEC_TOKEN", "AIFO_WORKSPACE"];
const START_WITHIN: Duration = Duration::from_secs(30);
const END_WITHIN: Duration = Duration::from_secs(20);

impl Serve {
    /// Starts a session and waits until it has printed [`CLIENT_ENV`].
    pub(crate) fn start(options: &Options<'_>) -> Result<Self> {
        let mut command = Command::new(&options.dist.coder);
        command.args(["serve", "--workspace"]).arg(options.workspace);
        match options.backend {
            Backend::Local => command.args(["--backend", "local"]),
            // A volume would outlive the workspace that it is for.
            Backend::Containers { engine, .. } | Backend::OwnImages { engine } => {
                command.args(["--no-toolchain-cache", "--backend", engine])
            }
        };
        for kind in options.kinds {
            command.args(["--toolchain", kind]);
            if let Backend::Containers { image, .. } = options.backend {
                command.args(["--toolchain-image", &format!("{kind}={image}")]);
            }
        }
        command
            .args(options.arguments)
            .env("PATH", &options.path)
            .envs(options.variables.iter().copied())
            .env("AIFO_SHIM_BIN", &options.dist.shim)
            // With the caller's target directory, the tools would build into it.
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&options.log)?);
        let child = command.spawn().context("cannot start aifo-coder serve")?;
        let log = options.log.clone();
        let mut serve = Serve { child, client_env: Vec::new(), log };
        let stdout = serve.child.stdout.take().context("no stdout")?;
        serve.read_client_env(stdout)?;
        Ok(serve)
    }

    /// The variables that configure a shim: name and value.
    pub(crate) fn client_env(&self) -> &[(String, String)] {
        &self.client_env
    }

    /// The path of its unix socket.
    pub(crate) fn socket(&self) -> Result<&Path> {
        let path = self.value("AIFO_TOOLEEXEC_URL").strip_prefix("unix://");
        path.map(Path::new).context("the session does not listen on a unix socket")
    }

    /// The session's bearer token.
    pub(crate) fn token(&self) -> &str {
        self.value("AIFO_TOOLEEXEC_TOKEN")
    }

    /// The proxy's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The log's last lines.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Ends the session with SIGTERM, and fails if it had to be killed.
    pub(crate) fn stop(mut self) -> Result<()> {
        match self.end() {
            StopResult::Asked => Ok(()),
            StopResult::Killed => {
                bail!("aifo-coder serve did not end on SIGTERM\n{}", self.log_tail())
            }
        }
    }

    fn value(&self, name: &str) -> &str {
        let pair = self.client_env.iter().find(|pair| pair.0 == name);
        pair.map_or("", |pair| pair.1.as_str())
    }

    fn read_client_env(&mut self, stdout: ChildStdout) -> Result<()> {
        let (sender, lines) = mpsc::channel();
        // The thread keeps reading, so that later output does not fail with EPIPE.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                _ = sender.send(line);
            }
        });
        let deadline = Instant::now() + START_WITHIN;
        while CLIENT_ENV.iter().any(|name| self.value(name).is_empty()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else {
                bail!("aifo-coder serve did not come up\n{}", self.log_tail());
            };
            if let Some((name, value)) = line.split_once('=') {
                self.client_env.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(())
    }

    fn end(&mut self) -> StopResult {
        let ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
        if ended(&mut self.child) {
            return StopResult::Asked;
        }
        _ = kill(pid(&self.child), Signal::SIGTERM);
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline {
            if ended(&mut self.child) {
                return StopResult::Asked;
            }
            thread::sleep(Duration::from_millis(5));
        }
        _ = self.child.kill();
        _ = self.child.wait();
        StopResult::Killed
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        _ = self.end();
    }
}

/// How the session process ended.
#[derive(Clone, Copy)]
enum StopResult {
    Asked,
    Killed,
}

/// The process id of a child that has not been reaped.
pub(crate) fn pid(child: &Child) -> Pid {
    // Linux process ids are below 2^22.
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// Returns PATH with a directory in front.
pub(crate) fn path_with(first: &Path) -> Result<OsString> {
    let ours = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::iter::once(first.to_path_buf()).chain(std::env::split_paths(&ours));
    Ok(std::env::join_paths(dirs)?)
}
