//! Signalling a tool, and ending it with everything that it started.

use std::time::Instant;

use aifo_process::{
    Escalation, EscalationPlan, descendants_of, kill_tagged, signal_group_number, signal_process,
    signal_tagged,
};
use aifo_types::Signal;
use aifo_wire::{CancelCause, Frame, Interrupt};

use super::{Exec, ExecContext};

impl Exec {
    /// Delivers a signal of the proxy. Returns `false` if the tool has ended.
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

    pub(super) fn signal_by_client(&mut self, number: u8) {
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
            // As the parent, the monitor cannot hit a reused pid.
            Some(monitor) => monitor.send(&Frame::Signal { number }).is_ok(),
            None => signal_group_number(self.pid, number),
        }
    }

    /// Starts an escalation for the proxy.
    pub(crate) fn cancel(&mut self, cause: CancelCause, interrupt: Interrupt, now: Instant) {
        if self.is_running() {
            self.cancelled.get_or_insert(cause);
            self.escalate(plan_for(cause, interrupt), now);
        }
    }

    /// After the loss of the proxy: disconnects the client without `Exit`.
    pub(crate) fn on_proxy_lost(&mut self, context: &mut ExecContext<'_>) {
        self.session.drop_client(context.poller);
        self.cancel(CancelCause::Shutdown, Interrupt::Send, context.now);
        self.advance(context);
    }

    pub(super) fn on_client_lost(&mut self, context: &mut ExecContext<'_>) {
        self.session.drop_client(context.poller);
        if !self.is_running() {
            return;
        }
        context.control.send(&Frame::Left { serial: self.serial });
        // A client relays every signal that it can catch. It was killed, so the tool is killed too.
        self.cancelled.get_or_insert(CancelCause::Disconnect);
        self.escalate(EscalationPlan::Immediate, context.now);
    }

    /// Starts an escalation, unless the current one kills sooner.
    pub(super) fn escalate(&mut self, plan: EscalationPlan, now: Instant) {
        let new = Escalation::new(plan, now);
        if self.escalation.as_ref().is_none_or(|current| new.kill_at() < current.kill_at()) {
            self.escalation = Some(new);
        }
    }

    /// Sends the signal of the escalation that is due, if any.
    pub(super) fn send_due_signal(&mut self, now: Instant) {
        let due = self.escalation.as_mut().and_then(|escalation| escalation.handle_timeout(now));
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

    /// Kills the process group, the process tree and all processes with the exec tag. Returns
    /// `true` if none is left but the tool itself, which must still be reaped.
    fn kill(&mut self) -> bool {
        if self.is_running() {
            // Collected first: the tree cannot be found once its root is dead.
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
}

fn plan_for(cause: CancelCause, interrupt: Interrupt) -> EscalationPlan {
    match (cause, interrupt) {
        (CancelCause::Timeout, _) => EscalationPlan::Timeout,
        (CancelCause::Disconnect, Interrupt::Send) | (CancelCause::Shutdown, _) => {
            EscalationPlan::Cancel
        }
        (CancelCause::Disconnect, Interrupt::Skip) => EscalationPlan::CancelAfterSignal,
    }
}
