//! The event loop: one control connection, many execs.

mod commands;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aifo_process::{
    ChildEvent, OomScore, ResourceLimit, become_subreaper, current_limits, end_descendants,
    forbid_tracing, give_back_freed_memory, has_children, raise_open_files, reap,
    reset_dispositions,
};
use aifo_types::env;
use aifo_wire::{CancelCause, FRAMES_VERSION, Frame, FrameError, Interrupt, NetFlowError};
use nix::sys::epoll::EpollFlags;
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::Pid;

use crate::call_notes::{CallNotes, NoteOptions};
use crate::control::{ControlConnection, ControlTransport};
use crate::data_frame::DataFrame;
use crate::exec::{Exec, ExecContext};
use crate::listener_watch::{Activity, ListenerWatch};
use crate::poller::{EventSource, ExecFd, ExecKey, Poller};
use crate::stack_relay::StackRelay;
use crate::tool_launcher::ToolLauncher;

/// Why a runner could not start, or stopped serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An essential system call failed.
    #[error("system call failed: {0}")]
    System(#[from] io::Error),
    /// The control connection carried an invalid frame.
    #[error("invalid frame on the control connection: {0}")]
    Protocol(#[from] FrameError),
    /// A frame that is invalid on the control connection, or a `Start` without its descriptors.
    #[error("unexpected frame on the control connection")]
    UnexpectedFrame,
    /// A frame of a connection that does not exist, or has ended.
    #[error("on the control connection: {0}")]
    Connection(#[from] NetFlowError),
    /// The session directory does not exist.
    #[error("cannot use a directory of the session: {0}")]
    Roots(String),
}

/// Options of a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// The facts about the sidecar that call notes need.
    pub notes: NoteOptions,
    /// The variable of exec tags, with the exec id as value.
    pub tag: String,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions { notes: NoteOptions::default(), tag: env::EXEC_TAG.to_owned() }
    }
}

/// Serves execs until the control connection closes or SIGTERM arrives. Then ends the running tools
/// by escalation, and kills all other descendants.
pub fn serve(control: ControlTransport, options: ServeOptions) -> Result<(), ServeError> {
    let served = Server::start(control, options).and_then(|mut server| server.run());
    end_descendants();
    served
}

struct Server {
    poller: Poller,
    signals: SignalFd,
    control: ControlConnection,
    /// Registered epoll events of the control connection's output.
    control_output: EpollFlags,
    /// The proxy has closed the connection.
    proxy_lost: bool,
    limits: Vec<ResourceLimit>,
    notes: CallNotes,
    /// The variable of exec tags.
    tag: String,
    /// /dev/null, opened at start: once `Hello` is sent, the runner opens no descriptors for
    /// itself.
    null: File,
    /// Set only for PID 1.
    oom_score: Option<OomScore>,
    /// `None` until `Setup` has arrived.
    launcher: Option<ToolLauncher>,
    execs: HashMap<ExecKey, ExecEntry>,
    by_pid: HashMap<Pid, ExecKey>,
    next_key: ExecKey,
    /// The listeners of this network stack have been bound.
    has_listened: bool,
    /// The listeners, if the control connection passes none.
    stack: Option<StackRelay>,
    /// Reports what tools listen on, if the proxy requested it.
    watch: Option<ListenerWatch>,
    /// Rotates which exec sends first when the control connection has room again.
    next_turn: usize,
    frame: DataFrame,
    shutdown_since: Option<Instant>,
}

struct ExecEntry {
    exec: Exec,
    /// Registered epoll events, per descriptor.
    registered: [EpollFlags; ExecFd::ALL.len()],
}

/// How long tools have to end at the end of the session: three seconds of escalation, and one for
/// the kernel.
const SHUTDOWN_TIME: Duration = Duration::from_secs(4);

