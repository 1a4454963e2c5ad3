//! One tool, from its start to its last byte.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use aifo_process::{
    Escalation, Ladder, Mark, Reaped, descendants_of, processes_marked, signal_group_number,
    signal_marked, signal_process, sweep,
};
use aifo_types::{Ending, ExecId, Signal};
use aifo_wire::{
    CancelCause, Exit, Frame, Interrupt, Reports, SidecarLimit, Start, StartError, Stdio, Usage,
};
use nix::sys::epoll::EpollFlags;
use nix::unistd::Pid;

use crate::cgroup::{LimitWatch, Strikes};
use crate::channel::Channel;
use crate::client::Client;
use crate::control::ControlChannel;
use crate::conversation::Conversation;
use crate::data_frame::DataFrame;
use crate::launch::Launched;
use crate::poller::{Poller, Port, Ready};

/// A running tool, or what it left: output still to be delivered, processes still to be ended.
#[derive(Debug)]
pub(crate) struct Exec {
    serial: u32,
    pub(crate) id: ExecId,
    mark: Mark,
    pid: Pid,
    child: Child,
    /// The tool's process id, to be told.
    tool: u32,
    stdio: [Stdio; 3],
    /// The monitor's connection, where the tool has a terminal.
    monitor: Option<Channel>,
    started: Instant,
    /// How often the sidecar's limits had struck when it began.
    strikes: Strikes,
    /// What the proxy wants to hear.
    reports: Reports,
    /// When the client is told that the tool runs, if it was not yet.
    announcement: Option<Instant>,
    conversation: Conversation,
    /// The end of the tool itself, once it has been reaped.
    ended: Option<(Reaped, Instant)>,
    /// The limit of the sidecar that struck while it ran, if it failed.
    limit: Option<SidecarLimit>,
    /// The ending is known to whoever asked.
    told: bool,
    /// CONTs of the client that were delivered.
    resumed: u32,
    /// A signal that is meant to end the tool was delivered by the proxy's wish.
    interrupted: bool,
    cancelled: Option<CancelCause>,
    escalation: Option<Escalation>,
}

/// Which process is the runner's own child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Child {
    Tool,
    /// The tool is its child.
    Monitor,
}

/// What an exec acts on beside itself.
pub(crate) struct World<'a> {
    pub(crate) poller: &'a Poller,
    pub(crate) control: &'a mut ControlChannel,
    pub(crate) frame: &'a mut DataFrame,
    pub(crate) limits: &'a LimitWatch,
    pub(crate) now: Instant,
}

/// How long a client that has nothing to do waits to hear that its tool runs.
const PATIENCE: Duration = Duration::from_millis(20);

impl Exec {
    /// A tool that was started a moment ago.
    pub(crate) fn new(
        start: &Start,
        launched: Launched,
        client: Option<(Client, Vec<u8>)>,
        started: Instant,
    ) -> Self {
        Exec {
            serial: start.serial,
            id: start.id.clone(),
            mark: Mark::of(&start.id),
            pid: launched.pid,
            child: if launched.monitor.is_some() { Child::Monitor } else { Child::Tool },
            tool: u32::try_from(launched.pid.as_raw()).unwrap_or_default(),
            stdio: launched.stdio,
            monitor: launched.monitor,
            started,
            strikes: Strikes::default(),
            reports: start.reports,
            announcement: None,
            conversation: Conversation::new(client, launched.lanes),
            ended: None,
            limit: None,
            told: false,
            resumed: 0,
            interrupted: false,
            cancelled: None,
            escalation: None,
        }
    }

    /// Tells that the tool runs, unless its monitor still has to say so.
    pub(crate) fn begin(&mut self, world: &mut World<'_>) {
        if self.monitor.is_none() {
            self.on_started(world);
        }
        self.settle(world);
        // The tool is being loaded, and nobody waits for us.
        self.strikes = world.limits.strikes();
    }

    fn on_started(&mut self, world: &mut World<'_>) {
        self.conversation.open();
        if self.reports == Reports::StartAndExit {
            world.control.send(&self.started_frame());
        }
        if self.conversation.carries() {
            self.announce();
        } else {
            // A client that has nothing to do meanwhile need not be woken, to sleep again, while a
            // tool of a moment runs.
            self.announcement = Some(world.now + PATIENCE);
        }
        // What it sent ahead is here already, and no event will tell of it.
        self.on_client();
    }

    /// Tells the client that the tool runs, if it was not told yet.
    fn announce(&mut self) {
        self.announcement = None;
        self.conversation.greet(&self.started_frame(), None);
    }

