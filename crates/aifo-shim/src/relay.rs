//! Event loop of a version 3 call, from the sent request to the exit (`spec/exec3.md#frames`).

mod job_control;
mod refusals;

use std::os::fd::AsFd;
use std::time::Instant;

use aifo_process::{SignalSet, signal_group_number};
use aifo_types::{Ending, Stdio, exit};
use aifo_wire::{CancelCause, Exit, Frame, FrameReader, Stream};
use nix::libc;
use nix::poll::{PollFlags, PollTimeout};
use nix::unistd::getpgrp;

use self::refusals::Refusals;
use crate::failure::{self, Interrupted, ResponseFailure};
use crate::fd_writer::FdWriter;
use crate::frame_connection::FrameConnection;
use crate::log;
use crate::output_forwarder::{OutputError, OutputForwarder};
use crate::polling::poll_fds;
use crate::settings::{ProxyAddress, Settings};
use crate::shim_exit::{BROKEN_PIPE, ShimExit};
use crate::signals::Signals;
use crate::standard_fd::StandardFd;
use crate::stdin_forwarder::{ReadOutcome, StdinForwarder};
use crate::terminal_input::{OutputProcessing, TerminalInput};

/// A version 3 call whose request has been sent. It relays only signals until the tool has started,
/// and then all streams that were not passed.
#[derive(Debug)]
pub(crate) struct Relay<'a> {
    settings: &'a Settings,
    proxy: &'a ProxyAddress,
    pub(crate) connection: FrameConnection,
    pub(crate) signals: Signals,
    ignored: SignalSet,
    /// The caller terminal, if the tool gets a pseudo terminal.
    terminal: Option<StandardFd>,
    output_processing: OutputProcessing,
    is_started: bool,
    /// When INT first found forwarded signals unread.
    unread_since: Option<Instant>,
    stdin: Option<StdinForwarder>,
    terminal_input: Option<TerminalInput>,
    /// True for stdin and stdout if they were passed to the tool and are still open here.
    is_passed: [bool; 2],
    /// stdout, stderr, and the output of the pseudo terminal.
    outputs: [Option<OutputForwarder>; 3],
    /// True if the last read filled its buffer.
    reads_large: bool,
    refusals: Refusals,
}

/// Why a call stopped before its exit status arrived.
#[derive(Debug)]
pub(crate) enum CallError {
    Response(ResponseFailure),
    GivenUp,
}

