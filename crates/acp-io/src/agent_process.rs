//! An agent process: pipes, exit, and process group.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aifo_process::{
    ExecTag, kill_tagged, random_bits, signal_group_number, with_inherited_open_files,
};
use aifo_types::{ExecId, Signal, env};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::exit_watcher::ExitWatcher;
use crate::tail::{StreamState, Tail};
use crate::wire_log::WireLog;

/// A running agent in a process group of its own (`spec/acp.md#processes`).
///
/// Tasks write its stdin and drain its stderr, so that no pipe blocks another. An
/// [`AgentConnection`](crate::AgentConnection) reads its stdout on demand, which holds the agent
/// back.
///
/// [`AgentProcess::end`] ends it gracefully; dropping it kills it. Processes that left its group
/// are found among the caller's descendants, so the caller [becomes a
/// subreaper](aifo_process::become_subreaper).
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    leader: Pid,
    /// True if the leader's process id may have been reused.
    is_reaped: bool,
    /// Tags the agent processes, to find those that leave the group.
    exec_tag: ExecTag,
    pub(crate) stdin: StdinQueue,
    /// Completes when the stdin task ends.
    written: oneshot::Receiver<()>,
    pub(crate) stdout: ChildStdout,
    stderr: Tail,
    pub(crate) exited: ExitWatcher,
    tasks: JoinSet<()>,
    limits: ProcessLimits,
    log: Option<Arc<WireLog>>,
}

/// Timeouts of an agent process, and the size of the stderr tail.
#[derive(Clone, Copy, Debug)]
pub struct ProcessLimits {
    /// To write one line. After that the agent counts as gone.
    pub write: Duration,
    /// From closing its stdin to TERM.
    pub eof: Duration,
    /// From TERM to KILL.
    pub term: Duration,
    /// Bytes kept of its stderr.
    pub stderr_tail: usize,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        ProcessLimits {
            write: Duration::from_secs(30),
            eof: Duration::from_secs(1),
            term: Duration::from_secs(3),
            stderr_tail: 64 * 1024,
        }
    }
}

/// How an agent ended.
#[derive(Clone, Debug)]
pub struct AgentExit {
    /// The exit status, or why it is unknown.
    pub status: Result<ExitStatus, String>,
    /// The last bytes of its stderr.
    pub stderr: String,
}

/// Queued lines. One, as each may be long.
const LINES: usize = 1;
/// The size of one read: a pipe's capacity.
pub(crate) const READ: usize = 64 * 1024;
/// To drain a pipe after its process has exited.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

impl AgentProcess {
    /// Starts an agent. Its pipes are logged if `log` is given.
    pub fn spawn(
        mut command: Command,
        limits: ProcessLimits,
        log: Option<Arc<WireLog>>,
    ) -> io::Result<Self> {
        let id = ExecId::from_random(random_bits()?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).env(env::EXEC_TAG, id.as_str());
        let mut child = with_inherited_open_files(|| command.spawn())?;
        let leader = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take(), leader);
        let (Some(stdin), Some(stdout), Some(stderr), Some(leader)) = pipes else {
            // All three pipes were requested above.
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let tail = Tail::new(limits.stderr_tail);
        let (lines, to_write) = mpsc::channel(LINES);
        let (writing, written) = oneshot::channel();
        let mut tasks = JoinSet::new();
        let write = write(stdin, to_write, limits.write, log.clone());
        tasks.spawn(async move {
            write.await;
            drop::<oneshot::Sender<()>>(writing);
        });
        tasks.spawn(drain(stderr, tail.clone(), log.clone()));
        Ok(AgentProcess {
            child,
            leader,
            is_reaped: false,
            exec_tag: ExecTag::new(&id),
            stdin: StdinQueue(Some(lines)),
            written,
            stdout,
            stderr: tail,
            exited: ExitWatcher::watch(leader)?,
            tasks,
            limits,
            log,
        })
    }

    /// Returns the last bytes of its stderr.
    pub fn stderr(&self) -> String {
        self.stderr.text(StreamState::Ended).text
    }

