//! One tool, from its start to its last byte.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use aifo_process::{
    Escalation, Ladder, Mark, Reaped, descendants_of, processes_marked, signal_group,
    signal_marked, signal_process, sweep,
};
use aifo_types::{Ending, ExecId, Signal};
use aifo_wire::{CancelCause, Exit, Frame, Interrupt, MAX_PAYLOAD, Usage};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::Pid;

use crate::channel::Channel;
use crate::launch::Launched;
use crate::output_frame::OutputFrame;

/// A running tool, or what it left: output still to be delivered, processes still to be ended.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) id: ExecId,
    mark: Mark,
    pid: Pid,
    started: Instant,
    /// The end of the tool itself, once it has been reaped.
    ended: Option<(Reaped, Instant)>,
    /// `None` once the ending was told, or the proxy has gone.
    channel: Option<Channel>,
    /// `None` once every writer has closed the pipe.
    output: Option<OwnedFd>,
    /// After the tool's end: how much of the pipe still belongs to the answer.
    owed: usize,
    /// A signal that is meant to end the tool was delivered through us.
    interrupted: bool,
    /// The ending is on its way.
    told: bool,
    escalation: Option<Escalation>,
}

/// What the event loop is to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Frames, or the end of the stream, on the channel.
    pub(crate) channel: bool,
    /// Room on the channel.
    pub(crate) channel_room: bool,
    /// Output of the tool.
    pub(crate) output: bool,
}

impl Exec {
    /// Tells the proxy that the tool has started.
    pub(crate) fn new(id: ExecId, launched: Launched, channel: Channel, started: Instant) -> Self {
        let mut exec = Exec {
            mark: Mark::of(&id),
            id,
            pid: launched.pid,
            started,
            ended: None,
            channel: Some(channel),
            output: launched.output,
            owed: 0,
            interrupted: false,
            told: false,
            escalation: None,
        };
        let pid = u32::try_from(launched.pid.as_raw()).unwrap_or_default();
        exec.send(&Frame::Started { pid }, started);
        exec
    }

    pub(crate) fn channel_fd(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(Channel::as_fd)
    }

    pub(crate) fn output_fd(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(OwnedFd::as_fd)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// Nothing is left to do for it.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_some()
            && self.channel.is_none()
            && self.output.is_none()
            && self.escalation.is_none()
    }

