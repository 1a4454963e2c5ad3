//! One tool call by protocol version 2 (`spec/toolexec.md#v2-streaming`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_process::ignore_broken_pipes;
use aifo_types::exit;
use aifo_wire::{
    CallNote, ExecCall, Limits, MessageError, ResponseEvent, ResponseHead, ResponseReader, ToolEnd,
};
use nix::poll::{PollFlags, PollTimeout};

use crate::connection::{self, SendOutcome};
use crate::failure::{self, ErrorResponse, Interrupted};
use crate::fd_writer::FdWriter;
use crate::log;
use crate::polling::poll_fds;
use crate::settings::{ProxyAddress, Settings};
use crate::shim_exit::{BROKEN_PIPE, ShimExit};
use crate::signal_forwarder::{ForwardOutcome, SignalForwarder};
use crate::standard_fd::StandardFd;

/// Runs `tool` in its sidecar and returns how it exited.
pub(crate) fn run(settings: &Settings, tool: &[u8], args: &[Vec<u8>], cwd: &Path) -> ShimExit {
    start(settings, tool, args, cwd).map_or_else(failure::report_not_started, StreamedCall::run)
}

/// A version 2 call whose request has been sent.
pub(crate) struct StreamedCall<'a> {
    settings: &'a Settings,
    proxy: &'a ProxyAddress,
    socket: OwnedFd,
    /// `None` if signals are not forwarded.
    signals: Option<SignalForwarder>,
    /// True if the last piece of output was large.
    reads_large: bool,
}

/// Connects and sends the request. On error nothing can have run.
fn start<'a>(
    settings: &'a Settings,
    tool: &[u8],
    args: &[Vec<u8>],
    cwd: &Path,
) -> Result<StreamedCall<'a>, String> {
    let proxy = settings.proxy.as_ref().map_err(Clone::clone)?;
    let id = settings.exec_id()?;
    if settings.verbose {
        let tool = String::from_utf8_lossy(tool);
        let cwd = cwd.display();
        log::verbose(format_args!("exec: tool={tool} exec_id={id} cwd={cwd}"));
    }
    let (endpoint, token) = (&proxy.endpoint, &proxy.token);
    let cwd = cwd.as_os_str().as_bytes();
    let mut request = Vec::new();
    ExecCall { endpoint, token, id: &id, tool, cwd, args }.encode(2, &mut request);
    // Catch signals before sending: from then on they belong to the tool.
    let signals = SignalForwarder::catch(proxy.clone(), id)
        .map_err(|errno| format!("cannot catch signals: {}", errno.desc()))?;
    let unreachable = |why| format!("cannot reach the proxy at {endpoint}: {why}");
    let socket = connection::open(endpoint).map_err(|error| unreachable(error.to_string()))?;
    match connection::send_request(&socket, &request) {
        // The proxy never executes a truncated request, but it may have sent an error.
        SendOutcome::Complete | SendOutcome::Partial => {
            Ok(StreamedCall::new(settings, proxy, socket.into(), Some(signals)))
        }
        SendOutcome::Nothing => Err(unreachable("it closed the connection".to_owned())),
    }
}

enum StreamError {
    Response(MessageError),
    Stdout(io::Error),
    GivenUp,
}

