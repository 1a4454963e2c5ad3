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

use crate::cgroup::LimitWatch;
use crate::control::{Control, ControlChannel, Handed};
use crate::data_frame::DataFrame;
use crate::directory::Roots;
use crate::exec::{Exec, World};
use crate::launch::Toolbox;
use crate::poller::{Poller, Port, Slot, Source};

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
    OutOfPlace,
    /// A directory of the session is not there.
    #[error("the session's directory is not usable: {0}")]
    Roots(String),
}

/// Serves execs until the control connection closes or SIGTERM arrives, then ends everything below
/// this process: running tools by the ladder, the rest at once.
pub fn serve(control: Control) -> Result<(), ServeError> {
    let served = Server::start(control).and_then(|mut server| server.run());
    end_descendants();
    served
}

struct Server {
    poller: Poller,
    signals: SignalFd,
    control: ControlChannel,
    /// What epoll waits for on the way out of the control connection.
    uplink: EpollFlags,
    /// The proxy is gone.
    lost: bool,
    limits: Vec<ResourceLimit>,
    sidecar_limits: LimitWatch,
    /// Open from the start: what says `Hello` opens nothing more for itself.
    null: File,
    /// Where the sidecar is ours alone.
    oom_score: Option<OomScore>,
    /// `None` until the proxy has said where the session's directories are.
    toolbox: Option<Toolbox>,
    execs: HashMap<Slot, Entry>,
    by_pid: HashMap<Pid, Slot>,
    next_slot: Slot,
    /// Who is to go on first when there is room on the way to the proxy again.
    turn: usize,
    frame: DataFrame,
    closing: Option<Instant>,
}

struct Entry {
    exec: Exec,
    /// What epoll waits for, by port.
    registered: [EpollFlags; Port::ALL.len()],
}

/// How long tools have, in all, when the session ends: the ladder's three seconds, and one for the
/// kernel to do it.
const CLOSING_TIME: Duration = Duration::from_secs(4);