impl<'a> Relay<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        proxy: &'a ProxyAddress,
        connection: FrameConnection,
        (signals, ignored): (Signals, SignalSet),
        (terminal, output_processing): (Option<StandardFd>, OutputProcessing),
    ) -> Self {
        Relay {
            settings,
            proxy,
            connection,
            signals,
            ignored,
            terminal,
            output_processing,
            is_started: false,
            unread_since: None,
            stdin: None,
            terminal_input: None,
            is_passed: [false; 2],
            outputs: [const { None }; 3],
            reads_large: false,
            refusals: Refusals::default(),
        }
    }

    /// Waits until the connection is readable. Forwards signals meanwhile.
    pub(crate) fn wait_for_response(&mut self) -> Result<(), CallError> {
        loop {
            self.connection.flush();
            let signals = (self.signals.as_fd(), PollFlags::POLLIN);
            let [connection, signals] =
                poll_fds([Some(self.connection.poll_interest()), Some(signals)], PollTimeout::NONE);
            if !signals.is_empty() {
                self.forward_signals()?;
            }
            if connection.intersects(!PollFlags::POLLOUT) {
                return Ok(());
            }
        }
    }

    /// Relays the call until the tool has exited. `first` are the bytes after the response head.
    pub(crate) fn run(mut self, first: &[u8]) -> ShimExit {
        let mut reader = FrameReader::for_client();
        reader.receive(first);
        match self.run_event_loop(&mut reader) {
            Ok(exit) => self.finish(&exit),
            Err(error) => self.abort(&error),
        }
    }

    /// Ends the call without the tool's exit status.
    pub(crate) fn abort(mut self, error: &CallError) -> ShimExit {
        // Write the output that has arrived.
        let killed_by = match error {
            CallError::Response(_) => self.drain(),
            CallError::GivenUp => None,
        };
        // Restore the terminal before printing a message.
        self.terminal_input = None;
        match (killed_by, error) {
            (Some(number), _) => ShimExit::Signaled(number),
            (None, CallError::GivenUp) => failure::report_no_response(),
            (None, CallError::Response(failure)) => {
                let interrupted = match self.signals.interrupt_count() {
                    0 => Interrupted::No,
                    _ => Interrupted::Yes,
                };
                failure::report_connection_lost(
                    failure,
                    &self.proxy.endpoint,
                    self.settings.compat,
                    interrupted,
                )
            }
        }
    }

    fn run_event_loop(&mut self, reader: &mut FrameReader) -> Result<Exit, CallError> {
        loop {
            while let Some(frame) = reader.next_frame().map_err(protocol_error)? {
                if let Some(exit) = self.handle_frame(&frame)? {
                    return Ok(exit);
                }
            }
            self.refusals.report_early();
            self.close_passed_fds();
            if let Some(terminal_input) = &mut self.terminal_input {
                terminal_input.try_acquire(Instant::now(), &mut self.connection);
            }
            self.connection.flush();
            while self.stdin.as_ref().is_some_and(|stdin| stdin.needs_read(&self.connection)) {
                self.read_stdin();
                self.connection.flush();
            }
            let [connection, signals, input, typed, outputs @ ..] = self.wait();
            if !signals.is_empty() {
                self.forward_signals()?;
            }
            if connection.intersects(!PollFlags::POLLOUT) {
                self.fill(reader)?;
            }
            for (forwarder, ready) in self.outputs.iter_mut().zip(outputs) {
                if let Some(forwarder) = forwarder {
                    forwarder.handle_ready(ready, &mut self.connection);
                }
            }
            if !input.is_empty() {
                self.read_stdin();
            }
            if let (Some(terminal_input), false) = (&mut self.terminal_input, typed.is_empty()) {
                terminal_input.read(&mut self.connection);
            }
        }
    }

    fn wait(&self) -> [PollFlags; 7] {
        let [out, err, screen] =
            self.outputs.each_ref().map(|forwarder| forwarder.as_ref()?.poll_interest());
        let input = self.stdin.as_ref().and_then(|stdin| stdin.poll_interest(&self.connection));
        let typed = self
            .terminal_input
            .as_ref()
            .and_then(|terminal_input| terminal_input.poll_interest(&self.connection));
        let timeout = match self.terminal_input.as_ref().and_then(TerminalInput::next_attempt) {
            Some(due) => PollTimeout::try_from(due.saturating_duration_since(Instant::now())),
            None => Ok(PollTimeout::NONE),
        };
        let signals = (self.signals.as_fd(), PollFlags::POLLIN);
        poll_fds(
            [Some(self.connection.poll_interest()), Some(signals), input, typed, out, err, screen],
            timeout.unwrap_or(PollTimeout::ZERO),
        )
    }

    fn fill(&mut self, reader: &mut FrameReader) -> Result<(), CallError> {
        let space = reader.buffer().spare(if self.reads_large { LARGE_READ } else { SMALL_READ });
        match self.connection.receive(space) {
            // A reset ends the connection, too.
            Ok(0) | Err(_) => Err(CallError::Response(ResponseFailure::Disconnected)),
            Ok(count) => {
                self.reads_large = count == space.len();
                reader.buffer().commit(count);
                Ok(())
            }
        }
    }

    /// Handles a frame. Returns the exit status if the frame carries it.
    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<Option<Exit>, CallError> {
        match frame {
            Frame::Started { stdio, .. } if !self.is_started => self.start_streams(*stdio),
            Frame::Data { stream, data } => match self.forwarder(*stream) {
                (Some(forwarder), connection) => {
                    forwarder.forward(data, connection).map_err(protocol_error)?;
                }
                (None, _) => return Err(protocol_error("data of a stream that is not relayed")),
            },
            Frame::Closed { stream: Stream::Stdin } => {
                if let Some(stdin) = &mut self.stdin {
                    stdin.close();
                }
            }
            Frame::Closed { stream } => {
                if let (Some(forwarder), _) = self.forwarder(*stream) {
                    forwarder.finish();
                }
            }
            Frame::Credit { stream, bytes } => match stream {
                Stream::Stdin => self.stdin.as_mut().map(|stdin| stdin.add_credit(*bytes)),
                Stream::Terminal => {
                    self.terminal_input.as_mut().map(|keys| keys.add_credit(*bytes))
                }
                Stream::Stdout | Stream::Stderr => None,
            }
            .transpose()
            .map(drop)
            .map_err(protocol_error)?,
            Frame::Stopped { signal, resumed } => self.stop(*signal, *resumed)?,
            Frame::Refused { text } => self.refusals.add(text),
            Frame::Exit { exit, .. } => return Ok(Some(*exit)),
            other => {
                return Err(protocol_error(format_args!("an unexpected {:?} frame", other.kind())));
            }
        }
        Ok(None)
    }

    /// Sets up forwarding as `Started` declares it.
    fn start_streams(&mut self, stdio: [Stdio; 3]) {
        self.is_started = true;
        let [input, output, error] = StandardFd::all();
        self.is_passed = [stdio[0], stdio[1]].map(|kind| kind == Stdio::Passed);
        match stdio[0] {
            Stdio::Relayed => self.stdin = Some(StdinForwarder::for_stdin(input)),
            Stdio::Terminal => {
                let mut terminal_input = TerminalInput::new(self.output_processing);
                // The first output may follow in the same read and needs the modes to be set.
                terminal_input.try_acquire(Instant::now(), &mut self.connection);
                self.terminal_input = Some(terminal_input);
            }
            _ => {}
        }
        let relayed = |fd: StandardFd, kind: Stdio, stream| {
            (kind == Stdio::Relayed).then(|| OutputForwarder::new(stream, FdWriter::new(fd)))
        };
        let screen = self.terminal.as_ref();
        let screen = screen
            .map(|fd| OutputForwarder::new(Stream::Terminal, FdWriter::new(fd.duplicate_handle())));
        self.outputs = [
            relayed(output, stdio[1], Stream::Stdout),
            relayed(error, stdio[2], Stream::Stderr),
            screen,
        ];
    }

    /// Closes this process's copies of descriptors that were passed, so that only the tool holds
    /// them. A tool that has already ended makes this unnecessary. stderr stays open for messages
    /// of the shim.
    fn close_passed_fds(&mut self) {
        let passed = std::mem::take(&mut self.is_passed);
        let both = [StandardFd::input(), StandardFd::output()];
        let passed = both.iter().zip(passed).filter(|(_, is_passed)| *is_passed);
        StandardFd::replace_with_null(passed.map(|(fd, _)| fd));
    }

    fn read_stdin(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        if stdin.read(&mut self.connection) == ReadOutcome::End {
            stdin.stop();
            self.connection.push(&Frame::Closed { stream: Stream::Stdin });
        }
    }

    /// Writes the remaining output, restores terminal and file position, and ends as the tool did.
    fn finish(mut self, exit: &Exit) -> ShimExit {
        let killed_by = self.drain();
        if let Some(mut terminal_input) = self.terminal_input.take()
            && self.settings.returns_keys
        {
            terminal_input.give_back(exit.taken);
        }
        if let Some(stdin) = &self.stdin {
            stdin.restore_position(exit.taken);
        }
        if let Some(number) = killed_by {
            return ShimExit::Signaled(number);
        }
        self.refusals.report(exit.note);
        if let Ending::Signaled(number) = exit.ending {
            let from_keys = matches!(i32::from(number), libc::SIGINT | libc::SIGQUIT);
            if from_keys && self.was_typed(number) {
                signal_group_number(getpgrp(), number);
            }
        }
        let end = match exit.cancelled {
            Some(CancelCause::Timeout) => failure::report_time_limit(),
            _ => self.outputs.into_iter().flatten().fold(exit.ending.into(), |end, forwarder| {
                apply_output_error(end, forwarder.into_error(), self.ignored)
            }),
        };
        let interrupted = self.signals.interrupt_count() > 0;
        if interrupted && self.settings.compat.exit_zero_on_sigint {
            ShimExit::Code(0)
        } else {
            end
        }
    }

    /// Writes all output that has arrived. The tool has ended, so signals act on the shim: returns
    /// the number of one that terminates it.
    fn drain(&mut self) -> Option<u8> {
        while !self.outputs.iter().flatten().all(OutputForwarder::is_empty) {
            let [out, err, screen] =
                self.outputs.each_ref().map(|forwarder| forwarder.as_ref()?.poll_interest());
            let signals = (self.signals.as_fd(), PollFlags::POLLIN);
            let [_, ready @ ..] = poll_fds([Some(signals), out, err, screen], PollTimeout::NONE);
            for (forwarder, ready) in self.outputs.iter_mut().zip(ready) {
                if let Some(forwarder) = forwarder {
                    forwarder.handle_ready(ready, &mut self.connection);
                }
            }
            while let Some(number) = self.signals.next() {
                match i32::from(number) {
                    libc::SIGCONT | libc::SIGWINCH | libc::SIGURG => {}
                    libc::SIGTSTP => {
                        self.terminal_input.iter_mut().for_each(TerminalInput::release);
                        self.signals.stop(number);
                    }
                    _ => return Some(number),
                }
            }
        }
        None
    }

    fn forwarder(
        &mut self,
        stream: Stream,
    ) -> (Option<&mut OutputForwarder>, &mut FrameConnection) {
        let [out, err, screen] = &mut self.outputs;
        let forwarder = match stream {
            Stream::Stdin => None,
            Stream::Stdout => out.as_mut(),
            Stream::Stderr => err.as_mut(),
            Stream::Terminal => screen.as_mut(),
        };
        (forwarder, &mut self.connection)
    }
}

/// Replaces a tool's success if output was lost: the tool may have exited before it saw the closed
/// stream.
fn apply_output_error(end: ShimExit, error: Option<OutputError>, ignored: SignalSet) -> ShimExit {
    let is_success = end == ShimExit::Code(0);
    match error {
        Some(OutputError::Write(name, error)) => {
            log::line(format_args!("cannot write to {name}: {error}"));
            if is_success { ShimExit::Code(exit::UNKNOWN) } else { end }
        }
        Some(OutputError::BrokenPipe) if is_success && !ignored.contains(libc::SIGPIPE as u8) => {
            BROKEN_PIPE
        }
        Some(OutputError::BrokenPipe) | None => end,
    }
}

fn protocol_error(why: impl std::fmt::Display) -> CallError {
    CallError::Response(ResponseFailure::Malformed(why.to_string()))
}

/// Bytes that hold a few small frames.
const SMALL_READ: usize = 4 * 1024;
/// Bytes that hold one frame of maximum size.
const LARGE_READ: usize = 64 * 1024;
