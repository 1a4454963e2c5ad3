//! The start of a tool, and its report to proxy and client.

use std::time::Duration;

use aifo_wire::{Frame, Reports, StartError};

use super::{Exec, ExecContext};
use crate::tool_launcher::StartingTool;

/// How long `Started` is delayed for a client without streams.
const STARTED_DELAY: Duration = Duration::from_millis(20);

/// For this time the connection of a client without streams is not read.
const WATCH_DELAY: Duration = Duration::from_millis(1);

impl Exec {
    /// Reports the start, unless a monitor reports it later.
    ///
    /// Does not wait for execve where the next event of the exec is soon enough to report its
    /// failure, so that other tools can start meanwhile.
    pub(crate) fn begin(&mut self, context: &mut ExecContext<'_>) {
        let is_reported = self.session.has_streams() || self.reports == Reports::StartAndExit;
        if self.monitor.is_none() && (!is_reported || self.confirm_start(context)) {
            self.on_started(context);
        }
        self.advance(context);
        // Read while the tool is being loaded, when no client waits for the runner.
        self.note_state = context.notes.state();
    }

    /// Waits for the tool's execve, and reports its failure. Returns whether the tool runs or has
    /// run. Must come before everything that acts on the tool.
    pub(crate) fn confirm_start(&mut self, context: &mut ExecContext<'_>) -> bool {
        let Some(Err(error)) = self.starting.take().map(StartingTool::wait) else { return true };
        self.on_start_error(error, context);
        false
    }

    pub(super) fn on_started(&mut self, context: &mut ExecContext<'_>) {
        self.session.start();
        if self.reports == Reports::StartAndExit {
            context.control.send(&self.started_frame());
        }
        if self.session.has_streams() {
            self.send_started();
            self.watch_client(context);
        } else {
            // Most tools without streams end within these delays: the client is then woken once,
            // and its connection never polled.
            self.started_due = Some(context.now + STARTED_DELAY);
            self.watch_due = Some(context.now + WATCH_DELAY);
            // Frames that came behind the request are already buffered and cause no event.
            self.on_client(context);
        }
    }

    /// Begins to read the client connection.
    pub(super) fn watch_client(&mut self, context: &mut ExecContext<'_>) {
        self.watch_due = None;
        self.session.watch_client();
        self.on_client(context);
    }

    /// Sends `Started` to the client unless it was sent.
    pub(super) fn send_started(&mut self) {
        self.started_due = None;
        self.session.send_started(&self.started_frame(), &[]);
    }

    pub(super) fn send_to_client(&mut self, frames: &[Frame<'_>]) {
        self.started_due = None;
        self.session.send_started(&self.started_frame(), frames);
    }

    pub(super) fn started_frame(&self) -> Frame<'static> {
        Frame::Started { serial: self.serial, pid: self.tool_pid, stdio: self.stdio }
    }

    /// The tool could not be executed: nothing ran.
    pub(super) fn on_start_error(&mut self, error: StartError, context: &mut ExecContext<'_>) {
        context.control.send(&Frame::StartError { serial: self.serial, error });
        self.is_exit_sent = true;
        self.started_due = None;
        self.monitor = None;
        self.session.close(context.poller);
    }
}
