//! One tool, from its start to its last byte.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use aifo_process::{
    Escalation, EscalationPlan, ExecTag, Reaped, descendants_of, kill_tagged, signal_group_number,
    signal_process, signal_tagged, tagged_processes,
};
use aifo_types::{Ending, ExecId, Signal};
use aifo_wire::{
    CancelCause, Exit, Frame, Interrupt, SidecarLimit, Start, StartError, Stdio, Tell, Usage,
};
use nix::sys::epoll::EpollFlags;
use nix::unistd::Pid;

use crate::client_connection::ClientConnection;
use crate::client_session::ClientSession;
use crate::control::ControlConnection;
use crate::data_frame::DataFrame;
use crate::frame_socket::FrameSocket;
use crate::poller::{ExecFd, Poller, ReadyEvent};
use crate::sidecar_limits::{LimitCounts, SidecarLimits};
use crate::tool_launcher::LaunchedTool;

/// A running tool, or what it left: output still to be delivered, processes still to be ended.
#[derive(Debug)]
pub(crate) struct Exec {
    serial: u32,
    pub(crate) id: ExecId,
    exec_tag: ExecTag,
    pid: Pid,
    child: ChildKind,
    /// The tool's process id, to be told.
    tool_pid: u32,
    stdio: [Stdio; 3],
    /// The monitor's connection, where the tool has a terminal.
    monitor: Option<FrameSocket>,
    started: Instant,
    /// How often the sidecar's limits had struck when it began.
    limit_counts: LimitCounts,
    /// What the proxy wants to hear.
    tell: Tell,
    /// When the client is told that the tool runs, if it was not yet.
    started_due: Option<Instant>,
    session: ClientSession,
    /// The end of the tool itself, once it has been reaped.
    ended: Option<(Reaped, Instant)>,
    /// The limit of the sidecar that struck while it ran, if it failed.
    limit: Option<SidecarLimit>,
    /// The ending is known to whoever asked.
    is_exit_sent: bool,
    /// CONTs of the client that were delivered.
    resumed: u32,
    /// A signal that is meant to end the tool was delivered by the proxy's wish.
    interrupted: bool,
    cancelled: Option<CancelCause>,
    escalation: Option<Escalation>,
}

/// Which process is the runner's own child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildKind {
    Tool,
    /// The tool is its child.
    Monitor,
}

/// What an exec acts on beside itself.
pub(crate) struct ExecContext<'a> {
    pub(crate) poller: &'a Poller,
    pub(crate) control: &'a mut ControlConnection,
    pub(crate) frame: &'a mut DataFrame,
    pub(crate) limits: &'a SidecarLimits,
    pub(crate) now: Instant,
}

/// How long a client that has nothing to do waits to hear that its tool runs.
const STARTED_DELAY: Duration = Duration::from_millis(20);

impl Exec {
    /// A tool that was started a moment ago.
    pub(crate) fn new(
        start: &Start,
        launched: LaunchedTool,
        client: Option<(ClientConnection, Vec<u8>)>,
        started: Instant,
    ) -> Self {
        Exec {
            serial: start.serial,
            id: start.id.clone(),
            exec_tag: ExecTag::new(&start.id),
            pid: launched.pid,
            child: if launched.monitor.is_some() { ChildKind::Monitor } else { ChildKind::Tool },
            tool_pid: u32::try_from(launched.pid.as_raw()).unwrap_or_default(),
            stdio: launched.stdio,
            monitor: launched.monitor,
            started,
            limit_counts: LimitCounts::default(),
            tell: start.tell,
            started_due: None,
            session: ClientSession::new(client, launched.pipes),
            ended: None,
            limit: None,
            is_exit_sent: false,
            resumed: 0,
            interrupted: false,
            cancelled: None,
            escalation: None,
        }
    }

    /// Tells that the tool runs, unless its monitor still has to say so.
    pub(crate) fn begin(&mut self, context: &mut ExecContext<'_>) {
        if self.monitor.is_none() {
            self.on_started(context);
        }
        self.advance(context);
        // The tool is being loaded, and nobody waits for us.
        self.limit_counts = context.limits.counts();
    }

