//! One exec, from the start of its tool to its last byte.

mod refusals;
mod start;
mod termination;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use aifo_process::{Escalation, EscalationPlan, ExecTag, Reaped, tagged_processes};
use aifo_types::{Ending, ExecId, Stdio, ToolName};
use aifo_wire::{CallNote, CancelCause, Exit, Frame, Reports, ResourceUsage, Start};
use nix::sys::epoll::EpollFlags;
use nix::unistd::Pid;

use self::refusals::Refusals;
use crate::call_notes::{CallNotes, NoteRows, NoteState};
use crate::client_connection::ClientConnection;
use crate::client_session::ClientSession;
use crate::control::ControlConnection;
use crate::data_frame::DataFrame;
use crate::frame_socket::FrameSocket;
use crate::poller::{ExecFd, Poller, ReadyEvent};
use crate::tool_launcher::{LaunchedTool, StartingTool};

/// A running tool, or one that has ended with output to send or processes to kill.
#[derive(Debug)]
pub(crate) struct Exec {
    serial: u32,
    pub(crate) id: ExecId,
    tool: ToolName,
    exec_tag: ExecTag,
    pid: Pid,
    child: ChildKind,
    /// The tool's execve, until it is known to have succeeded.
    starting: Option<StartingTool>,
    /// The tool pid, for `Started`.
    tool_pid: u32,
    stdio: [Stdio; 3],
    /// The connection to the monitor, if the tool has a terminal.
    monitor: Option<FrameSocket>,
    started: Instant,
    /// The call notes that may apply, and the facts at the start.
    note_rows: NoteRows,
    note_state: NoteState,
    /// The frames that the proxy has requested.
    reports: Reports,
    /// When `Started` is sent to the client, if it was not sent yet.
    started_due: Option<Instant>,
    /// When the client connection is first read, if it was not yet.
    watch_due: Option<Instant>,
    session: ClientSession,
    /// How and when the tool ended, once it was reaped.
    ended: Option<(Reaped, Instant)>,
    /// A fact of the sidecar that may explain the outcome, once the tool has ended.
    note: Option<CallNote>,
    refusals: Refusals,
    /// The rule by which the tool has no network.
    no_network: Option<String>,
    /// `Exit` or `StartError` was sent.
    is_exit_sent: bool,
    /// CONT signals of the client that were delivered.
    resumed: u32,
    /// The proxy has sent a terminating signal.
    interrupted: bool,
    cancelled: Option<CancelCause>,
    escalation: Option<Escalation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildKind {
    Tool,
    /// The parent of the tool.
    Monitor,
}

/// The server state that an exec uses.
pub(crate) struct ExecContext<'a> {
    pub(crate) poller: &'a Poller,
    pub(crate) control: &'a mut ControlConnection,
    pub(crate) frame: &'a mut DataFrame,
    pub(crate) notes: &'a mut CallNotes,
    pub(crate) now: Instant,
}

