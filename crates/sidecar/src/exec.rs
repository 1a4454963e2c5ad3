//! One exec of a runner, seen from outside.

use aifo_wire::{CancelCause, Exit, Interrupt, StartError};
use tokio::sync::mpsc;

use crate::lease::UsageGuard;
use crate::runner::Runner;

/// A tool that a runner was asked to start. Dropped before its end, it is cancelled: the runner ends
/// the tool by the ladder.
#[derive(Debug)]
pub struct Exec {
    runner: Runner,
    serial: u32,
    events: mpsc::UnboundedReceiver<ExecEvent>,
    ended: bool,
    /// What keeps the runner from being asked to go.
    usage: Option<UsageGuard>,
}

/// What a runner tells of an exec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    /// The tool runs.
    Started,
    /// It could not be started; the last event.
    NotStarted(StartError),
    /// The client whose connection was handed on has left; the tool is being ended.
    ClientLeft,
    /// It has ended; the last event.
    Ended(Exit),
}

impl Exec {
    pub(crate) fn new(
        runner: Runner,
        serial: u32,
        events: mpsc::UnboundedReceiver<ExecEvent>,
    ) -> Self {
        Exec { runner, serial, events, ended: false, usage: None }
    }

    pub(crate) fn holding(mut self, usage: UsageGuard) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The runner that has it.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Waits for the next event. `None` if the runner was lost before the last. Cancel-safe.
    pub async fn next(&mut self) -> Option<ExecEvent> {
        let event = self.events.recv().await;
        self.ended = !matches!(event, Some(ExecEvent::Started | ExecEvent::ClientLeft));
        event
    }

    /// What can end the tool while somebody waits for the next event.
    pub fn canceller(&self) -> Canceller {
        Canceller { runner: self.runner.clone(), serial: self.serial }
    }
}

/// Ends an exec from outside. It keeps the runner's connection open, but not the exec alive.
#[derive(Clone, Debug)]
pub struct Canceller {
    runner: Runner,
    serial: u32,
}

impl Canceller {
    /// Asks the runner to end the tool. The ending still comes as an event.
    pub fn cancel(&self, cause: CancelCause, interrupt: Interrupt) {
        self.runner.cancel(self.serial, cause, interrupt);
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.runner.forget_exec(self.serial);
        if !self.ended {
            self.runner.cancel(self.serial, CancelCause::Disconnect, Interrupt::Send);
        }
    }
}