    fn on_started(&mut self, context: &mut ExecContext<'_>) {
        self.session.start();
        if self.tell == Tell::Start {
            context.control.send(&self.started_frame());
        }
        if self.session.has_streams() {
            self.send_started();
        } else {
            // A client that has nothing to do meanwhile need not be woken, to sleep again, while a
            // tool of a moment runs.
            self.started_due = Some(context.now + STARTED_DELAY);
        }
        // What it sent ahead is here already, and no event will tell of it.
        self.on_client();
    }

    /// Tells the client that the tool runs, if it was not told yet.
    fn send_started(&mut self) {
        self.started_due = None;
        self.session.send_started(&self.started_frame(), None);
    }

    fn send_to_client(&mut self, frame: &Frame<'_>) {
        self.started_due = None;
        self.session.send_started(&self.started_frame(), Some(frame));
    }

    fn started_frame(&self) -> Frame<'static> {
        Frame::Started { serial: self.serial, pid: self.tool_pid, stdio: self.stdio }
    }

    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    pub(crate) fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// Nothing is left to do for it.
    pub(crate) fn is_finished(&self) -> bool {
        let silent = !self.session.has_client() && !self.session.has_streams();
        self.has_ended() && self.is_exit_sent && silent
    }

    /// The tool has ended and whatever was to end with it has too.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some() && self.escalation.is_none()
    }

    /// It is at rest, and whoever waits for it has been told how it ended.
    pub(crate) fn is_reported(&self) -> bool {
        self.has_ended() && self.is_exit_sent && self.session.is_flushed()
    }

    /// An fd of this exec, and what it waits for there.
    pub(crate) fn fd(&self, fd: ExecFd) -> Option<(BorrowedFd<'_>, EpollFlags)> {
        match fd {
            ExecFd::Monitor => {
                let monitor = self.monitor.as_ref()?;
                let room =
                    if monitor.is_blocked() { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
                Some((monitor.as_fd(), EpollFlags::EPOLLIN | room))
            }
            fd => self.session.fd(fd),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let escalation = self.escalation.as_ref().map(Escalation::poll_timeout);
        escalation.into_iter().chain(self.started_due).min()
    }

    /// Something is ready at one of the ports.
    pub(crate) fn on_ready(
        &mut self,
        event: ReadyEvent,
        fd: ExecFd,
        context: &mut ExecContext<'_>,
    ) {
        match fd {
            ExecFd::Monitor => {
                if event.writable
                    && let Some(monitor) = &mut self.monitor
                {
                    // One that is gone is noticed by its end.
                    let _ = monitor.flush();
                }
                self.on_monitor(context);
            }
            ExecFd::Client => {
                if event.writable {
                    self.session.flush();
                }
                if event.readable {
                    self.on_client();
                }
            }
            ExecFd::Stream(stream) => {
                if event.writable {
                    self.session.forward_input();
                }
                if event.readable {
                    self.session.forward_output(stream, context.frame);
                }
            }
        }
        self.advance(context);
    }

    /// The client sent something by way of the proxy, or has left if that is nothing.
    pub(crate) fn on_tunnel(&mut self, bytes: &[u8], context: &mut ExecContext<'_>) {
        match bytes {
            [] => self.session.receive_end(),
            bytes => self.session.receive(bytes),
        }
        self.on_client();
        self.advance(context);
    }

    /// There is room on the way to the proxy again.
    pub(crate) fn on_room(&mut self, context: &mut ExecContext<'_>) {
        self.advance(context);
    }

    fn on_client(&mut self) {
        let signals = self.session.receive_frames();
        if !signals.is_empty() && self.started_due.is_some() {
            // It is awake now, and it makes a difference to it whether somebody listens.
            self.send_started();
        }
        for number in signals {
            self.signal_by_client(number);
        }
    }

    fn on_monitor(&mut self, context: &mut ExecContext<'_>) {
        let Some(monitor) = &mut self.monitor else { return };
        let open = monitor.fill().unwrap_or(false);
        loop {
            let Some(monitor) = &mut self.monitor else { return };
            match monitor.next_frame() {
                Ok(Some(Frame::Started { pid, .. })) => {
                    self.tool_pid = pid;
                    self.on_started(context);
                }
                Ok(Some(Frame::StartError { error, .. })) => {
                    return self.on_start_error(error, context);
                }
                Ok(Some(Frame::Stopped { signal, resumed })) => {
                    self.send_to_client(&Frame::Stopped { signal, resumed });
                }
                Ok(Some(Frame::Exit { exit, .. })) => {
                    let Usage { user, system, max_rss_kib, .. } = exit.usage;
                    let (pid, ending) = (self.pid, exit.ending);
                    self.end(Reaped { pid, ending, user, system, max_rss_kib }, context);
                }
                Ok(None) if open => return,
                // It was killed; that it has ended is told by its own end.
                Ok(_) | Err(_) => {
                    self.monitor = None;
                    return;
                }
            }
        }
    }

    /// The monitor could not start the tool: nothing ran.
    fn on_start_error(&mut self, error: StartError, context: &mut ExecContext<'_>) {
        context.control.send(&Frame::StartError { serial: self.serial, error });
        self.is_exit_sent = true;
        self.monitor = None;
        self.session.close(context.poller);
    }

    /// A child was reaped that is this exec's: the tool itself, or its monitor.
    pub(crate) fn on_reaped(&mut self, reaped: Reaped, context: &mut ExecContext<'_>) {
        if self.monitor.is_some() {
            // What it had still to say comes first.
            self.on_monitor(context);
            self.monitor = None;
        }
        if self.is_running() {
            if self.child == ChildKind::Monitor {
                // It was killed, and its tool is nobody's any more.
                self.escalate(EscalationPlan::Immediate, context.now);
            }
            self.end(reaped, context);
        }
        self.advance(context);
    }

    /// The tool was stopped; only a client of version 3 can do something about it.
    pub(crate) fn on_stopped(&mut self, signal: u8, context: &mut ExecContext<'_>) {
        let resumed = self.resumed;
        self.send_to_client(&Frame::Stopped { signal, resumed });
        self.advance(context);
    }

    fn end(&mut self, reaped: Reaped, context: &mut ExecContext<'_>) {
        self.ended = Some((reaped, context.now));
        if reaped.ending != Ending::Exited(0) {
            // Who of several needed too much the kernel does not say; each that failed may have.
            self.limit = context.limits.hit_since(self.limit_counts);
        }
        self.session.tool_ended();
        // A normal end kills nothing. One that a signal of the proxy's explains, or that was forced,
        // takes the rest along.
        let explained = self.interrupted && reaped.ending != Ending::Exited(0);
        if self.escalation.is_some() || explained {
            if tagged_processes(&self.exec_tag).is_empty() {
                self.escalation = None;
            } else if self.escalation.is_none() {
                self.escalation = Some(Escalation::new(EscalationPlan::Leftovers, context.now));
            }
        }
    }

    /// Delivers a signal by the proxy's wish. `false` if the tool has ended.
    pub(crate) fn signal(&mut self, signal: Signal) -> bool {
        if !self.is_running() {
            return false;
        }
        self.interrupted |= signal.is_terminating();
        if signal == Signal::Kill {
            self.kill();
            return true;
        }
        self.deliver(signal.number())
    }

    fn signal_by_client(&mut self, number: u8) {
        if !self.is_running() {
            return;
        }
        if number == Signal::Cont.number() {
            self.resumed = self.resumed.wrapping_add(1);
        }
        if number == Signal::Kill.number() {
            self.kill();
        } else {
            self.deliver(number);
        }
    }

    fn deliver(&mut self, number: u8) -> bool {
        match &mut self.monitor {
            // It alone knows for sure that the number is still the tool's.
            Some(monitor) => monitor.send(&Frame::Signal { number }).is_ok(),
            None => signal_group_number(self.pid, number),
        }
    }

    /// The proxy wants the tool ended.
    pub(crate) fn cancel(&mut self, cause: CancelCause, interrupt: Interrupt, now: Instant) {
        if self.is_running() {
            self.cancelled.get_or_insert(cause);
            self.escalate(plan_for(cause, interrupt), now);
        }
    }

    /// Starts to end the tool, unless it has ended or is being ended sooner anyway.
    fn escalate(&mut self, plan: EscalationPlan, now: Instant) {
        let new = Escalation::new(plan, now);
        if self.escalation.as_ref().is_none_or(|current| new.kill_at() < current.kill_at()) {
            self.escalation = Some(new);
        }
    }

    /// The proxy is gone: nobody may be told how this ends.
    pub(crate) fn on_proxy_lost(&mut self, context: &mut ExecContext<'_>) {
        self.session.drop_client(context.poller);
        self.cancel(CancelCause::Shutdown, Interrupt::Send, context.now);
        self.advance(context);
    }

    /// Does what is due: tells that the tool runs, takes a step of the ladder.
    pub(crate) fn handle_timeout(&mut self, context: &mut ExecContext<'_>) {
        if self.started_due.is_some_and(|at| at <= context.now) {
            self.send_started();
            self.advance(context);
        }
        let due =
            self.escalation.as_mut().and_then(|escalation| escalation.handle_timeout(context.now));
        let Some(signal) = due else { return };
        let all_gone = match signal {
            Signal::Kill => self.kill(),
            signal if self.is_running() => {
                self.deliver(signal.number());
                false
            }
            signal => signal_tagged(&self.exec_tag, signal) == 0,
        };
        if all_gone && !self.is_running() {
            self.escalation = None;
        }
    }

    /// Kills the group, the tree and everything that carries the tag. `true` if all of it is gone
    /// but for the tool itself, which remains to be reaped.
    fn kill(&mut self) -> bool {
        if self.is_running() {
            // The tree first: it cannot be seen any more when its root is dead.
            let tree = descendants_of(self.pid);
            if self.monitor.is_none() {
                signal_group_number(self.pid, Signal::Kill.number());
            }
            for pid in tree {
                signal_process(pid, Signal::Kill);
            }
        }
        kill_tagged(&self.exec_tag)
    }

    /// What follows from whatever has happened: a client that left has its tool ended; one whose tool
    /// has ended gets what is remaining, then the ending.
    fn advance(&mut self, context: &mut ExecContext<'_>) {
        if let Some((reaped, at)) = self.ended
            && !self.is_exit_sent
            && self.session.drain_output(context.frame)
        {
            self.is_exit_sent = true;
            let usage = Usage {
                wall: at.saturating_duration_since(self.started),
                user: reaped.user,
                system: reaped.system,
                max_rss_kib: reaped.max_rss_kib,
            };
            let taken = self.session.bytes_read();
            let Exec { cancelled, limit, .. } = *self;
            let exit = Exit { ending: reaped.ending, cancelled, limit, taken, usage };
            let frame = Frame::Exit { serial: self.serial, exit };
            // The client first: it is waited for.
            self.send_to_client(&frame);
            context.control.send(&frame);
        }
        if self.session.take_client_lost() {
            self.on_client_lost(context);
        }
        if self.is_exit_sent && self.session.is_flushed() {
            self.session.finish(context.poller);
            // The monitor goes with its connection.
            self.monitor = None;
        }
    }

    fn on_client_lost(&mut self, context: &mut ExecContext<'_>) {
        self.session.drop_client(context.poller);
        if !self.is_running() {
            return;
        }
        context.control.send(&Frame::Left { serial: self.serial });
        // It hands on every signal that it can hear. So it was killed, and so is the tool.
        self.cancelled.get_or_insert(CancelCause::Disconnect);
        self.escalate(EscalationPlan::Immediate, context.now);
    }
}

fn plan_for(cause: CancelCause, interrupt: Interrupt) -> EscalationPlan {
    match (cause, interrupt) {
        (CancelCause::Timeout, _) => EscalationPlan::Timeout,
        (CancelCause::Disconnect | CancelCause::Shutdown, Interrupt::Send) => {
            EscalationPlan::Cancel
        }
        (CancelCause::Disconnect | CancelCause::Shutdown, Interrupt::Skip) => {
            EscalationPlan::CancelAfterSignal
        }
    }
}