impl Server {
    fn start(control: ControlTransport, options: ServeOptions) -> Result<Self, ServeError> {
        give_back_freed_memory();
        reset_dispositions().map_err(io::Error::from)?;
        become_subreaper().map_err(io::Error::from)?;
        // When PID 1 dies the container ends, so the kernel must kill it last. Outside of a
        // container, tools keep the caller's score.
        let oom_score = if std::process::id() == 1 { OomScore::current().ok() } else { None };
        // Tools run as the same user and must not access the runner descriptors.
        forbid_tracing().map_err(io::Error::from)?;
        // Tools get the inherited limits, not the raised ones.
        let limits = current_limits();
        raise_open_files()?;
        let signal_set = SigSet::from_iter([Number::SIGCHLD, Number::SIGTERM]);
        signal_set.thread_block().map_err(io::Error::from)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&signal_set, flags).map_err(io::Error::from)?;
        let mut server = Server {
            poller: Poller::new()?,
            signals,
            control: ControlConnection::new(control)?,
            control_output: EpollFlags::empty(),
            proxy_lost: false,
            limits,
            notes: CallNotes::of_this_process(options.notes),
            tag: options.tag,
            null: File::options().read(true).write(true).open("/dev/null")?,
            oom_score,
            launcher: None,
            execs: HashMap::new(),
            by_pid: HashMap::new(),
            next_key: 0,
            has_listened: false,
            stack: None,
            watch: None,
            next_turn: 0,
            frame: DataFrame::new(),
            shutdown_since: None,
        };
        server.poller.add(server.control.input(), EventSource::Control)?;
        server.poller.add(server.signals.as_fd(), EventSource::Signals)?;
        server.control.send(&Frame::Hello { version: FRAMES_VERSION });
        Ok(server)
    }

    fn run(&mut self) -> Result<(), ServeError> {
        let mut ready = Vec::new();
        while !self.is_done() {
            self.poller.wait(self.deadline(), &mut ready)?;
            for event in ready.drain(..) {
                match event.source {
                    EventSource::Control => self.on_control()?,
                    EventSource::ControlOutput => self.control.flush(),
                    EventSource::Signals => self.on_signals()?,
                    EventSource::Stack(fd) => {
                        if let Some(stack) = &mut self.stack {
                            stack.on_ready(event, fd, &self.poller, &mut self.control)?;
                        }
                    }
                    EventSource::Exec(key, fd) => {
                        self.with_exec(key, |exec, context| exec.on_ready(event, fd, context))?;
                    }
                }
            }
            self.handle_timeouts()?;
            self.update_control_output()?;
        }
        Ok(())
    }

    /// Waits for room on the control connection if output is pending. Once there is room again,
    /// lets all execs continue.
    fn update_control_output(&mut self) -> Result<(), ServeError> {
        if self.control.is_broken() {
            self.on_proxy_lost()?;
        }
        if self.control.has_room_again() {
            let mut keys: Vec<_> = self.execs.keys().copied().collect();
            keys.sort_unstable();
            // Rotated, because the first exec may take all the room.
            let count = keys.len().max(1);
            keys.rotate_left(self.next_turn % count);
            self.next_turn = self.next_turn.wrapping_add(1);
            for key in keys {
                self.with_exec(key, Exec::on_room)?;
            }
            if let Some(stack) = &mut self.stack {
                stack.on_room(&self.poller, &mut self.control)?;
            }
        }
        let blocked = self.control.is_blocked();
        let interest = if blocked { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
        let writer = self.control.writer();
        self.poller.modify(
            writer.borrow().as_fd(),
            EventSource::ControlOutput,
            self.control_output,
            interest,
        )?;
        self.control_output = interest;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.shutdown_since.is_some_and(|started| {
            let reported = |entry: &ExecEntry| entry.exec.is_reported();
            let is_flushed = self.proxy_lost || !self.control.is_blocked();
            started.elapsed() >= SHUTDOWN_TIME || is_flushed && self.execs.values().all(reported)
        })
    }

    /// Returns when the next timeout is due.
    fn deadline(&self) -> Option<Instant> {
        let escalations = self.execs.values().filter_map(|entry| entry.exec.poll_timeout());
        let watch = self.watch.as_ref().and_then(ListenerWatch::poll_timeout);
        let shutdown = self.shutdown_since.map(|started| started + SHUTDOWN_TIME);
        escalations.chain(shutdown).chain(watch).min()
    }

    fn handle_timeouts(&mut self) -> Result<(), ServeError> {
        let now = Instant::now();
        let is_due = |entry: &ExecEntry| entry.exec.poll_timeout().is_some_and(|at| at <= now);
        let due = self.execs.iter().filter(|(_, entry)| is_due(entry)).map(|(key, _)| *key);
        for key in due.collect::<Vec<_>>() {
            self.with_exec(key, Exec::handle_timeout)?;
        }
        self.watch_listeners(now);
        Ok(())
    }

    /// Reports the listeners of this network stack if they have changed and a report is due.
    fn watch_listeners(&mut self, now: Instant) {
        let Some(watch) = &mut self.watch else { return };
        let activity = match self.execs.is_empty() {
            false => Activity::Execs,
            true if has_children() => Activity::Background,
            true => Activity::None,
        };
        if let Some(report) = watch.update(activity, now) {
            self.control.send(&report);
        }
    }

    /// Rejects new execs and cancels the running ones.
    fn shut_down(&mut self) -> Result<(), ServeError> {
        if self.shutdown_since.is_some() {
            return Ok(());
        }
        self.shutdown_since = Some(Instant::now());
        self.with_all(|exec, context| {
            exec.cancel(CancelCause::Shutdown, Interrupt::Send, context.now);
        })
    }

    /// After the loss of the proxy: disconnects all clients at once, without waiting for their
    /// tools.
    fn on_proxy_lost(&mut self) -> Result<(), ServeError> {
        if std::mem::replace(&mut self.proxy_lost, true) {
            return Ok(());
        }
        // epoll would report the end of file again and again.
        self.poller.remove(self.control.input());
        // Closes its connections.
        self.stack = None;
        self.with_all(Exec::on_proxy_lost)?;
        self.shut_down()
    }

    fn on_signals(&mut self) -> Result<(), ServeError> {
        while let Some(info) = self.signals.read_signal().map_err(io::Error::from)? {
            if info.ssi_signo == Number::SIGTERM as u32 && may_stop_runner(&info) {
                self.shut_down()?;
            }
        }
        // One SIGCHLD may stand for many children. Adopted orphans are only reaped.
        while let Some(event) = reap() {
            match event {
                ChildEvent::Stopped { pid, signal } => {
                    if let Some(key) = self.by_pid.get(&pid).copied() {
                        self.with_exec(key, |exec, context| exec.on_stopped(signal, context))?;
                    }
                }
                ChildEvent::Ended(reaped) => {
                    if let Some(key) = self.by_pid.remove(&reaped.pid) {
                        self.with_exec(key, |exec, context| exec.on_reaped(reaped, context))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn with_all(
        &mut self,
        act: impl Fn(&mut Exec, &mut ExecContext<'_>),
    ) -> Result<(), ServeError> {
        for key in self.execs.keys().copied().collect::<Vec<_>>() {
            self.with_exec(key, &act)?;
        }
        Ok(())
    }

    /// Runs a function on an exec, then updates what epoll waits for.
    fn with_exec(
        &mut self,
        key: ExecKey,
        act: impl FnOnce(&mut Exec, &mut ExecContext<'_>),
    ) -> Result<(), ServeError> {
        self.update_exec(key, |exec, context| {
            exec.confirm_start(context);
            act(exec, context);
        })
    }

    /// As [`Self::with_exec`], for an exec whose execve may still be under way.
    fn update_exec(
        &mut self,
        key: ExecKey,
        act: impl FnOnce(&mut Exec, &mut ExecContext<'_>),
    ) -> Result<(), ServeError> {
        // The exec may have been removed by an earlier event of the same batch.
        let Some(entry) = self.execs.get_mut(&key) else { return Ok(()) };
        let mut context = ExecContext {
            poller: &self.poller,
            control: &mut self.control,
            frame: &mut self.frame,
            notes: &mut self.notes,
            now: Instant::now(),
        };
        act(&mut entry.exec, &mut context);
        if entry.exec.is_finished() {
            self.execs.remove(&key);
            return Ok(());
        }
        for (exec_fd, registered) in ExecFd::ALL.into_iter().zip(&mut entry.registered) {
            let before = *registered;
            *registered = EpollFlags::empty();
            // epoll drops closed descriptors by itself.
            if let Some((fd, interest)) = entry.exec.fd(exec_fd) {
                self.poller.modify(fd, EventSource::Exec(key, exec_fd), before, interest)?;
                *registered = interest;
            }
        }
        Ok(())
    }
}

/// Returns whether the sender of a SIGTERM may stop the runner. Tools of PID 1 run as its user and
/// must not; the kernel reports pid 0 for senders outside of the PID namespace.
fn may_stop_runner(signal: &siginfo) -> bool {
    signal.ssi_pid == 0 || std::process::id() != 1
}
