//! An agent as a process: three pipes, and its end.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aifo_process::{Mark, random_bits, signal_group_number, sweep};
use aifo_types::{ExecId, Signal, env};
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::tail::Tail;
use crate::wire_log::WireLog;

/// An agent that runs, in a process group of its own (`spec/acp.md#processes`).
///
/// Its stdin is written and its stderr drained by tasks, so that neither keeps the other or us from
/// going on. Its stdout is read by a [`AgentConnection`](crate::AgentConnection) as it is asked for more: to
/// ask for nothing is to hold the agent back.
///
/// [`AgentProcess::end`] ends it in good order; dropping it kills it. What has left its group is found if it is
/// below us, so a caller whose agents are processes of this machine
/// [becomes their subreaper](aifo_process::become_subreaper).
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    leader: Pid,
    /// Whether the number of the leader may be somebody else's by now.
    is_reaped: bool,
    /// On all that it starts, should that leave the group.
    mark: Mark,
    pub(crate) stdin: StdinQueue,
    /// Completes when no more is written to its stdin.
    written: oneshot::Receiver<()>,
    pub(crate) stdout: ChildStdout,
    stderr: Tail,
    pub(crate) exited: ExitWatcher,
    tasks: JoinSet<()>,
    limits: ProcessLimits,
    log: Option<Arc<WireLog>>,
}

/// How long an agent may take, and how much of what it says is kept.
#[derive(Clone, Copy, Debug)]
pub struct ProcessLimits {
    /// For one of our lines to be read. Then it is taken as gone.
    pub write: Duration,
    /// From the end of its stdin to TERM.
    pub eof: Duration,
    /// From TERM to KILL.
    pub term: Duration,
    /// What is kept of its stderr, the newest.
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
    /// How its process ended; an error if the system would not tell.
    pub status: Result<ExitStatus, String>,
    /// The end of what it said on stderr.
    pub stderr: String,
}

/// Lines that wait behind another to be written. Each may be long, so there is one.
const LINES: usize = 1;
/// One read of a pipe: what it holds.
pub(crate) const READ: usize = 64 * 1024;
/// For what stands in a pipe when its process has ended.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

impl AgentProcess {
    /// Starts an agent. What goes over its pipes is logged, if there is a log.
    pub fn spawn(
        mut command: Command,
        limits: ProcessLimits,
        log: Option<Arc<WireLog>>,
    ) -> io::Result<Self> {
        let id = ExecId::from_random(random_bits()?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).env(env::EXEC_MARK, id.as_str());
        let mut child = command.spawn()?;
        let leader = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take(), leader);
        let (Some(stdin), Some(stdout), Some(stderr), Some(leader)) = pipes else {
            // All of them were asked for just now.
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
            mark: Mark::of(&id),
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

    /// The end of what it has said on stderr.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// How its process ended, if it has, and the last that it said on stderr: a line for people, empty
    /// if neither is known.
    pub fn exit_summary(&self) -> String {
        let stderr = self.stderr();
        let line = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
        let words: Vec<&str> = self.exited.status.as_deref().into_iter().chain(line).collect();
        words.join(": ")
    }

    /// Kills it, and all that it started. Nothing of it is waited for.
    pub fn kill(&self) {
        self.signal(Signal::Kill);
        sweep(&self.mark);
    }

    /// Ends it: no more stdin, then TERM, then KILL. When this returns, nothing of it runs any more.
    pub async fn end(mut self) -> AgentExit {
        self.stdin = StdinQueue(None);
        // The last line may be an answer that it waits for. One that reads nothing gets no more time.
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
        // After a KILL this takes a moment; what the agent started goes with it, in any case.
        self.exited.wait().await;
        self.kill();
        let status = self.child.wait().await.map_err(|error| error.to_string());
        self.is_reaped = true;
        // Its last words stand in the pipe; somebody else's process may hold that open.
        let _ =
            timeout(DRAIN_TIMEOUT, async { while self.tasks.join_next().await.is_some() {} }).await;
        AgentExit { status, stderr: self.stderr.text() }
    }

    /// Whether it ends in that time, its stdout being drained: nobody ends who cannot write.
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

    /// Notes what was read of its stdout; nothing is its end.
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

/// What is still to be written to its stdin.
#[derive(Debug)]
pub(crate) struct StdinQueue(Option<mpsc::Sender<Vec<u8>>>);

impl StdinQueue {
    /// Room for one line; `None` once it takes no more. Cancel-safe.
    pub(crate) async fn reserve(&self) -> Option<mpsc::Permit<'_, Vec<u8>>> {
        self.0.as_ref()?.reserve().await.ok()
    }
}

/// Writes lines until there are no more, or the agent does not take one. Then the receiver is gone,
/// which is how the others learn of it.
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
            Ok(Err(error)) => return tracing::debug!(%error, "the agent reads no more"),
            Err(_) => return tracing::warn!("the agent reads nothing, so it is given up"),
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

/// Tells when a process has ended, and leaves it unreaped: as long as it is, nobody else can have its
/// number, which is its group's.
#[derive(Debug)]
pub(crate) struct ExitWatcher {
    receiver: Option<oneshot::Receiver<String>>,
    /// In words, once it has been told.
    status: Option<String>,
}

impl ExitWatcher {
    fn watch(pid: Pid) -> io::Result<Self> {
        let (sender, receiver) = oneshot::channel();
        let wait = move || {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            let status = loop {
                match waitid(Id::Pid(pid), flags) {
                    Err(Errno::EINTR) => {}
                    Ok(WaitStatus::Exited(_, code)) => break format!("exit status {code}"),
                    Ok(WaitStatus::Signaled(_, signal, _)) => break format!("killed by {signal}"),
                    _ => break "nobody knows how".to_owned(),
                }
            };
            // Whoever wanted to know may be gone.
            let _ = sender.send(status);
        };
        std::thread::Builder::new().name("aifo-agent-end".to_owned()).spawn(wait)?;
        Ok(ExitWatcher { receiver: Some(receiver), status: None })
    }

    /// Cancel-safe; returns at once when it has returned before.
    pub(crate) async fn wait(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            // A thread that is gone has nothing to tell.
            self.status = receiver.await.ok();
            self.receiver = None;
        }
    }
}