    /// The tool has ended and whatever was to end with it has too.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.ended.is_some() && self.escalation.is_none()
    }

    pub(crate) fn interest(&self) -> Interest {
        let blocked = self.channel.as_ref().is_some_and(Channel::is_blocked);
        Interest {
            channel: self.channel.is_some(),
            channel_room: blocked,
            // A channel that takes no more stops the tool's own writes, in the end.
            output: self.output.is_some() && !blocked,
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.escalation.as_ref().map(Escalation::poll_timeout)
    }

    /// Frames came, or the proxy closed its end, which is the cancel.
    pub(crate) fn on_channel(&mut self, now: Instant) {
        let Some(channel) = &mut self.channel else { return };
        let open = channel.fill().unwrap_or(false);
        let mut cancels = Vec::new();
        let lost = loop {
            match channel.next_frame() {
                Ok(Some(Frame::Cancel { cause, interrupt })) => cancels.push((cause, interrupt)),
                Ok(None) => break !open,
                // A peer that breaks the protocol is as good as gone.
                Ok(Some(_)) | Err(_) => break true,
            }
        };
        for (cause, interrupt) in cancels {
            self.escalate(ladder(cause, interrupt), now);
        }
        if lost {
            self.lose_channel(now);
        }
    }

    /// The channel takes more.
    pub(crate) fn on_channel_room(&mut self, buffer: &mut OutputFrame, now: Instant) {
        if let Some(channel) = &mut self.channel
            && channel.flush().is_err()
        {
            self.lose_channel(now);
        }
        self.settle(buffer, now);
    }

    /// The tool printed something, or closed its end.
    pub(crate) fn on_output(&mut self, buffer: &mut OutputFrame, now: Instant) {
        self.carry_output(buffer, now);
        self.settle(buffer, now);
    }

    /// The tool itself was reaped.
    pub(crate) fn on_end(&mut self, reaped: Reaped, buffer: &mut OutputFrame, now: Instant) {
        self.ended = Some((reaped, now));
        // What the tool wrote stands in the pipe, which holds no more than this. Whatever a child
        // that it left behind writes later belongs to nobody.
        let capacity = self.output.as_ref().map(|pipe| fcntl(pipe, FcntlArg::F_GETPIPE_SZ));
        self.owed = match capacity {
            Some(Ok(size)) => usize::try_from(size).unwrap_or(PIPE_CAPACITY),
            _ => PIPE_CAPACITY,
        };
        // A normal end kills nothing. One that a signal of ours explains takes the rest along.
        let explained = self.interrupted && reaped.ending != Ending::Exited(0);
        if self.escalation.is_some() || explained {
            if processes_marked(&self.mark).is_empty() {
                self.escalation = None;
            } else if self.escalation.is_none() {
                self.escalation = Some(Escalation::new(Ladder::Leftovers, now));
            }
        }
        self.settle(buffer, now);
    }

    /// Delivers a signal to the tool's group. `false` if the tool has ended.
    pub(crate) fn signal(&mut self, signal: Signal) -> bool {
        if !self.is_running() {
            return false;
        }
        self.interrupted |= signal.is_terminating();
        if signal == Signal::Kill {
            self.kill();
            return true;
        }
        signal_group(self.pid, signal)
    }

    /// Starts to end the tool, unless it has ended or is being ended sooner anyway.
    pub(crate) fn escalate(&mut self, ladder: Ladder, now: Instant) {
        if !self.is_running() {
            return;
        }
        let new = Escalation::new(ladder, now);
        if self.escalation.as_ref().is_none_or(|current| new.kill_at() < current.kill_at()) {
            self.escalation = Some(new);
        }
    }

    /// Takes the step of the ladder that is due, if one is.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let due = self.escalation.as_mut().and_then(|ladder| ladder.handle_timeout(now));
        let Some(signal) = due else { return };
        let all_gone = match signal {
            Signal::Kill => self.kill(),
            signal if self.is_running() => {
                signal_group(self.pid, signal);
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
            signal_group(self.pid, Signal::Kill);
            for pid in tree {
                signal_process(pid, Signal::Kill);
            }
        }
        sweep(&self.mark)
    }

    /// Reads the pipe once and hands on what came. What nobody waits for is thrown away, so that a
    /// writer that lives on is neither stopped nor killed by a pipe without a reader.
    fn carry_output(&mut self, buffer: &mut OutputFrame, now: Instant) {
        let Some(pipe) = &self.output else { return };
        let owed = self.ended.is_some() && self.channel.is_some();
        let limit = if owed { self.owed } else { MAX_PAYLOAD };
        if limit == 0 {
            // Nothing is owed any more; reading nothing would look like the end of the pipe.
            return;
        }
        let output = match buffer.read(pipe.as_fd(), limit) {
            Ok(Some(output)) => output,
            Err(Errno::EINTR) => return,
            Err(Errno::EAGAIN) => {
                self.owed = 0;
                return;
            }
            Ok(None) | Err(_) => {
                self.output = None;
                return;
            }
        };
        self.owed = self.owed.saturating_sub(output.len);
        let sent = self.channel.as_mut().map(|channel| channel.send_encoded(output.frame));
        if let Some(Err(_)) = sent {
            self.lose_channel(now);
        }
    }

    /// After the tool's end: delivers what is owed, then the ending, then closes.
    fn settle(&mut self, buffer: &mut OutputFrame, now: Instant) {
        let Some((reaped, at)) = self.ended else { return };
        while self.owes_output() && self.is_clear() {
            self.carry_output(buffer, now);
        }
        if !self.told && !self.owes_output() && self.is_clear() {
            let usage = Usage {
                wall: at.saturating_duration_since(self.started),
                user: reaped.user,
                system: reaped.system,
                max_rss_kib: reaped.max_rss_kib,
            };
            self.told = true;
            self.send(&Frame::Exit(Exit { ending: reaped.ending, usage }), now);
        }
        if self.told && self.is_clear() {
            self.channel = None;
        }
    }

    fn owes_output(&self) -> bool {
        self.owed > 0 && self.output.is_some()
    }

    /// There is a channel, and nothing waits for room on it.
    fn is_clear(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| !channel.is_blocked())
    }

    fn send(&mut self, frame: &Frame<'_>, now: Instant) {
        if let Some(channel) = &mut self.channel
            && channel.send(frame).is_err()
        {
            self.lose_channel(now);
        }
    }

    fn lose_channel(&mut self, now: Instant) {
        self.channel = None;
        self.escalate(Ladder::Cancel, now);
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

/// What a pipe holds if nobody asked for another size (pipe(7)).
const PIPE_CAPACITY: usize = 64 * 1024;
