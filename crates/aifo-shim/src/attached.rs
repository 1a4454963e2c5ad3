//! One tool call by protocol version 3 (`spec/exec3.md#request`).

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::{fmt, io};

use aifo_decide::ToolCall;
use aifo_policy::Forwarding;
use aifo_process::kernel::{Fd, standard_fds};
use aifo_process::{
    SendMode, SignalSet, ignore_broken_pipes, ignored_signals, send_with_fds, terminal,
};
use aifo_types::{Endpoint, ExecRequest, Stdio, TerminalSettings, ToolName};
use aifo_wire::{Limits, MessageError, ResponseEvent, ResponseReader, Upgrade};
use nix::errno::Errno;

use crate::connection::{self, SendOutcome};
use crate::descriptors::{self, FdTransport};
use crate::failure::{self, ErrorResponse};
use crate::frame_connection::FrameConnection;
use crate::inherited;
use crate::log;
use crate::relay::{CallError, Relay};
use crate::settings::{ProxyAddress, Settings};
use crate::shim_exit::ShimExit;
use crate::signals::Signals;
use crate::standard_fd::StandardFd;
use crate::terminal_input::{OutputProcessing, without_output_processing};

#[derive(Debug)]
pub(crate) enum CallOutcome {
    Done(ShimExit),
    /// The proxy does not support version 3; nothing ran.
    VersionRefused,
}

/// A call whose request has been sent.
#[derive(Debug)]
pub(crate) struct SentCall {
    pub(crate) socket: Fd,
    pub(crate) signals: Signals,
    ignored: SignalSet,
    /// The descriptors as declared.
    pub(crate) stdio: [Stdio; 3],
}

/// Why a call was not sent. Nothing has run.
#[derive(Debug)]
pub(crate) enum NotSent {
    /// The request cannot be made.
    Invalid(String),
    /// Signals cannot be caught.
    Signals(Errno),
    /// The proxy cannot be reached, or closed the connection.
    Unreachable(Endpoint, Option<io::Error>),
}

/// Runs a call in its sidecar. `closed` are the standard descriptors that the parent left closed.
pub(crate) fn run(settings: &Settings, call: &ToolCall<'_>, closed: [bool; 3]) -> CallOutcome {
    let ignored = SignalSet::from_bits(ignored_signals());
    ignore_broken_pipes();
    let environment = aifo_process::environment();
    let sent = request(settings, call, &environment, ignored).map_err(NotSent::Invalid).and_then(
        |request| {
            let proxy = settings.proxy.as_ref().map_err(|why| NotSent::Invalid(why.clone()))?;
            if settings.verbose {
                let ExecRequest { id, tool, .. } = &request;
                let cwd = String::from_utf8_lossy(request.cwd.as_deref().unwrap_or_default());
                log::verbose(format_args!("exec: tool={tool} exec_id={id} cwd={cwd}"));
            }
            let transport = match proxy.endpoint {
                Endpoint::Unix(_) if !settings.relay_only => FdTransport::Pass,
                Endpoint::Unix(_) | Endpoint::Tcp { .. } => FdTransport::Relay,
            };
            let stdio = descriptors::classify(standard_fds(), closed, transport);
            let start = Start { proxy, ignored, connect: connection::open, describe_terminal };
            start.send(request, stdio)
        },
    );
    match sent {
        Ok(sent) => carry_on(settings, sent, &[]),
        Err(why) => CallOutcome::Done(failure::report_not_started(why)),
    }
}

