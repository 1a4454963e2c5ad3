//! One terminal: a running or ended command and the tail of its output.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use aifo_process::{bytes_in_pipe, with_inherited_open_files};
use aifo_types::exit;
use nix::errno::Errno;
use serde_json::{Value, json};
use tokio::net::unix::pipe::{self, Receiver};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Approval;
use super::leader::GroupLeader;
use crate::exit_watcher::{ExitWatcher, ProcessExit};
use crate::tail::{StreamState, Tail, TailText};

/// An agent terminal. Dropping it kills its process group.
#[derive(Debug)]
pub(super) struct Terminal {
    tail: Tail,
    exit: watch::Receiver<Option<ProcessExit>>,
    /// A change kills the group; closing it ends the task.
    kill: watch::Sender<()>,
    /// Runs the command until the terminal ends; `None` if the command did not start.
    task: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts a command that runs `program`, and keeps `limit` bytes of its output. If it cannot be
    /// started, the terminal has ended and its output is the reason.
    pub(super) fn start(command: Command, program: &str, limit: usize) -> Self {
        let tail = Tail::new(limit);
        match start(command, &tail) {
            Ok((leader, exited, output)) => {
                let (sender, exit) = watch::channel(None);
                let (kill, killed) = watch::channel(());
                let task = tokio::spawn(run(leader, exited, output, sender, killed));
                Terminal { tail, exit, kill, task: Some(task) }
            }
            Err(error) => {
                let (code, reason) = start_failure(program, &error);
                Self::ended(code, &reason, limit)
            }
        }
    }

    /// Creates a terminal whose command starts once it is approved. `notice` is the first line of its
    /// output.
    pub(super) fn waiting(waiting: WaitingCommand, notice: &str, limit: usize) -> Self {
        let tail = Tail::new(limit);
        tail.push(format!("{notice}\n").as_bytes());
        let (sender, exit) = watch::channel(None);
        let (kill, killed) = watch::channel(());
        let task = tokio::spawn(approve_and_run(waiting, tail.clone(), sender, killed));
        Terminal { tail, exit, kill, task: Some(task) }
    }

    /// Creates a terminal that has ended, with `reason` as its output.
    pub(super) fn ended(code: u8, reason: &str, limit: usize) -> Self {
        let tail = Tail::new(limit);
        tail.push(reason.as_bytes());
        tail.push(b"\n");
        let (_, exit) = watch::channel(Some(ProcessExit::Code(code.into())));
        Terminal { tail, exit, kill: watch::Sender::new(()), task: None }
    }

    /// Returns the response to `terminal/output`.
    pub(super) fn output(&self) -> Value {
        let exit = self.exit.borrow().map(exit_value);
        let stream = if exit.is_some() { StreamState::Ended } else { StreamState::Open };
        let TailText { text, truncated } = self.tail.text(stream);
        json!({"output": text, "truncated": truncated, "exitStatus": exit})
    }

    /// Returns a receiver of the command's exit.
    pub(super) fn exit(&self) -> watch::Receiver<Option<ProcessExit>> {
        self.exit.clone()
    }

    /// Kills the group. The terminal remains.
    pub(super) fn kill(&self) {
        self.kill.send_replace(());
    }

    /// Kills the group and waits until its leader is reaped.
    pub(super) async fn end(self) {
        let Terminal { kill, task, .. } = self;
        drop(kill);
        if let Some(task) = task {
            // A task that failed has dropped its leader, which has the same effect.
            let _ = task.await;
        }
    }
}

/// A command that waits for approval.
pub(super) struct WaitingCommand {
    pub(super) approval: Approval,
    pub(super) command: Command,
    pub(super) program: String,
    /// The command directory, open until the command has started.
    pub(super) cwd: OwnedFd,
}

/// Starts a command whose output goes to `tail`.
fn start(mut command: Command, tail: &Tail) -> io::Result<(GroupLeader, ExitWatcher, Output)> {
    // At the end `command` closes this process's writing ends, which would keep the pipe open.
    let (output, writer) = Output::new(tail.clone())?;
    // One pipe for both keeps the order of writes.
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    command.process_group(0);
    let (leader, exited) =
        GroupLeader::new(with_inherited_open_files(|| command.as_std_mut().spawn())?)?;
    Ok((leader, exited, output))
}

/// Returns the exit code and the reason of a command that cannot be started.
fn start_failure(program: &str, error: &io::Error) -> (u8, String) {
    match error.kind() {
        io::ErrorKind::NotFound => (exit::NOT_FOUND, format!("{program}: not found")),
        _ => (exit::NOT_EXECUTABLE, format!("{program}: {error}")),
    }
}

