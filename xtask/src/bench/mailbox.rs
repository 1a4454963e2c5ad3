//! Host commands through a mailbox, relative to native calls.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;

use super::call::{Tool, expect_success};
use super::measure::{Bench, WARM_UP};
use super::report::Measured::{self, Absent, Slowdown};
use super::stats::Pairs;
use crate::{serve, shell};

/// Bytes of bulk output.
const BULK: u64 = 256 << 20;

/// `true` through the script with inotify-tools, relative to a shell that runs it.
pub(super) fn script(bench: &Bench<'_>) -> Result<Measured> {
    if shell::find_in_path("inotifywait").is_none() {
        return Ok(Absent("no inotifywait".to_owned()));
    }
    let mailbox = Mailbox::start(bench)?;
    let bash = shell::find_in_path("bash").context("'bash' is not in PATH")?;
    let native = || time(quiet(&bash).args(["-c", "true"]));
    let client = mailbox.client(Tool::True);
    let call = || time(&mut quiet(&client));
    Pairs::measure(WARM_UP, native, call)?;
    Pairs::measure(bench.depth.calls(), native, call).map(Slowdown)
}

/// Bulk output through the script into a file, relative to a copy of that file.
pub(super) fn output(bench: &Bench<'_>) -> Result<Measured> {
    let mailbox = Mailbox::start(bench)?;
    let [printed, copied] = ["printed", "copied"].map(|name| mailbox.scratch.path().join(name));
    let cp = shell::find_in_path("cp").context("'cp' is not in PATH")?;
    let download = || {
        let mut client = quiet(&mailbox.client(Tool::Output(BULK)));
        client.args(Tool::Output(BULK).args()).stdout(File::create(&printed)?);
        let time = time(&mut client)?;
        super::call::expect_bytes(BULK, fs::metadata(&printed)?.len())?;
        Ok(time)
    };
    let copy = || {
        let _ = fs::remove_file(&copied);
        time(quiet(&cp).arg(&printed).arg(&copied))
    };
    download()?;
    Pairs::measure(bench.depth.long(), copy, download).map(Slowdown)
}

/// A daemon and its directory; ended on drop.
struct Mailbox {
    daemon: Child,
    directory: PathBuf,
    scratch: TempDir,
}

impl Mailbox {
    fn start(bench: &Bench<'_>) -> Result<Self> {
        let scratch = aifo_engine::images::scratch()?;
        let directory = scratch.path().join("mailbox");
        fs::create_dir(&directory)?;
        let mut proxy = Command::new(&bench.dist.coder);
        proxy.args(["proxy", "--dir"]).arg(&directory);
        proxy.args([Tool::True.name(), Tool::Output(BULK).name()]);
        proxy
            .current_dir(&bench.workspace)
            .env("PATH", serve::path_with(&bench.calls.tools)?)
            .env("AIFO_SHIM_BIN", &bench.dist.shim)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut daemon = proxy.spawn().context("cannot start aifo-coder mailbox")?;
        let stdout = daemon.stdout.take().context("no stdout")?;
        let mailbox = Mailbox { daemon, directory, scratch };
        let mut lines = BufReader::new(stdout).lines();
        let is_last = |line: &std::io::Result<String>| {
            let last = Tool::Output(BULK).name();
            line.as_ref().is_ok_and(|line| line.ends_with(&format!("/{last}")))
        };
        if !lines.any(|line| is_last(&line)) {
            bail!("'aifo-coder mailbox' did not start");
        }
        Ok(mailbox)
    }

    fn client(&self, tool: Tool) -> PathBuf {
        self.directory.join(tool.name())
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // The daemon may have exited already.
        _ = kill(serve::pid(&self.daemon), Signal::SIGTERM);
        _ = self.daemon.wait();
    }
}

/// A call with empty stdin and no output.
fn quiet(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn time(command: &mut Command) -> Result<Duration> {
    let start = Instant::now();
    let output = command.spawn()?.wait_with_output()?;
    let time = start.elapsed();
    expect_success(&output)?;
    Ok(time)
}
