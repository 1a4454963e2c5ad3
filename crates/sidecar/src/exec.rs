//! Starts execs in a runner and follows them.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use aifo_wire::{CancelCause, Frame, Interrupt, Start};
use tokio::sync::mpsc;

use crate::event::ExecEvent;
use crate::outbox::RelayStreams;
use crate::runner::Runner;
use crate::tunnel;
use crate::usage::UsageGuard;

/// A tool that a runner starts or has started. If this is dropped before the tool has ended, the
/// runner ends the tool by signal escalation.
#[derive(Debug)]
pub struct Exec {
    runner: Runner,
    serial: u32,
    events: mpsc::UnboundedReceiver<ExecEvent>,
    ended: bool,
    /// Prevents the runner from being retired.
    usage: Option<UsageGuard>,
}

impl Runner {
    /// Starts a tool on `fds`: as many descriptors as the `Start` names, in its order. The result
    /// arrives as events. Sets the serial of the `Start`.
    ///
    /// If the runner takes no descriptors, or this user has too many in flight, the streams are relayed
    /// instead: through the client connection, or into the pipe for the tool output if there is no
    /// client. `Started` reports this to the client.
    pub fn start(&self, mut start: Start, fds: Vec<OwnedFd>) -> Exec {
        let control = self.control();
        let (events_sender, events) = mpsc::unbounded_channel();
        let serial = control.replies().next_serial();
        start.set_serial(serial);
        for path in [&mut start.request.cwd, &mut start.request.program].into_iter().flatten() {
            self.translation().apply(path);
        }
        // Another kernel has other numbers.
        start.request.cwd_id = start.request.cwd_id.filter(|_| self.shares_kernel());
        control.replies().execs.insert(serial, events_sender);
        if control.takes_descriptors() {
            let relaying = Arc::downgrade(control);
            let relay = move |start: &mut Start, fds| {
                if let Some(control) = relaying.upgrade() {
                    tunnel::relay(&control, start, fds);
                }
            };
            control.send_start(start, fds, RelayStreams(Box::new(relay)));
        } else {
            tunnel::relay(control, &mut start, fds);
            control.send(&Frame::Start(Box::new(start)));
        }
        if self.is_lost() {
            // There would be no reply.
            control.forget_exec(serial);
            control.forget_tunnel(serial);
        }
        let runner = self.clone();
        Exec { runner, serial, events, ended: false, usage: None }
    }
}

impl Exec {
    pub(crate) fn holding(mut self, usage: UsageGuard) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Returns the tool runner.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Waits for the next event. `None` if the runner was lost before the last one. Cancel-safe.
    pub async fn next(&mut self) -> Option<ExecEvent> {
        let event = self.events.recv().await;
        self.ended = !matches!(event, Some(ExecEvent::Started | ExecEvent::ClientLeft));
        event
    }

    /// Returns a handle that can end the tool while a task waits for the next event.
    pub fn canceller(&self) -> Canceller {
        Canceller { runner: self.runner.clone(), serial: self.serial }
    }
}

/// Ends an exec. It keeps the runner connection open, but not the exec alive.
#[derive(Clone, Debug)]
pub struct Canceller {
    runner: Runner,
    serial: u32,
}

impl Canceller {
    /// Has the runner end the tool. The ending still arrives as an event.
    pub fn cancel(&self, cause: CancelCause, interrupt: Interrupt) {
        self.runner.control().cancel(self.serial, cause, interrupt);
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        let control = self.runner.control();
        control.forget_exec(self.serial);
        if !self.ended {
            control.cancel(self.serial, CancelCause::Disconnect, Interrupt::Send);
        }
    }
}