/// Returns an exit as the protocol encodes it.
pub(super) fn exit_value(exit: ProcessExit) -> Value {
    match exit {
        ProcessExit::Code(code) => json!({"exitCode": code, "signal": null}),
        ProcessExit::Signal(name) => json!({"exitCode": null, "signal": name}),
        ProcessExit::Unknown => json!({"exitCode": null, "signal": "unknown"}),
    }
}

/// Runs a command until the terminal ends. Its background processes may write after its exit.
async fn run(
    leader: GroupLeader,
    mut exited: ExitWatcher,
    mut output: Output,
    sender: watch::Sender<Option<ProcessExit>>,
    mut killed: watch::Receiver<()>,
) {
    loop {
        tokio::select! {
            change = killed.changed() => {
                leader.kill();
                if change.is_err() {
                    break;
                }
            }
            () = exited.wait(), if exited.exit().is_none() => {
                output.keep_rest();
                sender.send_replace(exited.exit());
            }
            () = output.keep_next() => {}
        }
        // Heavy output must not starve the other events.
        tokio::task::yield_now().await;
    }
    exited.wait().await;
    output.keep_rest();
    sender.send_replace(exited.exit());
}

/// The pipe of a command's stdout and stderr, and the tail of its output.
struct Output {
    pipe: Receiver,
    tail: Tail,
    stream: StreamState,
}

/// Bytes of one read.
const READ: usize = 16 * 1024;

impl Output {
    /// Creates the pipe. Returns the reader and the command's end.
    fn new(tail: Tail) -> io::Result<(Self, OwnedFd)> {
        let (writer, pipe) = pipe::pipe()?;
        Ok((Output { pipe, tail, stream: StreamState::Open }, writer.into_blocking_fd()?))
    }

    /// Keeps the next output; never returns after the last. Cancel-safe.
    async fn keep_next(&mut self) {
        let mut buffer = [0; READ];
        while self.stream == StreamState::Open {
            let read = match self.pipe.readable().await {
                Ok(()) => self.pipe.try_read(&mut buffer),
                Err(error) => Err(error),
            };
            match read {
                Ok(count @ 1..) => return self.keep(&buffer, count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => self.stream = StreamState::Ended,
            }
        }
        std::future::pending::<()>().await;
    }

    /// Keeps the output that is in the pipe now. Later output is left in it, as a background process
    /// may write endlessly.
    fn keep_rest(&mut self) {
        let mut buffer = [0; READ];
        let mut remaining = bytes_in_pipe(self.pipe.as_fd());
        while remaining > 0 {
            let room = buffer.get_mut(..remaining.min(READ)).unwrap_or_default();
            // Not by tokio, which reads only after its reactor has seen the pipe's last event.
            match nix::unistd::read(self.pipe.as_fd(), room) {
                Ok(count @ 1..) => {
                    self.keep(&buffer, count);
                    remaining = remaining.saturating_sub(count);
                }
                Err(Errno::EINTR) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    fn keep(&self, buffer: &[u8], count: usize) {
        self.tail.push(buffer.get(..count).unwrap_or_default());
    }
}

/// Waits for the approval of a command, then runs it until the terminal ends.
async fn approve_and_run(
    waiting: WaitingCommand,
    tail: Tail,
    sender: watch::Sender<Option<ProcessExit>>,
    mut killed: watch::Receiver<()>,
) {
    let WaitingCommand { approval, command, program, cwd } = waiting;
    let approved = tokio::select! {
        approved = approval => Some(approved),
        change = killed.changed() => match change {
            Ok(()) => None,
            // Released.
            Err(_) => return,
        },
    };
    let ended = match approved {
        None => ProcessExit::Signal("SIGKILL"),
        Some(Err(reason)) => {
            tail.push(format!("{reason}\n").as_bytes());
            ProcessExit::Code(exit::NOT_EXECUTABLE.into())
        }
        Some(Ok(())) => match start(command, &tail) {
            Ok((leader, exited, output)) => {
                drop(cwd);
                return run(leader, exited, output, sender, killed).await;
            }
            Err(error) => {
                let (code, reason) = start_failure(&program, &error);
                tail.push(format!("{reason}\n").as_bytes());
                ProcessExit::Code(code.into())
            }
        },
    };
    sender.send_replace(Some(ended));
    // The receivers outlive this task.
    sender.closed().await;
}
