//! One terminal: a running or ended command and the tail of its output.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_process::bytes_in_pipe;
use aifo_sidecar::on_reactor;
use aifo_types::exit;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{pipe2, read};
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::leader::{Exit, Leader};
use super::tail::{Stream, Tail, Text};

/// An agent's terminal. Dropping it kills its process group.
#[derive(Debug)]
pub(super) struct Terminal {
    tail: Arc<Mutex<Tail>>,
    exit: watch::Receiver<Option<Exit>>,
    /// Rings for a kill; gone, for the end.
    kills: watch::Sender<()>,
    /// Over when nothing of it is left; nothing for what never ran.
    task: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts a command that runs `program`, and keeps `limit` bytes of its output. One that cannot be
    /// started is a terminal that says so.
    pub(super) fn start(mut command: Command, program: &str, limit: usize) -> Self {
        let tail = Arc::new(Mutex::new(Tail::new(limit)));
        let started = Output::new(Arc::clone(&tail)).and_then(|(output, commands)| {
            // One pipe for both, so that the order is kept.
            command.stdin(Stdio::null()).stdout(commands.try_clone()?).stderr(commands);
            command.process_group(0);
            let child = command.as_std_mut().spawn()?;
            Ok((Leader::new(child)?, output))
        });
        // Our own copies of the pipe's other end go, or it would never be over.
        drop(command);
        match started {
            Ok((leader, output)) => Self::attended(leader, output, tail),
            Err(error) => {
                let (code, reason) = match error.kind() {
                    io::ErrorKind::NotFound => (exit::NOT_FOUND, "not found".to_owned()),
                    _ => (exit::NOT_EXECUTABLE, error.to_string()),
                };
                Self::over(code, &format!("{program}: {reason}"), limit)
            }
        }
    }

    /// One that ended at once, with a reason for its output.
    pub(super) fn over(code: u8, reason: &str, limit: usize) -> Self {
        let mut tail = Tail::new(limit);
        tail.push(reason.as_bytes());
        tail.push(b"\n");
        let (_, exit) = watch::channel(Some(Exit::Code(code.into())));
        Terminal {
            tail: Arc::new(Mutex::new(tail)),
            exit,
            kills: watch::Sender::new(()),
            task: None,
        }
    }

    fn attended(leader: Leader, output: Output, tail: Arc<Mutex<Tail>>) -> Self {
        let (sender, exit) = watch::channel(None);
        let (kills, heard) = watch::channel(());
        let task = Some(tokio::spawn(attend(leader, output, sender, heard)));
        Terminal { tail, exit, kills, task }
    }

    /// The response to `terminal/output`.
    pub(super) fn output(&self) -> Value {
        let exit = self.exit.borrow().as_ref().map(Exit::to_value);
        let stream = if exit.is_some() { Stream::Over } else { Stream::Open };
        let Text { text, truncated } = lock(&self.tail).text(stream);
        json!({"output": text, "truncated": truncated, "exitStatus": exit})
    }

    /// Waits for its end; returns at once if it has ended.
    pub(super) fn exit(&self) -> watch::Receiver<Option<Exit>> {
        self.exit.clone()
    }

    /// Kills what there is of its group. It stays a terminal.
    pub(super) fn kill(&self) {
        self.kills.send_replace(());
    }

    /// Kills its group, and waits until nothing is left to be reaped.
    pub(super) async fn end(self) {
        let Terminal { kills, task, .. } = self;
        drop(kills);
        if let Some(task) = task {
            // A task that failed has dropped its leader, which is the same end.
            let _ = task.await;
        }
    }
}

/// Runs a command to its end. Remaining processes may write until a kill or the terminal's end.
async fn attend(
    leader: Leader,
    mut output: Output,
    sender: watch::Sender<Option<Exit>>,
    mut kills: watch::Receiver<()>,
) {
    let mut is_over = false;
    loop {
        tokio::select! {
            rung = kills.changed() => {
                leader.kill();
                if rung.is_err() {
                    break;
                }
            }
            exit = leader.exit(), if !is_over => {
                is_over = true;
                output.take_rest();
                sender.send_replace(Some(exit));
            }
            () = output.take() => {}
        }
        // Heavy output must not starve the other events.
        tokio::task::yield_now().await;
    }
    let exit = leader.exit().await;
    output.take_rest();
    if !is_over {
        sender.send_replace(Some(exit));
    }
}

/// The pipe of a command's stdout and stderr, and what is kept of it.
struct Output {
    pipe: AsyncFd<OwnedFd>,
    tail: Arc<Mutex<Tail>>,
    stream: Stream,
}

impl Output {
    /// A new pipe: our end, and the command's.
    fn new(tail: Arc<Mutex<Tail>>) -> io::Result<(Self, OwnedFd)> {
        let (ours, commands) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let pipe = on_reactor(ours, Interest::READABLE)?;
        Ok((Output { pipe, tail, stream: Stream::Open }, commands))
    }

    /// Keeps what comes next; never returns when nothing comes any more. Cancel-safe.
    async fn take(&mut self) {
        while self.stream == Stream::Open {
            if self.try_take(CHUNK) > 0 {
                return;
            }
            // Forgotten before the next attempt, so an event in between is never lost.
            match self.pipe.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => break,
            }
        }
        std::future::pending::<()>().await;
    }

    /// Keeps what stands in the pipe, and nothing of what comes meanwhile: whoever was left behind
    /// may write for ever.
    fn take_rest(&mut self) {
        let mut owed = bytes_in_pipe(self.pipe.as_fd());
        while owed > 0 {
            match self.try_take(owed.min(CHUNK)) {
                0 => return,
                count => owed = owed.saturating_sub(count),
            }
        }
    }

    /// How much was there; 0 for nothing, now or for ever.
    fn try_take(&mut self, most: usize) -> usize {
        let mut chunk = [0; CHUNK];
        let room = chunk.get_mut(..most).unwrap_or_default();
        loop {
            match read(&self.pipe, room) {
                Ok(0) => self.stream = Stream::Over,
                Ok(count) => {
                    lock(&self.tail).push(room.get(..count).unwrap_or_default());
                    return count;
                }
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => {}
                Err(_) => self.stream = Stream::Over,
            }
            return 0;
        }
    }
}

const CHUNK: usize = 16 * 1024;

/// No holder panics, and a tail is valid after every step.
fn lock(tail: &Mutex<Tail>) -> MutexGuard<'_, Tail> {
    tail.lock().unwrap_or_else(PoisonError::into_inner)
}