impl Exec {
    pub(crate) fn new(
        start: &Start,
        launched: LaunchedTool,
        note_rows: NoteRows,
        client: Option<(ClientConnection, Vec<u8>)>,
        started: Instant,
    ) -> Self {
        Exec {
            serial: start.serial(),
            id: start.request.id.clone(),
            tool: start.request.tool.clone(),
            exec_tag: launched.tag,
            pid: launched.pid,
            child: if launched.monitor.is_some() { ChildKind::Monitor } else { ChildKind::Tool },
            tool_pid: u32::try_from(launched.pid.as_raw()).unwrap_or_default(),
            starting: launched.starting,
            stdio: launched.stdio,
            monitor: launched.monitor,
            started,
            note_rows,
            note_state: NoteState::default(),
            reports: start.reports,
            started_due: None,
            watch_due: None,
            session: ClientSession::new(client, launched.pipes),
            ended: None,
            note: None,
            refusals: Refusals::default(),
            no_network: start.request.no_network.clone(),
            is_exit_sent: false,
            resumed: 0,
            interrupted: false,
            cancelled: None,
            escalation: None,
        }
    }

    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// Returns the tool's process id, or that of its monitor.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn tag(&self) -> &ExecTag {
        &self.exec_tag
    }

    /// Keeps a refusal of the network for the client, which gets it if the tool fails or goes on running.
    pub(crate) fn add_refusal(&mut self, text: String) {
        self.refusals.add(text, Instant::now());
    }

    pub(crate) fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns whether the exec can be removed.
    pub(crate) fn is_finished(&self) -> bool {
        let silent = !self.session.has_client() && !self.session.has_streams();
        self.has_ended() && self.is_exit_sent && silent
    }

    /// Returns whether the tool has ended and no escalation is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some() && self.escalation.is_none()
    }

    /// Returns whether it has ended, and `Exit` has been sent and flushed.
    pub(crate) fn is_reported(&self) -> bool {
        self.has_ended() && self.is_exit_sent && self.session.is_flushed()
    }

    /// Returns a descriptor and its epoll interest.
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
        let refusals = self.refusals.poll_timeout().filter(|_| self.is_running());
        escalation.into_iter().chain(self.started_due).chain(self.watch_due).chain(refusals).min()
    }

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
                    // The end of its connection is handled below.
                    let _ = monitor.flush();
                }
                self.on_monitor(context);
            }
            ExecFd::Client => {
                if event.writable {
                    self.session.flush();
                }
                if event.readable {
                    self.on_client(context);
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

    /// Handles bytes of a tunnelled client; an empty slice means that the client has left.
    pub(crate) fn on_tunnel(&mut self, bytes: &[u8], context: &mut ExecContext<'_>) {
        match bytes {
            [] => self.session.receive_end(),
            bytes => self.session.receive(bytes),
        }
        self.on_client(context);
        self.advance(context);
    }

    pub(crate) fn on_room(&mut self, context: &mut ExecContext<'_>) {
        self.advance(context);
    }

    fn on_client(&mut self, context: &mut ExecContext<'_>) {
        let signals = self.session.receive_frames();
        if signals.is_empty() || !self.confirm_start(context) {
            return;
        }
        if self.started_due.is_some() {
            // The client is awake, and its next signals depend on whether the runner answers.
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
                    self.send_to_client(&[Frame::Stopped { signal, resumed }]);
                }
                Ok(Some(Frame::Exit { exit, .. })) => {
                    let ResourceUsage { user, system, max_rss_kib, .. } = exit.usage;
                    let (pid, ending) = (self.pid, exit.ending);
                    self.end(Reaped { pid, ending, user, system, max_rss_kib }, context);
                }
                Ok(None) if open => return,
                // The monitor was killed; reaping it completes the exec.
                Ok(_) | Err(_) => {
                    self.monitor = None;
                    return;
                }
            }
        }
    }

    /// The tool or its monitor was reaped.
    pub(crate) fn on_reaped(&mut self, reaped: Reaped, context: &mut ExecContext<'_>) {
        if self.monitor.is_some() {
            // Frames that the monitor has already sent come first.
            self.on_monitor(context);
            self.monitor = None;
        }
        if self.is_running() {
            if self.child == ChildKind::Monitor {
                // The monitor was killed, and its tool is orphaned.
                self.escalate(EscalationPlan::Immediate, context.now);
            }
            self.end(reaped, context);
        }
        self.advance(context);
    }

    pub(crate) fn on_stopped(&mut self, signal: u8, context: &mut ExecContext<'_>) {
        let resumed = self.resumed;
        self.send_to_client(&[Frame::Stopped { signal, resumed }]);
        self.advance(context);
    }

    fn end(&mut self, reaped: Reaped, context: &mut ExecContext<'_>) {
        self.ended = Some((reaped, context.now));
        self.note = context.notes.note(self.note_rows, self.note_state, reaped.ending);
        self.session.tool_ended();
        // A normal end kills nothing. After a terminating signal of the proxy, or an escalation,
        // the remaining processes end too.
        let explained = self.interrupted && reaped.ending != Ending::Exited(0);
        if self.escalation.is_some() || explained {
            if tagged_processes(&self.exec_tag).is_empty() {
                self.escalation = None;
            } else if self.escalation.is_none() {
                self.escalation = Some(Escalation::new(EscalationPlan::Leftovers, context.now));
            }
        }
    }

    /// Reads the client, sends `Started`, refusals or the next signal of the escalation if it is due.
    pub(crate) fn handle_timeout(&mut self, context: &mut ExecContext<'_>) {
        if self.watch_due.is_some_and(|at| at <= context.now) {
            self.watch_client(context);
            self.advance(context);
        }
        if self.started_due.is_some_and(|at| at <= context.now) {
            self.send_started();
            self.advance(context);
        }
        if self.is_running() {
            let lines = self.refusals.take_due(&self.tool, context.now);
            if !lines.is_empty() {
                self.send_to_client(&refused(lines));
                self.advance(context);
            }
        }
        self.send_due_signal(context.now);
    }

    /// Sends remaining output and `Exit` once the tool has ended, and handles a lost client.
    fn advance(&mut self, context: &mut ExecContext<'_>) {
        if let Some((reaped, at)) = self.ended
            && !self.is_exit_sent
            && self.session.drain_output(context.frame)
        {
            self.is_exit_sent = true;
            let usage = ResourceUsage {
                wall: at.saturating_duration_since(self.started),
                user: reaped.user,
                system: reaped.system,
                max_rss_kib: reaped.max_rss_kib,
            };
            let taken = self.session.bytes_read();
            let Exec { cancelled, note, .. } = *self;
            // The refusal explains the failure.
            let note =
                note.filter(|note| *note != CallNote::Certificates || self.refusals.is_empty());
            let exit = Exit { ending: reaped.ending, cancelled, note, taken, usage };
            let mut lines = Vec::new();
            if reaped.ending != Ending::Exited(0) {
                lines = self.refusals.take_all(&self.tool);
            }
            if let Some(rule) = self.no_network.take()
                && matches!(reaped.ending, Ending::Exited(1..))
            {
                lines.push(format!("{} ran without network, by rule '{rule}'", self.tool));
            }
            let frame = Frame::Exit { serial: self.serial, exit };
            let mut frames = refused(lines);
            frames.push(frame.clone());
            // The client first: it is waiting.
            self.send_to_client(&frames);
            context.control.send(&frame);
        }
        if self.session.take_client_lost() {
            self.on_client_lost(context);
        }
        if self.is_exit_sent && self.session.is_flushed() {
            self.session.finish(context.poller);
            // Closing its connection ends the monitor.
            self.monitor = None;
        }
    }
}

fn refused(lines: Vec<String>) -> Vec<Frame<'static>> {
    lines.into_iter().map(|text| Frame::Refused { text }).collect()
}