    /// Returns the exit status, if known, and the last line of stderr; empty if there is neither.
    pub fn exit_summary(&self) -> String {
        let stderr = self.stderr();
        let line = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
        let status = self.exited.exit().map(|exit| exit.to_string());
        let words: Vec<&str> = status.as_deref().into_iter().chain(line).collect();
        words.join(": ")
    }

    /// Kills the agent and all its processes without waiting.
    pub fn kill(&self) {
        self.signal(Signal::Kill);
        kill_tagged(&self.exec_tag);
    }

    /// Ends the agent: closes its stdin, then sends TERM, then KILL. Returns when all its processes
    /// are gone.
    pub async fn end(mut self) -> AgentExit {
        self.stdin = StdinQueue(None);
        // The last line may be an answer. An agent that does not read gets no more time.
        let _ = timeout(DRAIN_TIMEOUT, &mut self.written).await;
        let limits = self.limits;
        let steps = [(limits.eof, Some(Signal::Term)), (limits.term, Some(Signal::Kill))];
        for (time, signal) in steps {
            if self.exits_within(time).await {
                break;
            }
            if let Some(signal) = signal {
                self.signal(signal);
            }
        }
        // Short, after a KILL. The agent's other processes are killed in any case.
        self.exited.wait().await;
        self.kill();
        let status = self.child.wait().await.map_err(|error| error.to_string());
        self.is_reaped = true;
        // The pipe may hold unread output, and a process outside may keep it open.
        let _ =
            timeout(DRAIN_TIMEOUT, async { while self.tasks.join_next().await.is_some() {} }).await;
        AgentExit { status, stderr: self.stderr() }
    }

    /// Returns whether the agent exits in time. Drains its stdout, as a blocked write would keep it
    /// from exiting.
    async fn exits_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut unread = vec![0; READ];
        let mut is_open = true;
        loop {
            tokio::select! {
                () = self.exited.wait() => return true,
                () = sleep_until(deadline) => return false,
                read = self.stdout.read(&mut unread), if is_open => is_open = matches!(read, Ok(1..)),
            }
        }
    }

    /// Logs bytes of its stdout; empty means its end.
    pub(crate) fn log_read(&self, bytes: &[u8]) {
        match &self.log {
            Some(log) if bytes.is_empty() => log.end_in(),
            Some(log) => log.record_in(bytes),
            None => {}
        }
    }

    fn signal(&self, signal: Signal) {
        if !self.is_reaped {
            signal_group_number(self.leader, signal.number());
        }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
        }
    }
}

/// Lines to write to the agent's stdin.
#[derive(Debug)]
pub(crate) struct StdinQueue(Option<mpsc::Sender<Vec<u8>>>);

impl StdinQueue {
    /// Reserves room for one line; `None` if stdin is closed. Cancel-safe.
    pub(crate) async fn reserve(&self) -> Option<mpsc::Permit<'_, Vec<u8>>> {
        self.0.as_ref()?.reserve().await.ok()
    }
}

/// Writes lines until the queue is closed or a write fails or times out, which closes the queue.
async fn write(
    mut stdin: ChildStdin,
    mut lines: mpsc::Receiver<Vec<u8>>,
    write_timeout: Duration,
    log: Option<Arc<WireLog>>,
) {
    while let Some(line) = lines.recv().await {
        if let Some(log) = &log {
            log.record_out(&line);
        }
        match timeout(write_timeout, stdin.write_all(&line)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return tracing::debug!(%error, "cannot write to the agent's stdin"),
            Err(_) => return tracing::warn!("timed out writing to the agent's stdin"),
        }
    }
}

async fn drain(mut stderr: ChildStderr, tail: Tail, log: Option<Arc<WireLog>>) {
    let mut buffer = vec![0; READ];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let new = buffer.get(..count).unwrap_or_default();
        tail.push(new);
        if let Some(log) = &log {
            log.record_err(new);
        }
    }
    if let Some(log) = &log {
        log.end_err();
    }
}
