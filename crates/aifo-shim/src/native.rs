//! One tool call by version 3 (`spec/exec3.md#request`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use aifo_policy::Forwarding;
use aifo_process::{SendMode, SignalSet, ignore_broken_pipes, ignored_signals, send_with_fds};
use aifo_types::Endpoint;
use aifo_wire::{Invocation, Limits, ResponseError, ResponseEvent, ResponseReader, Stdio, Upgrade};
use nix::errno::Errno;

use crate::connection::{self, Sent};
use crate::descriptors::{self, Way};
use crate::ending::ShimEnd;
use crate::inherited;
use crate::keyboard::{Output, without_line_ends};
use crate::line::Line;
use crate::loss::{self, Refusal};
use crate::relay::{Broken, Relay};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::standard::Standard;
use crate::tell;

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// It was carried to its end.
    Ended(ShimEnd),
    /// The proxy does not speak version 3, and nothing ran.
    TooNew,
}

/// Runs `tool` in its sidecar. `closed` are the standard descriptors that our parent left closed.
pub(crate) fn run(
    settings: &Settings,
    tool: &[u8],
    args: &[Vec<u8>],
    cwd: &Path,
    closed: [bool; 3],
) -> Attempt {
    let ignored = SignalSet::from_bits(ignored_signals());
    ignore_broken_pipes();
    let argv = [tool.to_vec()].into_iter().chain(args.iter().cloned()).collect();
    let forwarding = Forwarding::with_additions(&settings.forwarded);
    let environment = inherited::environment(&forwarding, &settings.decide.workspace);
    let invocation = inherited::invocation(argv, cwd, environment, ignored);
    match start(settings, invocation, ignored, closed) {
        Ok(relay) => answer(relay),
        Err(why) => Attempt::Ended(loss::nothing_ran(why)),
    }
}

/// Everything up to the last byte of the request. The error says why nothing can have run.
fn start<'a>(
    settings: &'a Settings,
    mut invocation: Invocation,
    ignored: SignalSet,
    closed: [bool; 3],
) -> Result<Relay<'a>, String> {
    let proxy = settings.proxy.as_ref().map_err(Clone::clone)?;
    let (endpoint, token, id) = (&proxy.endpoint, &proxy.token, &settings.exec_id()?);
    if settings.verbose {
        let tool = String::from_utf8_lossy(invocation.argv.first().map_or(&[], Vec::as_slice));
        let cwd = String::from_utf8_lossy(invocation.cwd.as_deref().unwrap_or_default());
        tell::line(format_args!("exec: tool={tool} exec_id={id} cwd={cwd}"));
    }
    // Before anything is sent: from then on a signal is the tool's.
    let signals = Signals::catch(ignored)
        .map_err(|errno| format!("cannot catch signals: {}", errno.desc()))?;
    let unreachable = |why| format!("cannot reach the proxy at {endpoint}: {why}");
    let socket = connection::open(endpoint).map_err(|error| unreachable(error.to_string()))?;

    let standard = Standard::all();
    let fds = standard.each_ref().map(AsFd::as_fd);
    let mut way = match endpoint {
        Endpoint::Unix(_) if !settings.relays => Way::Passing,
        Endpoint::Unix(_) | Endpoint::Tcp { .. } => Way::Relaying,
    };
    loop {
        let stdio = descriptors::classify(fds, closed, way);
        let output = match stdio {
            [Stdio::Terminal, Stdio::Terminal, _] => Output::There,
            _ => Output::Here,
        };
        let terminal = descriptors::terminal(Standard::all(), stdio);
        invocation.stdio = stdio;
        invocation.terminal = terminal.as_ref().map(|fd| {
            let mut terminal = inherited::describe(fd.as_fd());
            if output == Output::Here {
                terminal.modes = without_line_ends(terminal.modes);
            }
            terminal
        });
        let mut request = Vec::new();
        Upgrade { endpoint, token, id, invocation: &invocation }.encode(&mut request);
        match send(&socket, &request, &descriptors::passed(fds, stdio)) {
            // What was cut off is never executed, but there may be a reason to read.
            Ok(Sent::All | Sent::Part) => {
                let (line, signals) = (Line::new(socket), (signals, ignored));
                return Ok(Relay::new(settings, proxy, line, signals, (terminal, output)));
            }
            Ok(Sent::Nothing) => return Err(unreachable("it closed the connection".to_owned())),
            Err(CannotPass) => way = Way::Relaying,
        }
    }
}

/// The kernel does not let these descriptors travel, as many as are on their way already. Nothing
/// was sent.
struct CannotPass;

fn send(socket: &OwnedFd, request: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Sent, CannotPass> {
    loop {
        match send_with_fds(socket.as_fd(), request, fds, SendMode::Blocking) {
            Ok(count) if count == request.len() => return Ok(Sent::All),
            Ok(count) => {
                let rest = request.get(count..).unwrap_or_default();
                return Ok(match connection::send_request(socket, rest) {
                    Sent::All => Sent::All,
                    Sent::Part | Sent::Nothing => Sent::Part,
                });
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EPIPE | Errno::ECONNRESET | Errno::ENOTCONN) => return Ok(Sent::Nothing),
            Err(_) if fds.is_empty() => return Ok(Sent::Nothing),
            Err(_) => return Err(CannotPass),
        }
    }
}

/// Waits for the answer, and carries the call on if the tool has started.
fn answer(mut relay: Relay<'_>) -> Attempt {
    let mut reader = ResponseReader::new(Limits::default());
    let mut refusal: Option<Refusal> = None;
    loop {
        match &mut refusal {
            Some(refusal) => {
                if refusal.is_complete(&mut reader) {
                    return Attempt::Ended(refusal.tell());
                }
            }
            None => match reader.next_event() {
                Ok(ResponseEvent::Progress(text)) => {
                    tell::progress(&text);
                    continue;
                }
                Ok(ResponseEvent::Head(head)) => match head.status {
                    101 => return Attempt::Ended(relay.follow(&reader.take_rest())),
                    426 => {
                        relay.signals.give_back();
                        return Attempt::TooNew;
                    }
                    _ => {
                        refusal = Some(Refusal::new(head));
                        continue;
                    }
                },
                Ok(_) => {}
                Err(error) => return Attempt::Ended(relay.stop_short(&error.into())),
            },
        }
        if let Err(broken) = relay.wait_for_answer() {
            return Attempt::Ended(relay.stop_short(&broken));
        }
        match relay.line.receive(reader.buffer().spare(GLANCE)) {
            // A reset is an end as well: what was to come does not.
            Ok(0) | Err(_) => reader.receive_eof(),
            Ok(count) => reader.buffer().commit(count),
        }
    }
}

impl From<ResponseError> for Broken {
    fn from(error: ResponseError) -> Self {
        Broken::Lost(error.into())
    }
}

/// Enough for the head of an answer, and for a whole call of a short one.
const GLANCE: usize = 4 * 1024;