    fn tell_client(&mut self, frame: &Frame<'_>) {
        self.announcement = None;
        self.conversation.greet(&self.started_frame(), Some(frame));
    }

    fn started_frame(&self) -> Frame<'static> {
        Frame::Started { serial: self.serial, pid: self.tool, stdio: self.stdio }
    }

    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    pub(crate) fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// Nothing is left to do for it.
    pub(crate) fn is_over(&self) -> bool {
        let silent = !self.conversation.is_attended() && !self.conversation.carries();
        self.is_at_rest() && self.told && silent
    }

    /// The tool has ended and whatever was to end with it has too.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.ended.is_some() && self.escalation.is_none()
    }

    /// It is at rest, and whoever waits for it has been told how it ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_at_rest() && self.told && self.conversation.is_clear()
    }

    /// An fd of this exec, and what it waits for there.
    pub(crate) fn port(&self, port: Port) -> Option<(BorrowedFd<'_>, EpollFlags)> {
        match port {
            Port::Monitor => {
                let monitor = self.monitor.as_ref()?;
                let room =
                    if monitor.is_blocked() { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
                Some((monitor.as_fd(), EpollFlags::EPOLLIN | room))
            }
            port => self.conversation.port(port),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let escalation = self.escalation.as_ref().map(Escalation::poll_timeout);
        escalation.into_iter().chain(self.announcement).min()
    }

    /// Something is ready at one of the ports.
    pub(crate) fn on_ready(&mut self, ready: Ready, port: Port, world: &mut World<'_>) {
        match port {
            Port::Monitor => {
                if ready.room
                    && let Some(monitor) = &mut self.monitor
                {
                    // One that is gone is noticed by its end.
                    let _ = monitor.flush();
                }
                self.on_monitor(world);
            }
            Port::Client => {
                if ready.room {
                    self.conversation.flush();
                }
                if ready.input {
                    self.on_client();
                }
            }
            Port::Lane(stream) => {
                if ready.room {
                    self.conversation.hand_on();
                }
                if ready.input {
                    self.conversation.carry(stream, world.frame);
                }
            }
        }
        self.settle(world);
    }

    /// The client sent something by way of the proxy, or has left if that is nothing.
    pub(crate) fn on_tunnel(&mut self, bytes: &[u8], world: &mut World<'_>) {
        match bytes {
            [] => self.conversation.receive_end(),
            bytes => self.conversation.receive(bytes),
        }
        self.on_client();
        self.settle(world);
    }

    /// There is room on the way to the proxy again.
    pub(crate) fn on_room(&mut self, world: &mut World<'_>) {
        self.settle(world);
    }

    fn on_client(&mut self) {
        let signals = self.conversation.listen();
        if !signals.is_empty() && self.announcement.is_some() {
            // It is awake now, and it makes a difference to it whether somebody listens.
            self.announce();
        }
        for number in signals {
            self.signal_by_client(number);
        }
    }

    fn on_monitor(&mut self, world: &mut World<'_>) {
        let Some(monitor) = &mut self.monitor else { return };
        let open = monitor.fill().unwrap_or(false);
        loop {
            let Some(monitor) = &mut self.monitor else { return };
            match monitor.next_frame() {
                Ok(Some(Frame::Started { pid, .. })) => {
                    self.tool = pid;
                    self.on_started(world);
                }
                Ok(Some(Frame::StartError { error, .. })) => return self.not_started(error, world),
                Ok(Some(Frame::Stopped { signal, resumed })) => {
                    self.tell_client(&Frame::Stopped { signal, resumed });
                }
                Ok(Some(Frame::Exit { exit, .. })) => {
                    let Usage { user, system, max_rss_kib, .. } = exit.usage;
                    let (pid, ending) = (self.pid, exit.ending);
                    self.end(Reaped { pid, ending, user, system, max_rss_kib }, world);
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
    fn not_started(&mut self, error: StartError, world: &mut World<'_>) {
        world.control.send(&Frame::StartError { serial: self.serial, error });
        self.told = true;
        self.monitor = None;
        self.conversation.abandon(world.poller);
    }

    /// A child was reaped that is this exec's: the tool itself, or its monitor.
    pub(crate) fn on_reaped(&mut self, reaped: Reaped, world: &mut World<'_>) {
        if self.monitor.is_some() {
            // What it had still to say comes first.
            self.on_monitor(world);
            self.monitor = None;
        }
        if self.is_running() {
            if self.child == Child::Monitor {
                // It was killed, and its tool is nobody's any more.
                self.escalate(Ladder::Vanished, world.now);
            }
            self.end(reaped, world);
        }
        self.settle(world);
    }

    /// The tool was stopped; only a client of version 3 can do something about it.
    pub(crate) fn on_stopped(&mut self, signal: u8, world: &mut World<'_>) {
        let resumed = self.resumed;
        self.tell_client(&Frame::Stopped { signal, resumed });
        self.settle(world);
    }

    fn end(&mut self, reaped: Reaped, world: &mut World<'_>) {
        self.ended = Some((reaped, world.now));
        if reaped.ending != Ending::Exited(0) {
            // Who of several needed too much the kernel does not say; each that failed may have.
            self.limit = world.limits.struck_since(self.strikes);
        }
        self.conversation.tool_ended();
        // A normal end kills nothing. One that a signal of the proxy's explains, or that was forced,
        // takes the rest along.
        let explained = self.interrupted && reaped.ending != Ending::Exited(0);
        if self.escalation.is_some() || explained {
            if processes_marked(&self.mark).is_empty() {
                self.escalation = None;
            } else if self.escalation.is_none() {
                self.escalation = Some(Escalation::new(Ladder::Leftovers, world.now));
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
            self.escalate(ladder(cause, interrupt), now);
        }
    }

    /// Starts to end the tool, unless it has ended or is being ended sooner anyway.
    fn escalate(&mut self, ladder: Ladder, now: Instant) {
        let new = Escalation::new(ladder, now);
        if self.escalation.as_ref().is_none_or(|current| new.kill_at() < current.kill_at()) {
            self.escalation = Some(new);
        }
    }

    /// The proxy is gone: nobody may be told how this ends.
    pub(crate) fn abandon(&mut self, world: &mut World<'_>) {
        self.conversation.leave(world.poller);
        self.cancel(CancelCause::Shutdown, Interrupt::Send, world.now);
        self.settle(world);
    }

    /// Does what is due: tells that the tool runs, takes a step of the ladder.
    pub(crate) fn handle_timeout(&mut self, world: &mut World<'_>) {
        if self.announcement.is_some_and(|at| at <= world.now) {
            self.announce();
            self.settle(world);
        }
        let due = self.escalation.as_mut().and_then(|ladder| ladder.handle_timeout(world.now));
        let Some(signal) = due else { return };
        let all_gone = match signal {
            Signal::Kill => self.kill(),
            signal if self.is_running() => {
                self.deliver(signal.number());
                false
            }
            signal => signal_marked(&self.mark, signal) == 0,
        };
        if all_gone && !self.is_running() {
            self.escalation = None;
        }
    }

    /// Kills the group, the tree and everything that carries the mark. `true` if all of it is gone
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
        sweep(&self.mark)
    }

    /// What follows from whatever has happened: a client that left has its tool ended; one whose tool
    /// has ended gets what is owed, then the ending.
    fn settle(&mut self, world: &mut World<'_>) {
        if let Some((reaped, at)) = self.ended
            && !self.told
            && self.conversation.deliver_rest(world.frame)
        {
            self.told = true;
            let usage = Usage {
                wall: at.saturating_duration_since(self.started),
                user: reaped.user,
                system: reaped.system,
                max_rss_kib: reaped.max_rss_kib,
            };
            let taken = self.conversation.taken();
            let Exec { cancelled, limit, .. } = *self;
            let exit = Exit { ending: reaped.ending, cancelled, limit, taken, usage };
            let frame = Frame::Exit { serial: self.serial, exit };
            // The client first: it is waited for.
            self.tell_client(&frame);
            world.control.send(&frame);
        }
        if self.conversation.was_lost() {
            self.lose_client(world);
        }
        if self.told && self.conversation.is_clear() {
            self.conversation.conclude(world.poller);
            // The monitor goes with its connection.
            self.monitor = None;
        }
    }

    fn lose_client(&mut self, world: &mut World<'_>) {
        self.conversation.leave(world.poller);
        if !self.is_running() {
            return;
        }
        world.control.send(&Frame::Left { serial: self.serial });
        // It hands on every signal that it can hear. So it was killed, and so is the tool.
        self.cancelled.get_or_insert(CancelCause::Disconnect);
        self.escalate(Ladder::Vanished, world.now);
    }
}

fn ladder(cause: CancelCause, interrupt: Interrupt) -> Ladder {
    match (cause, interrupt) {
        (CancelCause::Timeout, _) => Ladder::Timeout,
        (CancelCause::Disconnect | CancelCause::Shutdown, Interrupt::Send) => Ladder::Cancel,
        (CancelCause::Disconnect | CancelCause::Shutdown, Interrupt::Skip) => {
            Ladder::CancelAfterSignal
        }
    }
}
