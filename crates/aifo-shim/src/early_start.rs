//! The early start of a call, before the C library starts (`spec/shim.md#early-start`).
//!
//! Until [`begin`] returns there is no C library: code that runs here makes system calls by
//! [`kernel`] only, allocates from a fixed arena, and must neither panic nor use thread-local
//! storage. The functions that build and send the request are those of every call.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use aifo_decide::{ToolCall, goes_to_proxy, has_interpreter_name};
use aifo_process::kernel::Fd;
use aifo_process::{InitialStack, SignalSet, ignored_signals, kernel};
use aifo_types::{Endpoint, Stdio, env};
use aifo_wire::{ShortAnswer, parse_short_answer};

use nix::errno::Errno;

use crate::attached::{self, SentCall, Start};
use crate::descriptors::{self, FdTransport};
use crate::in_place::{self, InPlaceCall, SentQuestion};
use crate::settings::{Protocol, Settings};
use crate::variables::Variables;

/// A call that was begun before the C library started, and has not ended.
#[derive(Debug)]
pub(crate) struct BegunCall {
    pub(crate) settings: Settings,
    pub(crate) sent: SentCall,
    /// The bytes that the connection has received.
    pub(crate) received: Vec<u8>,
}

static BEGUN: Mutex<Option<BegunCall>> = Mutex::new(None);
static SENT_QUESTION: Mutex<Option<SentQuestion>> = Mutex::new(None);

/// Begins the call, and ends this process if it is a short one. Returns if the program must start as
/// usual, with [`take`] to carry on a call that was begun.
pub(crate) fn begin(stack: &InitialStack) {
    let InitialStack { args, environment, executed_path: link } = stack;
    if in_place::is_in_place(link) {
        let sent = in_place::begin(&InPlaceCall { args, environment, link });
        if let (Some(sent), Ok(mut slot)) = (sent, SENT_QUESTION.lock()) {
            *slot = Some(sent);
        }
        return;
    }
    if let Some(begun) = send(stack).and_then(await_short_answer)
        && let Ok(mut slot) = BEGUN.lock()
    {
        *slot = Some(begun);
    }
}

/// Returns the call that was begun.
pub(crate) fn take() -> Option<BegunCall> {
    BEGUN.lock().ok()?.take()
}

/// Returns the question about a call in place that was sent.
pub(crate) fn take_question() -> Option<SentQuestion> {
    SENT_QUESTION.lock().ok()?.take()
}

/// Sends the request. Returns `None`, with the process as it was, if the call is not a plain one or
/// was not sent.
fn send(stack: &InitialStack) -> Option<BegunCall> {
    let (first, args) = stack.args.split_first()?;
    let called = Path::new(OsStr::from_bytes(first));
    let executed = Path::new(OsStr::from_bytes(stack.executed_path));
    let tool = called.file_name()?.as_bytes();
    if tool.starts_with(b"aifo-") || has_interpreter_name(called) || has_interpreter_name(executed)
    {
        return None;
    }
    let variables = Variables::of(&stack.environment);
    // Otherwise a file is read.
    variables.text(env::URL)?;
    variables.text(env::TOKEN)?;
    let settings = Settings::from_variables(tool, &variables);
    let is_plain = settings.protocol == Protocol::V3 && !settings.verbose && !settings.relay_only;
    if !is_plain || !goes_to_proxy(tool, &settings.decide) {
        return None;
    }
    let proxy = settings.proxy.as_ref().ok()?;
    if matches!(proxy.endpoint, Endpoint::Tcp { .. }) {
        return None;
    }
    let stdio = descriptors::classify(kernel::standard_fds(), [false; 3], FdTransport::Pass);
    if stdio.iter().any(|kind| matches!(kind, Stdio::Closed | Stdio::Terminal)) {
        return None;
    }
    let cwd = kernel::current_directory().ok().filter(|cwd| cwd.starts_with(b"/"))?;
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
    let cwd = Path::new(OsStr::from_bytes(&cwd));
    let call = ToolCall { tool, program: None, args: &args, cwd };
    let ignored = SignalSet::from_bits(ignored_signals());
    let request = attached::request(&settings, &call, &stack.environment, ignored).ok()?;
    let mask = SignalSet::default().block().ok()?;
    let start = Start { proxy, ignored, connect, describe_terminal: |_| None };
    match start.send(request, stdio) {
        Ok(sent) => Some(BegunCall { settings, sent, received: Vec::new() }),
        Err(_) => {
            let _ = mask.restore();
            None
        }
    }
}

/// Connects to a unix socket. Errors: its path has more than 107 bytes.
fn connect(endpoint: &Endpoint) -> io::Result<Fd> {
    let Endpoint::Unix(path) = endpoint else { return Err(Errno::EAFNOSUPPORT.into()) };
    Ok(kernel::connect_unix(path.as_os_str().as_bytes())?)
}

/// Ends this process as the tool did, if that is all that there is to do. Returns a call that needs
/// more.
fn await_short_answer(mut begun: BegunCall) -> Option<BegunCall> {
    let fds = kernel::standard_fds();
    let mut is_started = false;
    if begun.sent.stdio.contains(&Stdio::Relayed) {
        // The C library starts while the proxy works.
        return Some(begun);
    }
    loop {
        let SentCall { socket, signals, .. } = &begun.sent;
        let [readable, signalled] = kernel::wait_readable([socket.as_fd(), signals.as_fd()]);
        if signalled {
            return Some(begun);
        }
        if !readable {
            continue;
        }
        let mut buffer = [0; READ];
        match kernel::read(socket.as_fd(), &mut buffer) {
            // The next read finds the same.
            Ok(0) | Err(_) => return Some(begun),
            Ok(count) => begun.received.extend(buffer.iter().take(count)),
        }
        match parse_short_answer(&begun.received) {
            ShortAnswer::Exited(code) => kernel::exit(code),
            ShortAnswer::Incomplete { started: Some([input, output, _]) } if !is_started => {
                is_started = true;
                // Only the tool holds them from now on. stderr stays open for messages of the shim.
                let passed = fds.into_iter().zip([input, output]);
                let passed = passed.filter(|(_, kind)| *kind == Stdio::Passed);
                kernel::replace_with_null(passed.map(|(fd, _)| fd));
            }
            ShortAnswer::Incomplete { .. } => {}
            ShortAnswer::Other => return Some(begun),
        }
    }
}

/// Bytes that hold the whole answer to a short call.
const READ: usize = 512;