impl<'a> StreamedCall<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        proxy: &'a ProxyAddress,
        socket: OwnedFd,
        signals: Option<SignalForwarder>,
    ) -> Self {
        // A closed stdout must be a write error, not a signal.
        ignore_broken_pipes();
        StreamedCall { settings, proxy, socket, signals, reads_large: false }
    }

    pub(crate) fn run(mut self) -> ShimExit {
        match self.read_response() {
            Ok(end) => end,
            Err(StreamError::Response(error)) => self.report_lost(error),
            Err(StreamError::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                // The proxy sees the disconnect and ends the tool, as SIGPIPE would have.
                BROKEN_PIPE
            }
            Err(StreamError::Stdout(error)) => {
                log::line(format_args!("cannot write to stdout: {error}; the tool was terminated"));
                ShimExit::Code(exit::UNKNOWN)
            }
            Err(StreamError::GivenUp) => failure::report_no_response(),
        }
    }

    fn read_response(&mut self) -> Result<ShimExit, StreamError> {
        let mut reader = ResponseReader::new(Limits::default());
        let head = loop {
            match reader.next_event().map_err(StreamError::Response)? {
                ResponseEvent::Head(head) => break head,
                // Sent to version 3 only.
                ResponseEvent::Progress(_) | ResponseEvent::Approval(_) => {}
                _ => self.fill(&mut reader)?,
            }
        };
        if head.status == 200 { self.copy_output(reader) } else { self.read_error(reader, head) }
    }

    /// Copies the tool output to stdout, then ends as the tool did.
    fn copy_output(&mut self, mut reader: ResponseReader) -> Result<ShimExit, StreamError> {
        let mut writer = None;
        loop {
            match reader.next_event().map_err(StreamError::Response)? {
                ResponseEvent::NeedData => self.fill(&mut reader)?,
                ResponseEvent::Data(data) => {
                    self.reads_large = data.len() > SMALL_READ / 2;
                    self.write(
                        writer.get_or_insert_with(|| FdWriter::new(StandardFd::output())),
                        data,
                    )?;
                }
                ResponseEvent::Progress(_)
                | ResponseEvent::Approval(_)
                | ResponseEvent::Head(_) => {}
                ResponseEvent::End { exit_code, tool_end } => {
                    return Ok(self.exit_from(exit_code, tool_end));
                }
            }
        }
    }

    fn read_error(
        &mut self,
        mut reader: ResponseReader,
        head: ResponseHead,
    ) -> Result<ShimExit, StreamError> {
        let mut error_response = ErrorResponse::new(head);
        while !error_response.read_body(&mut reader) {
            self.fill(&mut reader)?;
        }
        Ok(error_response.report())
    }

    fn exit_from(&self, exit_code: Option<u8>, tool_end: ToolEnd) -> ShimExit {
        if self.settings.compat.exit_zero_on_sigint && self.is_interrupted() {
            return ShimExit::Code(0);
        }
        match (exit_code, tool_end) {
            (Some(code), ToolEnd::Exited) => ShimExit::Code(code),
            (Some(code), ToolEnd::Limited(limit)) => {
                failure::report_note(CallNote::Limit(limit));
                ShimExit::Code(code)
            }
            (_, ToolEnd::Unknown) => {
                log::line("lost the sidecar while the tool ran; its exit status is unknown");
                ShimExit::Code(exit::UNKNOWN)
            }
            (None, ToolEnd::Exited | ToolEnd::Limited(_)) => {
                log::line("the proxy sent no exit code; the tool's exit status is unknown");
                ShimExit::Code(exit::UNKNOWN)
            }
        }
    }

    fn report_lost(&self, error: MessageError) -> ShimExit {
        let interrupted = if self.is_interrupted() { Interrupted::Yes } else { Interrupted::No };
        failure::report_connection_lost(
            &error.into(),
            &self.proxy.endpoint,
            self.settings.compat,
            interrupted,
        )
    }

    /// Reads more of the response and forwards signals meanwhile.
    fn fill(&mut self, reader: &mut ResponseReader) -> Result<(), StreamError> {
        loop {
            let (ready, interrupted) = self.wait(self.socket.as_fd(), PollFlags::POLLIN);
            if interrupted {
                self.forward()?;
            }
            if ready {
                break;
            }
        }
        // Most responses are short; the buffer grows for long ones.
        let room = if self.reads_large { LARGE_READ } else { SMALL_READ };
        let space = reader.buffer().spare(room);
        match connection::receive(self.socket.as_fd(), space) {
            // A reset ends the response, too.
            Ok(0) | Err(_) => reader.receive_eof(),
            Ok(count) => reader.buffer().commit(count),
        }
        Ok(())
    }

    fn write(&mut self, writer: &FdWriter, data: &[u8]) -> Result<(), StreamError> {
        let mut rest = data;
        let mut must_wait = writer.needs_poll();
        while !rest.is_empty() {
            if must_wait {
                let (ready, interrupted) = self.wait(writer.as_fd(), PollFlags::POLLOUT);
                if interrupted {
                    self.forward()?;
                }
                if !ready {
                    continue;
                }
            }
            match writer.write(rest).map_err(StreamError::Stdout)? {
                Some(count) => rest = rest.get(count..).unwrap_or_default(),
                None => must_wait = true,
            }
        }
        Ok(())
    }

    /// Waits for `fd` or a signal. Returns whether each is ready.
    fn wait(&self, fd: BorrowedFd<'_>, events: PollFlags) -> (bool, bool) {
        let signals = self.signals.as_ref().map(|it| (it.as_fd(), PollFlags::POLLIN));
        let [fd, signals] = poll_fds([Some((fd, events)), signals], PollTimeout::NONE);
        (!fd.is_empty(), !signals.is_empty())
    }

    fn forward(&mut self) -> Result<(), StreamError> {
        match self.signals.as_mut().map(SignalForwarder::forward) {
            None | Some(ForwardOutcome::Wait) => Ok(()),
            Some(ForwardOutcome::GiveUp) => Err(StreamError::GivenUp),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.signals.as_ref().is_some_and(SignalForwarder::is_interrupted)
    }
}

/// Bytes that hold the head and end of a response.
const SMALL_READ: usize = 4 * 1024;
/// Bytes that hold one chunk of maximum size.
const LARGE_READ: usize = 64 * 1024;