/// Builds the request, without descriptors. `environment` is the caller's.
///
/// May run before the C library starts.
pub(crate) fn request(
    settings: &Settings,
    call: &ToolCall<'_>,
    environment: &[&[u8]],
    ignored: SignalSet,
) -> Result<ExecRequest, String> {
    let tool = ToolName::parse(call.tool).map_err(|invalid| invalid.to_string())?;
    let forwarding = Forwarding::with_additions(&settings.extra_variables);
    let workspace: Vec<_> = settings.decide.workspace_paths().cloned().collect();
    // The proxy filters them again.
    let forwarded = forwarding.filter(environment.iter().copied(), &workspace);
    Ok(ExecRequest {
        id: settings.exec_id()?,
        tool,
        program: call.program.map(|path| path.as_os_str().as_bytes().to_vec()),
        args: call.args.to_vec(),
        cwd: Some(inherited::directory(call.cwd.as_os_str().as_bytes(), environment)),
        inherited: inherited::attributes(forwarded, ignored),
        no_network: None,
        cwd_id: None,
    })
}

/// The start of a call. Without `connect` and `describe_terminal` it needs no C library.
pub(crate) struct Start<'a> {
    pub(crate) proxy: &'a ProxyAddress,
    pub(crate) ignored: SignalSet,
    pub(crate) connect: fn(&Endpoint) -> io::Result<Fd>,
    /// Returns the settings of the caller terminal, if a descriptor is one.
    pub(crate) describe_terminal: fn([Stdio; 3]) -> Option<TerminalSettings>,
}

impl Start<'_> {
    /// Catches signals, connects and sends the request. `stdio` are the descriptors 0, 1 and 2. On
    /// error nothing can have run.
    pub(crate) fn send(
        self,
        mut request: ExecRequest,
        mut stdio: [Stdio; 3],
    ) -> Result<SentCall, NotSent> {
        let Start { proxy: ProxyAddress { endpoint, token }, ignored, .. } = self;
        // Catch signals before sending: from then on they belong to the tool.
        let signals = Signals::catch(ignored).map_err(NotSent::Signals)?;
        let unreachable = |why| NotSent::Unreachable(endpoint.clone(), why);
        let socket = (self.connect)(endpoint).map_err(|error| unreachable(Some(error)))?;
        let fds = standard_fds();
        loop {
            request.inherited.stdio = stdio;
            request.inherited.terminal = (self.describe_terminal)(stdio);
            let mut bytes = Vec::new();
            Upgrade { endpoint, token, request: &request }.encode(&mut bytes);
            match send(&socket, &bytes, &descriptors::passed(fds, stdio)) {
                // The proxy never executes a truncated request, but it may have sent an error.
                Ok(SendOutcome::Complete | SendOutcome::Partial) => {
                    return Ok(SentCall { socket, signals, ignored, stdio });
                }
                Ok(SendOutcome::Nothing) => return Err(unreachable(None)),
                Err(CannotPassFds) => {
                    let closed = stdio.map(|kind| kind == Stdio::Closed);
                    stdio = descriptors::classify(fds, closed, FdTransport::Relay);
                }
            }
        }
    }
}

fn describe_terminal(stdio: [Stdio; 3]) -> Option<TerminalSettings> {
    let fd = descriptors::terminal(standard_fds(), stdio)?;
    let mut settings = inherited::describe_terminal(fd);
    if terminal::is_background(fd) {
        // A shell that edits its next line has changed them.
        settings.modes = terminal::line_edited(settings.modes);
    }
    if output_processing(stdio) == OutputProcessing::Local {
        settings.modes = without_output_processing(settings.modes);
    }
    Some(settings)
}

/// Carries on a call whose request has been sent. `received` are the bytes that the connection has
/// received.
pub(crate) fn carry_on(settings: &Settings, sent: SentCall, received: &[u8]) -> CallOutcome {
    let proxy = match &settings.proxy {
        Ok(proxy) => proxy,
        Err(why) => return CallOutcome::Done(failure::report_not_started(why)),
    };
    let SentCall { socket, signals, ignored, stdio } = sent;
    let terminal = descriptors::terminal(StandardFd::all(), stdio);
    let relay = Relay::new(
        settings,
        proxy,
        FrameConnection::new(socket.into()),
        (signals, ignored),
        (terminal, output_processing(stdio)),
    );
    await_response(relay, settings.shows_progress, received)
}

