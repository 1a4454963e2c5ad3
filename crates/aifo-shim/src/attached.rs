//! One tool call by protocol version 3 (`spec/exec3.md#request`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use aifo_decide::ToolCall;
use aifo_policy::Forwarding;
use aifo_process::{
    SendMode, SignalSet, ignore_broken_pipes, ignored_signals, send_with_fds, terminal,
};
use aifo_types::{Endpoint, ExecRequest, Stdio, ToolName};
use aifo_wire::{Limits, MessageError, ResponseEvent, ResponseReader, Upgrade};
use nix::errno::Errno;

use crate::connection::{self, SendOutcome};
use crate::descriptors::{self, FdTransport};
use crate::failure::{self, ErrorResponse};
use crate::frame_connection::FrameConnection;
use crate::inherited;
use crate::log;
use crate::relay::{CallError, Relay};
use crate::settings::Settings;
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

/// Runs a call in its sidecar. `closed` are the standard descriptors that the parent left closed.
pub(crate) fn run(settings: &Settings, call: &ToolCall<'_>, closed: [bool; 3]) -> CallOutcome {
    let ignored = SignalSet::from_bits(ignored_signals());
    ignore_broken_pipes();
    let started = request(settings, call, ignored)
        .and_then(|request| start(settings, request, ignored, closed));
    match started {
        Ok(relay) => await_response(relay, settings.shows_progress),
        Err(why) => CallOutcome::Done(failure::report_not_started(why)),
    }
}

/// Builds the request, without descriptors.
fn request(
    settings: &Settings,
    call: &ToolCall<'_>,
    ignored: SignalSet,
) -> Result<ExecRequest, String> {
    let tool = ToolName::parse(call.tool).map_err(|invalid| invalid.to_string())?;
    let forwarding = Forwarding::with_additions(&settings.extra_variables);
    let workspace: Vec<_> = settings.decide.workspace_paths().cloned().collect();
    let environment = inherited::environment(&forwarding, &workspace);
    Ok(ExecRequest {
        id: settings.exec_id()?,
        tool,
        program: call.program.map(|path| path.as_os_str().as_bytes().to_vec()),
        args: call.args.to_vec(),
        cwd: Some(inherited::directory(call.cwd)),
        inherited: inherited::attributes(environment, ignored),
    })
}

/// Connects and sends the request. On error nothing can have run.
fn start<'a>(
    settings: &'a Settings,
    mut request: ExecRequest,
    ignored: SignalSet,
    closed: [bool; 3],
) -> Result<Relay<'a>, String> {
    let proxy = settings.proxy.as_ref().map_err(Clone::clone)?;
    let (endpoint, token) = (&proxy.endpoint, &proxy.token);
    if settings.verbose {
        let ExecRequest { id, tool, .. } = &request;
        let cwd = String::from_utf8_lossy(request.cwd.as_deref().unwrap_or_default());
        log::verbose(format_args!("exec: tool={tool} exec_id={id} cwd={cwd}"));
    }
    // Catch signals before sending: from then on they belong to the tool.
    let signals = Signals::catch(ignored)
        .map_err(|errno| format!("cannot catch signals: {}", errno.desc()))?;
    let unreachable = |why| format!("cannot reach the proxy at {endpoint}: {why}");
    let socket = connection::open(endpoint).map_err(|error| unreachable(error.to_string()))?;

    let standard = StandardFd::all();
    let fds = standard.each_ref().map(AsFd::as_fd);
    let mut transport = match endpoint {
        Endpoint::Unix(_) if !settings.relay_only => FdTransport::Pass,
        Endpoint::Unix(_) | Endpoint::Tcp { .. } => FdTransport::Relay,
    };
    loop {
        let stdio = descriptors::classify(fds, closed, transport);
        let processing = match stdio {
            [Stdio::Terminal, Stdio::Terminal, _] => OutputProcessing::Remote,
            _ => OutputProcessing::Local,
        };
        let caller = descriptors::terminal(StandardFd::all(), stdio);
        request.inherited.stdio = stdio;
        request.inherited.terminal = caller.as_ref().map(|fd| {
            let mut settings = inherited::describe_terminal(fd.as_fd());
            if terminal::is_background(fd.as_fd()) {
                // A shell that edits its next line has changed them.
                settings.modes = terminal::line_edited(settings.modes);
            }
            if processing == OutputProcessing::Local {
                settings.modes = without_output_processing(settings.modes);
            }
            settings
        });
        let mut bytes = Vec::new();
        Upgrade { endpoint, token, request: &request }.encode(&mut bytes);
        match send(&socket, &bytes, &descriptors::passed(fds, stdio)) {
            // The proxy never executes a truncated request, but it may have sent an error.
            Ok(SendOutcome::Complete | SendOutcome::Partial) => {
                let (connection, signals) = (FrameConnection::new(socket), (signals, ignored));
                return Ok(Relay::new(settings, proxy, connection, signals, (caller, processing)));
            }
            Ok(SendOutcome::Nothing) => {
                return Err(unreachable("it closed the connection".to_owned()));
            }
            Err(CannotPassFds) => transport = FdTransport::Relay,
        }
    }
}

/// The kernel refused to pass the descriptors, for example with too many in flight. Nothing was
/// sent.
struct CannotPassFds;

fn send(
    socket: &OwnedFd,
    request: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<SendOutcome, CannotPassFds> {
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
fn await_response(mut relay: Relay<'_>, shows_progress: bool) -> CallOutcome {
    let mut reader = ResponseReader::new(Limits::default());
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