impl Server {
    fn start(control: Control) -> Result<Self, ServeError> {
        give_back_freed_memory();
        reset_dispositions().map_err(io::Error::from)?;
        become_subreaper().map_err(io::Error::from)?;
        // PID 1 takes all others along, so it is to be the last that the kernel ends. A tool on a
        // machine that is no container is judged as it would be natively.
        let oom_score = if std::process::id() == 1 { OomScore::own().ok() } else { None };
        // Tools have our user id, and our descriptors are not theirs.
        forbid_tracing().map_err(io::Error::from)?;
        // What tools get is what we were given.
        let limits = current_limits();
        raise_open_files()?;
        let watched = SigSet::from_iter([Number::SIGCHLD, Number::SIGTERM]);
        watched.thread_block().map_err(io::Error::from)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&watched, flags).map_err(io::Error::from)?;
        let mut server = Server {
            poller: Poller::new()?,
            signals,
            control: ControlChannel::new(control)?,
            uplink: EpollFlags::empty(),
            lost: false,
            limits,
            sidecar_limits: LimitWatch::of_this_process(),
            null: File::options().read(true).write(true).open("/dev/null")?,
            oom_score,
            toolbox: None,
            execs: HashMap::new(),
            by_pid: HashMap::new(),
            next_slot: 0,
            turn: 0,
            frame: DataFrame::new(),
            closing: None,
        };
        server.poller.watch(server.control.input(), Source::Control)?;
        server.poller.watch(server.signals.as_fd(), Source::Signals)?;
        server.control.send(&Frame::Hello { version: FRAMES_VERSION });
        Ok(server)
    }

    fn run(&mut self) -> Result<(), ServeError> {
        let mut ready = Vec::new();
        while !self.is_done() {
            self.poller.wait(self.deadline(), &mut ready)?;
            for event in ready.drain(..) {
                match event.source {
                    Source::Control => self.on_control()?,
                    Source::Uplink => self.control.flush(),
                    Source::Signals => self.on_signals()?,
                    Source::Exec(slot, port) => {
                        self.with_exec(slot, |exec, world| exec.on_ready(event, port, world))?;
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
            self.lose_control()?;
        }
        if self.control.has_room_again() {
            let mut slots: Vec<_> = self.execs.keys().copied().collect();
            slots.sort_unstable();
            // In turn: the first may take all the room there is.
            let count = slots.len().max(1);
            slots.rotate_left(self.turn % count);
            self.turn = self.turn.wrapping_add(1);
            for slot in slots {
                self.with_exec(slot, Exec::on_room)?;
            }
        }
        let blocked = self.control.is_blocked();
        let wanted = if blocked { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
        let uplink = self.control.uplink();
        self.poller.update(uplink.borrow().as_fd(), Source::Uplink, self.uplink, wanted)?;
        self.uplink = wanted;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.closing.is_some_and(|started| {
            let settled = |entry: &Entry| entry.exec.is_settled();
            let told = self.lost || !self.control.is_blocked();
            started.elapsed() >= CLOSING_TIME || told && self.execs.values().all(settled)
        })
    }

    /// When something is due, even if nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let ladders = self.execs.values().filter_map(|entry| entry.exec.poll_timeout());
        ladders.chain(self.closing.map(|started| started + CLOSING_TIME)).min()
    }

    fn handle_timeouts(&mut self) -> Result<(), ServeError> {
        let now = Instant::now();
        let is_due = |entry: &Entry| entry.exec.poll_timeout().is_some_and(|at| at <= now);
        let due = self.execs.iter().filter(|(_, entry)| is_due(entry)).map(|(slot, _)| *slot);
        for slot in due.collect::<Vec<_>>() {
            self.with_exec(slot, Exec::handle_timeout)?;
        }
        Ok(())
    }

    /// Lets no exec begin any more and climbs the ladder for those that run.
    fn close(&mut self) -> Result<(), ServeError> {
        if self.closing.is_some() {
            return Ok(());
        }
        self.closing = Some(Instant::now());
        self.with_all(|exec, world| {
            exec.cancel(CancelCause::Shutdown, Interrupt::Send, world.now);
        })
    }

    /// The proxy has gone. Nobody vouches for its clients any more, and none is to wait for a tool
    /// that takes its time to end.
    fn lose_control(&mut self) -> Result<(), ServeError> {
        if std::mem::replace(&mut self.lost, true) {
            return Ok(());
        }
        // Without a reader its end of file would wake us for ever.
        self.poller.forget(self.control.input());
        self.with_all(Exec::abandon)?;
        self.close()
    }

    fn on_control(&mut self) -> Result<(), ServeError> {
        if !self.control.fill()? {
            return self.lose_control();
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
                Some(_) => return Err(ServeError::OutOfPlace),
            };
            match command {
                Command::Setup(setup) => {
                    let roots = Roots::new(&setup).map_err(ServeError::Roots)?;
                    self.toolbox = Some(Toolbox::new(setup.kind, roots, self.limits.clone()));
                }
                Command::Start(start) => self.start_tool(&start)?,
                Command::Cancel(serial, cause, interrupt) => {
                    if let Some(slot) = self.find(|exec| exec.serial() == serial) {
                        self.with_exec(slot, |exec, world| {
                            exec.cancel(cause, interrupt, world.now);
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
                    let slot = all.find(|(_, entry)| entry.exec.serial() == serial);
                    if let Some(slot) = slot.map(|(slot, _)| *slot) {
                        self.with_exec(slot, |exec, world| exec.on_tunnel(&bytes, world))?;
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
            return self.close();
        }
        self.control.send(&Frame::Busy);
        Ok(())
    }

    fn find(&self, is_it: impl Fn(&Exec) -> bool) -> Option<Slot> {
        let mut running = self.execs.iter().filter(|(_, entry)| entry.exec.is_running());
        running.find(|(_, entry)| is_it(&entry.exec)).map(|(slot, _)| *slot)
    }

    fn signal(&mut self, id: &ExecId, signal: Signal) -> Result<Delivery, ServeError> {
        let Some(slot) = self.find(|exec| exec.id == *id) else {
            return Ok(Delivery::NoSuchExec);
        };
        let mut delivered = false;
        self.with_exec(slot, |exec, _| delivered = exec.signal(signal))?;
        Ok(if delivered { Delivery::Delivered } else { Delivery::NoSuchExec })
    }

    fn on_signals(&mut self) -> Result<(), ServeError> {
        while let Some(info) = self.signals.read_signal().map_err(io::Error::from)? {
            if info.ssi_signo == Number::SIGTERM as u32 && may_end_us(&info) {
                self.close()?;
            }
        }
        // One SIGCHLD may stand for many children. Whoever is not in the table was left to us by a
        // tool, and is only collected.
        while let Some(event) = reap() {
            match event {
                ChildEvent::Stopped { pid, signal } => {
                    if let Some(slot) = self.by_pid.get(&pid).copied() {
                        self.with_exec(slot, |exec, world| exec.on_stopped(signal, world))?;
                    }
                }
                ChildEvent::Ended(reaped) => {
                    if let Some(slot) = self.by_pid.remove(&reaped.pid) {
                        self.with_exec(slot, |exec, world| exec.on_reaped(reaped, world))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn start_tool(&mut self, start: &Start) -> Result<(), ServeError> {
        let Some(Handed { client, passed }) = self.control.take_handed(start) else {
            return Err(ServeError::OutOfPlace);
        };
        let greeting = start.client.as_ref().map(|handover| handover.response_head.clone());
        let started = Instant::now();
        let raised = self.oom_score.as_ref().map(|own| own.raise(TOOLS_FIRST));
        let launched = match &self.toolbox {
            Some(toolbox) if self.closing.is_none() => {
                toolbox.launch(start, passed, self.null.as_fd())
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
        let slot = self.next_slot;
        self.next_slot += 1;
        self.by_pid.insert(launched.pid, slot);
        let exec = Exec::new(start, launched, client.zip(greeting), started);
        let registered = [EpollFlags::empty(); Port::ALL.len()];
        self.execs.insert(slot, Entry { exec, registered });
        self.with_exec(slot, Exec::begin)
    }

    fn with_all(&mut self, happen: impl Fn(&mut Exec, &mut World<'_>)) -> Result<(), ServeError> {
        for slot in self.execs.keys().copied().collect::<Vec<_>>() {
            self.with_exec(slot, &happen)?;
        }
        Ok(())
    }

    /// Lets something happen to an exec, then settles what follows from it.
    fn with_exec(
        &mut self,
        slot: Slot,
        happen: impl FnOnce(&mut Exec, &mut World<'_>),
    ) -> Result<(), ServeError> {
        // It may have been over by an event just before this one.
        let Some(entry) = self.execs.get_mut(&slot) else { return Ok(()) };
        let mut world = World {
            poller: &self.poller,
            control: &mut self.control,
            frame: &mut self.frame,
            limits: &self.sidecar_limits,
            now: Instant::now(),
        };
        happen(&mut entry.exec, &mut world);
        if entry.exec.is_over() {
            self.execs.remove(&slot);
            return Ok(());
        }
        for (port, registered) in Port::ALL.into_iter().zip(&mut entry.registered) {
            let before = *registered;
            *registered = EpollFlags::empty();
            // An fd that was closed has left epoll by itself.
            if let Some((fd, wanted)) = entry.exec.port(port) {
                self.poller.update(fd, Source::Exec(slot, port), before, wanted)?;
                *registered = wanted;
            }
        }
        Ok(())
    }
}

/// Whether the sender of a SIGTERM may end the runner. As PID 1 it is among tools of its own user, who
/// may not: by 0 the kernel says that a sender is outside of our namespace.
fn may_end_us(signal: &siginfo) -> bool {
    signal.ssi_pid == 0 || std::process::id() != 1
}

/// How far before PID 1 the kernel ends tools when memory runs out: half a sidecar's memory.
const TOOLS_FIRST: i16 = 500;

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