fn output_processing(stdio: [Stdio; 3]) -> OutputProcessing {
    match stdio {
        [Stdio::Terminal, Stdio::Terminal, _] => OutputProcessing::Remote,
        _ => OutputProcessing::Local,
    }
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSent::Invalid(why) => f.write_str(why),
            NotSent::Signals(errno) => write!(f, "cannot catch signals: {}", errno.desc()),
            NotSent::Unreachable(endpoint, Some(error)) => {
                write!(f, "cannot reach the proxy at {endpoint}: {error}")
            }
            NotSent::Unreachable(endpoint, None) => {
                write!(f, "cannot reach the proxy at {endpoint}: it closed the connection")
            }
        }
    }
}

/// The kernel refused to pass the descriptors, for example with too many in flight. Nothing was
/// sent.
struct CannotPassFds;

fn send(socket: &Fd, request: &[u8], fds: &[BorrowedFd<'_>]) -> Result<SendOutcome, CannotPassFds> {
    loop {
        match send_with_fds(socket.as_fd(), request, fds, SendMode::Blocking) {
            Ok(count) if count == request.len() => return Ok(SendOutcome::Complete),
            Ok(count) => {
                let rest = request.get(count..).unwrap_or_default();
                return Ok(match connection::send_request(socket, rest) {
                    SendOutcome::Complete => SendOutcome::Complete,
                    SendOutcome::Partial | SendOutcome::Nothing => SendOutcome::Partial,
                });
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EPIPE | Errno::ECONNRESET | Errno::ENOTCONN) => {
                return Ok(SendOutcome::Nothing);
            }
            Err(_) if fds.is_empty() => return Ok(SendOutcome::Nothing),
            Err(_) => return Err(CannotPassFds),
        }
    }
}

/// Waits for the response, and relays the call once the tool has started.
fn await_response(mut relay: Relay<'_>, shows_progress: bool, received: &[u8]) -> CallOutcome {
    let mut reader = ResponseReader::new(Limits::default());
    reader.receive(received);
    let mut error_response: Option<ErrorResponse> = None;
    let mut progress = None;
    loop {
        match &mut error_response {
            Some(error_response) => {
                if error_response.read_body(&mut reader) {
                    return CallOutcome::Done(error_response.report());
                }
            }
            None => match reader.next_event() {
                Ok(ResponseEvent::Progress(text)) => {
                    // Before the new one is shown.
                    drop(progress.take());
                    progress = shows_progress.then(|| log::Progress::show(&text)).flatten();
                    continue;
                }
                Ok(ResponseEvent::Approval(call)) => {
                    drop(progress.take());
                    log::waits_for_approval(&call);
                    continue;
                }
                Ok(ResponseEvent::Head(head)) => match head.status {
                    101 => {
                        drop(progress);
                        return CallOutcome::Done(relay.run(&reader.take_rest()));
                    }
                    426 => {
                        relay.signals.raise_again();
                        return CallOutcome::VersionRefused;
                    }
                    _ => {
                        drop(progress.take());
                        error_response = Some(ErrorResponse::new(head));
                        continue;
                    }
                },
                Ok(_) => {}
                Err(error) => {
                    drop(progress);
                    return CallOutcome::Done(relay.abort(&error.into()));
                }
            },
        }
        if let Err(broken) = relay.wait_for_response() {
            drop(progress);
            return CallOutcome::Done(relay.abort(&broken));
        }
        match relay.connection.receive(reader.buffer().spare(SMALL_READ)) {
            // A reset ends the response, too.
            Ok(0) | Err(_) => reader.receive_eof(),
            Ok(count) => reader.buffer().commit(count),
        }
    }
}

impl From<MessageError> for CallError {
    fn from(error: MessageError) -> Self {
        CallError::Response(error.into())
    }
}

/// Bytes that hold the head of a response, and all frames of a short call.
const SMALL_READ: usize = 4 * 1024;
