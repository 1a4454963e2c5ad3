//! The event loop: one control connection, many execs.

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
use aifo_types::{ExecId, Signal};
use aifo_wire::{
    CancelCause, Delivery, FRAMES_VERSION, Frame, FrameError, Interrupt, Setup, Start, StartError,
    StartErrorCause,
};
use nix::sys::epoll::EpollFlags;
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::Pid;

use crate::control::{ControlConnection, ControlTransport, StartAttachments};
use crate::data_frame::DataFrame;
use crate::exec::{Exec, ExecContext};
use crate::poller::{EventSource, ExecFd, ExecKey, Poller};
use crate::sidecar_limits::SidecarLimits;
use crate::tool_launcher::ToolLauncher;
use crate::working_directory::Roots;

/// Why a runner could not start, or gave up.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A system call that the runner cannot do without failed.
    #[error("the runner cannot go on: {0}")]
    System(#[from] io::Error),
    /// The control connection carried something else than its frames.
    #[error("the control connection broke the protocol: {0}")]
    Protocol(#[from] FrameError),
    /// A frame that has no place on the control connection, or a `Start` without its descriptors.
    #[error("the control connection carried a frame out of place")]
    UnexpectedFrame,
    /// A directory of the session is not there.
    #[error("the session's directory is not usable: {0}")]
    Roots(String),
}

/// Serves execs until the control connection closes or SIGTERM arrives, then ends everything below
/// this process: running tools by the ladder, the rest at once.
pub fn serve(control: ControlTransport) -> Result<(), ServeError> {
    let served = Server::start(control).and_then(|mut server| server.run());
    end_descendants();
    served
}

struct Server {
    poller: Poller,
    signals: SignalFd,
    control: ControlConnection,
    /// What epoll waits for on the way out of the control connection.
    writer: EpollFlags,
    /// The proxy is gone.
    proxy_lost: bool,
    limits: Vec<ResourceLimit>,
    sidecar_limits: SidecarLimits,
    /// Open from the start: what says `Hello` opens nothing more for itself.
    null: File,
    /// Where the sidecar is ours alone.
    oom_score: Option<OomScore>,
    /// `None` until the proxy has said where the session's directories are.
    launcher: Option<ToolLauncher>,
    execs: HashMap<ExecKey, ExecEntry>,
    by_pid: HashMap<Pid, ExecKey>,
    next_key: ExecKey,
    /// Who is to go on first when there is room on the way to the proxy again.
    next_turn: usize,
    frame: DataFrame,
    shutdown_since: Option<Instant>,
}

struct ExecEntry {
    exec: Exec,
    /// What epoll waits for, by fd.
    registered: [EpollFlags; ExecFd::ALL.len()],
}

/// How long tools have, in all, when the session ends: the ladder's three seconds, and one for the
/// kernel to do it.
const SHUTDOWN_TIME: Duration = Duration::from_secs(4);

impl Server {
    fn start(control: ControlTransport) -> Result<Self, ServeError> {
        give_back_freed_memory();
        reset_dispositions().map_err(io::Error::from)?;
        become_subreaper().map_err(io::Error::from)?;
        // PID 1 takes all others along, so it is to be the last that the kernel ends. A tool on a
        // machine that is no container is judged as it would be natively.
        let oom_score = if std::process::id() == 1 { OomScore::current().ok() } else { None };
        // Tools have our user id, and our descriptors are not theirs.
        forbid_tracing().map_err(io::Error::from)?;
        // What tools get is what we were given.
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
            writer: EpollFlags::empty(),
            proxy_lost: false,
            limits,
            sidecar_limits: SidecarLimits::of_this_process(),
            null: File::options().read(true).write(true).open("/dev/null")?,
            oom_score,
            launcher: None,
            execs: HashMap::new(),
            by_pid: HashMap::new(),
            next_key: 0,
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
                    EventSource::Exec(key, fd) => {
                        self.with_exec(key, |exec, context| exec.on_ready(event, fd, context))?;
                    }
                }
            }
            self.handle_timeouts()?;
            self.watch_uplink()?;
        }
        Ok(())
    }

    /// Waits for room on the way to the proxy, if something does, and lets everybody go on who had to
    /// wait for it.
    fn watch_uplink(&mut self) -> Result<(), ServeError> {
        if self.control.is_broken() {
            self.on_proxy_lost()?;
        }
        if self.control.has_room_again() {
            let mut keys: Vec<_> = self.execs.keys().copied().collect();
            keys.sort_unstable();
            // In turn: the first may take all the room there is.
            let count = keys.len().max(1);
            keys.rotate_left(self.next_turn % count);
            self.next_turn = self.next_turn.wrapping_add(1);
            for key in keys {
                self.with_exec(key, Exec::on_room)?;
            }
        }
        let blocked = self.control.is_blocked();
        let interest = if blocked { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
        let writer = self.control.writer();
        self.poller.modify(
            writer.borrow().as_fd(),
            EventSource::ControlOutput,
            self.writer,
            interest,
        )?;
        self.writer = interest;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.shutdown_since.is_some_and(|started| {
            let settled = |entry: &ExecEntry| entry.exec.is_reported();
            let is_reported = self.proxy_lost || !self.control.is_blocked();
            started.elapsed() >= SHUTDOWN_TIME || is_reported && self.execs.values().all(settled)
        })
    }

    /// When something is due, even if nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let escalations = self.execs.values().filter_map(|entry| entry.exec.poll_timeout());
        escalations.chain(self.shutdown_since.map(|started| started + SHUTDOWN_TIME)).min()
    }

    fn handle_timeouts(&mut self) -> Result<(), ServeError> {
        let now = Instant::now();
        let is_due = |entry: &ExecEntry| entry.exec.poll_timeout().is_some_and(|at| at <= now);
        let due = self.execs.iter().filter(|(_, entry)| is_due(entry)).map(|(key, _)| *key);
        for key in due.collect::<Vec<_>>() {
            self.with_exec(key, Exec::handle_timeout)?;
        }
        Ok(())
    }

    /// Lets no exec begin any more and climbs the ladder for those that run.
    fn shut_down(&mut self) -> Result<(), ServeError> {
        if self.shutdown_since.is_some() {
            return Ok(());
        }
        self.shutdown_since = Some(Instant::now());
        self.with_all(|exec, context| {
            exec.cancel(CancelCause::Shutdown, Interrupt::Send, context.now);
        })
    }

    /// The proxy has gone. Nobody vouches for its clients any more, and none is to wait for a tool
    /// that takes its time to end.
    fn on_proxy_lost(&mut self) -> Result<(), ServeError> {
        if std::mem::replace(&mut self.proxy_lost, true) {
            return Ok(());
        }
        // Without a reader its end of file would wake us for ever.
        self.poller.remove(self.control.input());
        self.with_all(Exec::on_proxy_lost)?;
        self.shut_down()
    }

    fn on_control(&mut self) -> Result<(), ServeError> {
        if !self.control.fill()? {
            return self.on_proxy_lost();
        }
        loop {
            // Copied out of the reader, so that the handlers may use the rest of us.
            let command = match self.control.next_frame()? {
                None => return Ok(()),
                Some(Frame::Setup(setup)) => Command::Setup(setup),
                Some(Frame::Start(start)) => Command::Start(start),
                Some(Frame::Cancel { serial, cause, interrupt }) => {
                    Command::Cancel(serial, cause, interrupt)
                }
                Some(Frame::Kill { serial, signal, id }) => Command::Kill(serial, signal, id),
                Some(Frame::Tunnel { serial, data }) => Command::Tunnel(serial, data.to_vec()),
                Some(Frame::TunnelEnd { serial }) => Command::Tunnel(serial, Vec::new()),
                Some(Frame::Retire) => Command::Retire,
                Some(_) => return Err(ServeError::UnexpectedFrame),
            };
            match command {
                Command::Setup(setup) => {
                    let roots = Roots::new(&setup).map_err(ServeError::Roots)?;
                    self.launcher = Some(ToolLauncher::new(setup.kind, roots, self.limits.clone()));
                }
                Command::Start(start) => self.start_tool(&start)?,
                Command::Cancel(serial, cause, interrupt) => {
                    if let Some(key) = self.find(|exec| exec.serial() == serial) {
                        self.with_exec(key, |exec, context| {
                            exec.cancel(cause, interrupt, context.now);
                        })?;
                    }
                }
                Command::Kill(serial, signal, id) => {
                    let found = self.signal(&id, signal)?;
                    self.control.send(&Frame::Killed { serial, found });
                }
                Command::Tunnel(serial, bytes) => {
                    // It may have ended, and still have something to tell.
                    let mut all = self.execs.iter();
                    let key = all.find(|(_, entry)| entry.exec.serial() == serial);
                    if let Some(key) = key.map(|(key, _)| *key) {
                        self.with_exec(key, |exec, context| exec.on_tunnel(&bytes, context))?;
                    }
                }
                Command::Retire => self.retire()?,
            }
        }
    }

    /// Goes if nothing runs below us, not even what a tool has left in the background.
    fn retire(&mut self) -> Result<(), ServeError> {
        // What has ended meanwhile does not count.
        self.on_signals()?;
        if self.execs.is_empty() && !has_children() {
            return self.shut_down();
        }
        self.control.send(&Frame::Busy);
        Ok(())
    }

    fn find(&self, is_it: impl Fn(&Exec) -> bool) -> Option<ExecKey> {
        let mut running = self.execs.iter().filter(|(_, entry)| entry.exec.is_running());
        running.find(|(_, entry)| is_it(&entry.exec)).map(|(key, _)| *key)
    }

    fn signal(&mut self, id: &ExecId, signal: Signal) -> Result<Delivery, ServeError> {
        let Some(key) = self.find(|exec| exec.id == *id) else {
            return Ok(Delivery::NoSuchExec);
        };
        let mut delivered = false;
        self.with_exec(key, |exec, _| delivered = exec.signal(signal))?;
        Ok(if delivered { Delivery::Delivered } else { Delivery::NoSuchExec })
    }

    fn on_signals(&mut self) -> Result<(), ServeError> {
        while let Some(info) = self.signals.read_signal().map_err(io::Error::from)? {
            if info.ssi_signo == Number::SIGTERM as u32 && may_stop_runner(&info) {
                self.shut_down()?;
            }
        }
        // One SIGCHLD may stand for many children. Whoever is not in the table was left to us by a
        // tool, and is only collected.
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

    fn start_tool(&mut self, start: &Start) -> Result<(), ServeError> {
        let Some(StartAttachments { client, passed }) = self.control.take_attachments(start) else {
            return Err(ServeError::UnexpectedFrame);
        };
        let greeting = start.client.as_ref().map(|handover| handover.greeting.clone());
        let started = Instant::now();
        let raised = self.oom_score.as_ref().map(|own| own.raise(TOOL_OOM_SCORE_OFFSET));
        let launched = match &self.launcher {
            Some(launcher) if self.shutdown_since.is_none() => {
                launcher.launch(start, passed, self.null.as_fd())
            }
            _ => Err(StartError {
                cause: StartErrorCause::Failed,
                message: "the sidecar is not ready".to_owned(),
            }),
        };
        drop(raised);
        let launched = match launched {
            Ok(launched) => launched,
            Err(error) => {
                self.control.send(&Frame::StartError { serial: start.serial, error });
                return Ok(());
            }
        };
        let key = self.next_key;
        self.next_key += 1;
        self.by_pid.insert(launched.pid, key);
        let exec = Exec::new(start, launched, client.zip(greeting), started);
        let registered = [EpollFlags::empty(); ExecFd::ALL.len()];
        self.execs.insert(key, ExecEntry { exec, registered });
        self.with_exec(key, Exec::begin)
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

    /// Lets something happen to an exec, then settles what follows from it.
    fn with_exec(
        &mut self,
        key: ExecKey,
        act: impl FnOnce(&mut Exec, &mut ExecContext<'_>),
    ) -> Result<(), ServeError> {
        // It may have been over by an event just before this one.
        let Some(entry) = self.execs.get_mut(&key) else { return Ok(()) };
        let mut context = ExecContext {
            poller: &self.poller,
            control: &mut self.control,
            frame: &mut self.frame,
            limits: &self.sidecar_limits,
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
            // An fd that was closed has left epoll by itself.
            if let Some((fd, interest)) = entry.exec.fd(exec_fd) {
                self.poller.modify(fd, EventSource::Exec(key, exec_fd), before, interest)?;
                *registered = interest;
            }
        }
        Ok(())
    }
}

/// Whether the sender of a SIGTERM may end the runner. As PID 1 it is among tools of its own user, who
/// may not: by 0 the kernel says that a sender is outside of our namespace.
fn may_stop_runner(signal: &siginfo) -> bool {
    signal.ssi_pid == 0 || std::process::id() != 1
}

/// How far before PID 1 the kernel ends tools when memory runs out: half a sidecar's memory.
const TOOL_OOM_SCORE_OFFSET: i16 = 500;

/// A frame of the control connection.
enum Command {
    Setup(Setup),
    Start(Box<Start>),
    Cancel(u32, CancelCause, Interrupt),
    Kill(u32, Signal, ExecId),
    /// Bytes of a client's; none at its end.
    Tunnel(u32, Vec<u8>),
    Retire,
}
