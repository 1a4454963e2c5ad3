//! The latency of a frame through `aifo-coder acp`, relative to a line's round trip over pipes, on
//! one CPU.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::{
        signal::{Signal, kill},
        stat::Mode,
    },
    unistd::{Pid, mkfifo},
};
use tempfile::TempDir;

use super::measure::{Bench, WARM_UP};
use super::report::Measured::{self, Slowdown};
use super::stats::Pairs;
use crate::{serve, shell};

/// A notification: a FIFO makes the agent send it, and the bridge forwards it.
pub(super) fn update(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, AcpClient::time_update)
}

/// A request and its response: two frames through the bridge.
pub(super) fn request(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, AcpClient::time_request)
}

fn measure(
    bench: &Bench<'_>,
    time_once: fn(&mut AcpClient) -> Result<Duration>,
) -> Result<Measured> {
    let agent = build()?;
    let _one = PinnedCpu::take()?;
    let (mut native, mut bridged) =
        (AcpClient::native(&agent)?, AcpClient::bridged(bench, &agent)?);
    Pairs::measure(WARM_UP, || time_once(&mut native), || time_once(&mut bridged))?;
    // Each takes microseconds, so many rounds are cheap.
    let rounds = bench.depth.calls() * 20;
    Pairs::measure(rounds, || time_once(&mut native), || time_once(&mut bridged)).map(Slowdown)
}

/// Pins this process and its children to one CPU. A wake-up takes 3 us or 20 depending on the CPU
/// it happens on; unpinned, that difference would dominate the measurement.
struct PinnedCpu(CpuSet);

impl PinnedCpu {
    fn take() -> Result<Self> {
        let ourselves = Pid::from_raw(0);
        let all = sched_getaffinity(ourselves)?;
        let first = (0..CpuSet::count()).find(|cpu| all.is_set(*cpu).unwrap_or_default());
        let mut one = CpuSet::new();
        one.set(first.context("no CPU is available")?)?;
        sched_setaffinity(ourselves, &one)?;
        Ok(PinnedCpu(all))
    }
}

impl Drop for PinnedCpu {
    fn drop(&mut self) {
        // Restores the allowed CPUs.
        _ = sched_setaffinity(Pid::from_raw(0), &self.0);
    }
}

/// A client and its agent.
struct AcpClient {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// A byte here makes the agent send a notification.
    trigger: File,
    last_id: u64,
    line: Vec<u8>,
    _scratch: TempDir,
}

impl AcpClient {
    /// Without the bridge.
    fn native(agent: &Path) -> Result<Self> {
        let scratch = aifo_engine::images::scratch()?;
        let fifo = fifo(&scratch)?;
        AcpClient::start(Command::new(agent).arg(&fifo), scratch, fifo)
    }

    /// Through `aifo-coder acp`.
    fn bridged(bench: &Bench<'_>, agent: &Path) -> Result<Self> {
        let scratch = aifo_engine::images::scratch()?;
        let fifo = fifo(&scratch)?;
        let line = format!("'{}' '{}'", agent.display(), fifo.display());
        let mut coder = Command::new(&bench.dist.coder);
        coder.args(["acp", "--backend", "local", "--agent-command", &line]);
        coder.current_dir(&bench.workspace).env("AIFO_SHIM_BIN", &bench.dist.shim);
        coder.env("PATH", serve::path_with(&bench.calls.tools)?);
        AcpClient::start(&mut coder, scratch, fifo)
    }

    fn start(command: &mut Command, scratch: TempDir, fifo: PathBuf) -> Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        // Opening a FIFO for both reading and writing does not block.
        let trigger = OpenOptions::new().read(true).write(true).open(fifo)?;
        let line = Vec::new();
        let mut client =
            AcpClient { child, stdin, stdout, trigger, last_id: 0, line, _scratch: scratch };
        client.request("initialize", r#"{"protocolVersion":1}"#)?;
        let cwd = std::env::current_dir()?;
        client
            .request("session/new", &format!(r#"{{"cwd":"{}","mcpServers":[]}}"#, cwd.display()))?;
        Ok(client)
    }

    fn time_update(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.trigger.write_all(b".")?;
        self.read_line()?;
        Ok(start.elapsed())
    }

    fn time_request(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.request("_echo", r#"{"text":"some words of a question"}"#)?;
        Ok(start.elapsed())
    }

    /// Sends a request and reads the response.
    fn request(&mut self, method: &str, params: &str) -> Result<()> {
        self.last_id += 1;
        let id = self.last_id;
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}{}"#,
            '\n'
        );
        self.stdin.write_all(request.as_bytes())?;
        self.read_line()
    }

    fn read_line(&mut self) -> Result<()> {
        self.line.clear();
        if self.stdout.read_until(b'\n', &mut self.line)? == 0 {
            bail!("the agent has exited");
        }
        Ok(())
    }
}

impl Drop for AcpClient {
    fn drop(&mut self) {
        // The process may have exited already. Wait, so that no agent is left.
        _ = kill(serve::pid(&self.child), Signal::SIGTERM);
        _ = self.child.wait();
    }
}

fn fifo(scratch: &TempDir) -> Result<PathBuf> {
    let fifo = scratch.path().join("word");
    mkfifo(&fifo, Mode::S_IRWXU)?;
    Ok(fifo)
}

/// Builds the example `echo` of the crate `acp`, an agent that answers at once.
fn build() -> Result<PathBuf> {
    let dir = shell::root().join("target/dist");
    let mut cargo = shell::cargo(["build", "--release", "-p", "aifo-acp", "--example", "echo"]);
    shell::run(cargo.arg("--target-dir").arg(&dir))?;
    Ok(dir.join("release/examples/echo"))
}
