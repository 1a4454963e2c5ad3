//! Reads a request and makes all checks that are not policy.
//!
//! The order of the checks is part of the protocol (`spec/toolexec.md#order-of-checks`): no error
//! before authentication depends on tools, and the body is read after the version is checked.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use aifo_types::{ExecId, ExecRequest, Refusal, Signal, Token, ToolName};
use aifo_wire::{
    CONTINUE, ClientMode, Form, Limits, MAX_INVOCATION, MessageError, RequestEvent, RequestHead,
    RequestReader, Version, count_strings, parse_invocation,
};
use nix::errno::Errno;
use tokio::time::{Instant, timeout_at};

use crate::budget::{Budget, Share, Use};
use crate::client::Client;
use crate::pending::PendingGuard;
use crate::request_memory::{count_pairs, parsed_memory, reserve};

/// A checked request.
#[derive(Debug)]
pub(crate) enum ClientCall {
    /// Run a tool.
    Exec {
        request: ExecRequest,
        /// The id, if the client chose it, for the response.
        echo: Option<ExecId>,
        mode: ResponseMode,
    },
    /// Run a tool on the client descriptors, version 3.
    Attach { request: ExecRequest, echo: Option<ExecId>, upgrade: Upgrade },
    /// Judge a call that its client runs itself.
    Judge { request: ExecRequest, echo: Option<ExecId> },
    /// Run a notification command on the host.
    Notify { id: ExecId, command: Vec<u8>, args: Vec<Vec<u8>>, mode: ClientMode },
    /// Deliver a signal.
    Signal { id: ExecId, signal: Signal },
}

/// The further parts of a version 3 request.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// As many descriptors as the request passes.
    pub(crate) fds: Vec<OwnedFd>,
    /// Frames that were sent together with the request.
    pub(crate) received: Vec<u8>,
}

/// How a response carries the tool output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseMode {
    /// Version 1: all output when the tool has ended.
    Buffered,
    /// Version 2: chunks while the tool runs.
    Streamed,
}

/// Why a request is not a call.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// The client gets this refusal.
    Refused(Refusal, UnreadInput),
    /// The client has disconnected.
    Disconnected,
}

/// Input that a refused client may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnreadInput {
    /// The request was read completely.
    None,
    /// More input may follow.
    Some,
}

/// Reads one request of the connection that `guard` stands for. `new_id` makes an id for a client that
/// sent none. Also returns the memory of the call, which must be kept until its tool has started.
pub(crate) async fn read_call(
    client: &Client,
    guard: &PendingGuard,
    memory: &Arc<Budget>,
    token: &Token,
    limits: &Limits,
    new_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<(ClientCall, Share), RequestFailure> {
    let reader = RequestReader::new(limits.clone());
    let mut input = RequestInput { client, reader, fds: Vec::new(), memory: memory.share(), guard };
    let head = input.head(limits.head_timeout).await?;
    let refused = |refusal| RequestFailure::Refused(refusal, UnreadInput::Some);
    let target = RequestTarget::of(&head).map_err(refused)?;
    authenticate(&head, token).map_err(refused)?;
    let format = version(&head, target).map_err(refused)?;
    if format.is_invocation() {
        input.reader.set_body_limit(MAX_INVOCATION);
    }
    let body = input.body(&head, limits.body_stall).await?;
    let received = input.reader.take_rest();
    let unread = |refusal| RequestFailure::Refused(refusal, UnreadInput::None);
    let strings = match format {
        BodyFormat::Upgrade | BodyFormat::Judge => count_strings(&body),
        BodyFormat::Form(_) => count_pairs(&body),
    };
    let parsed = parsed_memory(&body, strings).saturating_add(received.capacity());
    let needed = parsed.saturating_add(body.capacity());
    reserve(&mut input.memory, needed, guard).await.map_err(unread)?;
    let RequestInput { fds, mut memory, .. } = input;
    let mode = match format {
        BodyFormat::Upgrade | BodyFormat::Judge => {
            let upgrade = Upgrade { fds, received };
            let call = invocation_call(&head, &body, (target, upgrade), new_id).map_err(unread)?;
            drop(body);
            memory.try_resize(parsed, Use::All);
            return Ok((call, memory));
        }
        _ if !fds.is_empty() => return Err(unread(unexpected_descriptors())),
        BodyFormat::Form(mode) => mode,
    };
    let form = aifo_wire::decode_form(&body);
    let call = match target {
        // A question has an invocation instead of a form.
        RequestTarget::Exec | RequestTarget::Judge => exec_call(&head, &form, mode, new_id),
        RequestTarget::Notify => notify_call(&form, new_id),
        RequestTarget::Signal => signal_call(&form),
    };
    let call = call.map_err(unread)?;
    drop((form, body));
    memory.try_resize(parsed, Use::All);
    Ok((call, memory))
}

/// The body's format, by the protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyFormat {
    /// A form.
    Form(ResponseMode),
    /// An invocation; frames follow.
    Upgrade,
    /// An invocation alone.
    Judge,
}

impl BodyFormat {
    fn is_invocation(self) -> bool {
        matches!(self, BodyFormat::Upgrade | BodyFormat::Judge)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestTarget {
    Exec,
    Judge,
    Notify,
    Signal,
}

impl RequestTarget {
    fn of(head: &RequestHead) -> Result<Self, Refusal> {
        let target = match head.path() {
            "/exec" => RequestTarget::Exec,
            "/judge" => RequestTarget::Judge,
            "/notify" => RequestTarget::Notify,
            "/signal" => RequestTarget::Signal,
            _ => return Err(Refusal::NotFound),
        };
        if head.method == "POST" { Ok(target) } else { Err(Refusal::MethodNotAllowed) }
    }
}

fn authenticate(head: &RequestHead, token: &Token) -> Result<(), Refusal> {
    match head.header("authorization") {
        Some(credentials) if token.authorizes(credentials) => Ok(()),
        _ => Err(Refusal::Unauthorized),
    }
}

fn version(head: &RequestHead, target: RequestTarget) -> Result<BodyFormat, Refusal> {
    let buffered = BodyFormat::Form(ResponseMode::Buffered);
    // HTTP/1.0 has neither chunks nor upgrades.
    let modern = head.version == Version::Http11;
    match (target, head.header("x-aifo-proto")) {
        (RequestTarget::Notify, Some(b"2" | b"3")) => Ok(buffered),
        (RequestTarget::Notify, _) => Err(Refusal::UnsupportedNotifyProtocol),
        (RequestTarget::Judge, Some(b"3")) if modern => Ok(BodyFormat::Judge),
        (RequestTarget::Judge, _) => Err(Refusal::UnsupportedProtocol),
        (_, Some(b"1")) | (RequestTarget::Signal, Some(b"2" | b"3")) => Ok(buffered),
        (RequestTarget::Exec, Some(b"2")) if modern => Ok(BodyFormat::Form(ResponseMode::Streamed)),
        (RequestTarget::Exec, Some(b"3")) if modern && requests_upgrade(head) => {
            Ok(BodyFormat::Upgrade)
        }
        _ => Err(Refusal::UnsupportedProtocol),
    }
}

fn requests_upgrade(head: &RequestHead) -> bool {
    head.header("upgrade").is_some_and(|name| name.eq_ignore_ascii_case(b"aifo-exec"))
}

fn invocation_call(
    head: &RequestHead,
    body: &[u8],
    (target, upgrade): (RequestTarget, Upgrade),
    new_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<ClientCall, Refusal> {
    let bad = |why: String| Refusal::BadRequest(why);
    let (id, echo) = exec_id(head, new_id)?;
    let request = parse_invocation(body, id).map_err(|invalid| bad(invalid.to_string()))?;
    let (received, named) = (upgrade.fds.len(), request.passed());
    if received != named {
        let why = format!("received {received} file descriptors, the invocation names {named}");
        return Err(bad(why));
    }
    let cwd = directory(request.cwd.as_deref())?;
    let request = ExecRequest { cwd, ..request };
    Ok(match target {
        RequestTarget::Judge => ClientCall::Judge { request, echo },
        _ => ClientCall::Attach { request, echo, upgrade },
    })
}

fn unexpected_descriptors() -> Refusal {
    Refusal::BadRequest("file descriptors belong to protocol 3".to_owned())
}

/// Returns a call id, and a second time if the client chose it.
fn exec_id(
    head: &RequestHead,
    new_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<(ExecId, Option<ExecId>), Refusal> {
    match head.header("x-aifo-exec-id") {
        Some(id) => {
            let id = ExecId::parse(id).map_err(|why| Refusal::BadRequest(why.to_string()))?;
            Ok((id.clone(), Some(id)))
        }
        None => {
            let id = new_id().map_err(|error| Refusal::Internal(error.to_string()))?;
            Ok((id, None))
        }
    }
}

fn exec_call(
    head: &RequestHead,
    form: &Form,
    mode: ResponseMode,
    new_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<ClientCall, Refusal> {
    let bad = |why: String| Refusal::BadRequest(why);
    let (id, echo) = exec_id(head, new_id)?;
    let tool = form.last("tool").ok_or_else(|| bad("tool is missing".to_owned()))?;
    let tool = ToolName::parse(tool).map_err(|invalid| {
        let needs = if tool.starts_with(b"/") { "; a path needs protocol 3" } else { "" };
        bad(format!("{invalid}{needs}"))
    })?;
    let args = arguments(form)?;
    let cwd = directory(form.last("cwd"))?;
    let request = ExecRequest { args, cwd, ..ExecRequest::new(id, tool) };
    Ok(ClientCall::Exec { request, echo, mode })
}

/// Returns the normalised directory of a call; an empty one is the workspace root.
fn directory(cwd: Option<&[u8]>) -> Result<Option<Vec<u8>>, Refusal> {
    cwd.filter(|cwd| !cwd.is_empty()).map(aifo_policy::normalise).transpose()
}

fn notify_call(
    form: &Form,
    new_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<ClientCall, Refusal> {
    let command = form.last("cmd").ok_or(Refusal::BadRequest("cmd is missing".to_owned()))?;
    let args = arguments(form)?;
    let id = new_id().map_err(|error| Refusal::Internal(error.to_string()))?;
    let mode = match form.last("detach") {
        Some(b"1") => ClientMode::Detached,
        _ => ClientMode::Attached,
    };
    Ok(ClientCall::Notify { id, command: command.to_vec(), args, mode })
}

fn arguments(form: &Form) -> Result<Vec<Vec<u8>>, Refusal> {
    let args: Vec<Vec<u8>> = form.all("arg").map(<[u8]>::to_vec).collect();
    if args.iter().any(|arg| arg.contains(&0)) {
        return Err(Refusal::BadRequest("an argument holds a NUL byte".to_owned()));
    }
    Ok(args)
}

fn signal_call(form: &Form) -> Result<ClientCall, Refusal> {
    let id = form.last("exec_id").ok_or(Refusal::BadRequest("exec_id is missing".to_owned()))?;
    let id = ExecId::parse(id).map_err(|invalid| Refusal::BadRequest(invalid.to_string()))?;
    let signal = match form.last("signal") {
        None => Signal::Term,
        Some(name) => {
            let name = String::from_utf8_lossy(name);
            Signal::parse(&name).ok_or_else(|| {
                Refusal::BadRequest(format!("unknown signal '{}'", name.escape_debug()))
            })?
        }
    };
    Ok(ClientCall::Signal { id, signal })
}

struct RequestInput<'a> {
    client: &'a Client,
    reader: RequestReader,
    /// Descriptors received so far. A plain read would close them.
    fds: Vec<OwnedFd>,
    /// The memory of the request.
    memory: Share,
    guard: &'a PendingGuard,
}

/// Descriptors per request: 0, 1 and 2.
const MAX_FDS: usize = 3;

impl RequestInput<'_> {
    async fn head(&mut self, within: Duration) -> Result<RequestHead, RequestFailure> {
        let deadline = Instant::now() + within;
        loop {
            match self.event()? {
                RequestEvent::Head(head) => return Ok(head),
                _ => self.fill(deadline).await?,
            }
        }
    }

    async fn body(
        &mut self,
        head: &RequestHead,
        stall: Duration,
    ) -> Result<Vec<u8>, RequestFailure> {
        let mut interim = head.expects_continue().then_some(CONTINUE);
        loop {
            if let RequestEvent::Body(body) = self.event()? {
                return Ok(body);
            }
            // After the check of the size, so that the client does not send a body that is too large.
            if let Some(interim) = interim.take() {
                self.client
                    .socket
                    .send_all(interim)
                    .await
                    .map_err(|_| RequestFailure::Disconnected)?;
            }
            self.fill(Instant::now() + stall).await?;
        }
    }

    fn event(&mut self) -> Result<RequestEvent, RequestFailure> {
        self.reader.next_event().map_err(|error| {
            let refusal = error.refusal(self.reader.limits());
            match error {
                MessageError::Truncated => RequestFailure::Refused(refusal, UnreadInput::None),
                _ => RequestFailure::Refused(refusal, UnreadInput::Some),
            }
        })
    }

    async fn fill(&mut self, deadline: Instant) -> Result<(), RequestFailure> {
        let refused = |refusal| RequestFailure::Refused(refusal, UnreadInput::Some);
        let needed = self.reader.memory_after(READ);
        reserve(&mut self.memory, needed, self.guard).await.map_err(refused)?;
        let room = self.reader.buffer().spare(READ);
        let left = MAX_FDS.saturating_sub(self.fds.len());
        match within(deadline, self.client.socket.receive_with_fds(room, left)).await? {
            Ok(received) => {
                self.fds.extend(received.fds);
                match received.bytes {
                    0 => self.reader.receive_eof(),
                    count => self.reader.buffer().commit(count),
                }
                Ok(())
            }
            Err(error) if error.raw_os_error() == Some(Errno::EPROTO as i32) => {
                let why = "too many file descriptors, or some were cut off".to_owned();
                Err(RequestFailure::Refused(Refusal::BadRequest(why), UnreadInput::Some))
            }
            Err(_) => Err(RequestFailure::Disconnected),
        }
    }
}

/// Bytes per read: most requests are a few hundred bytes.
const READ: usize = 8 * 1024;

async fn within<F: Future>(deadline: Instant, work: F) -> Result<F::Output, RequestFailure> {
    timeout_at(deadline, work)
        .await
        .map_err(|_| RequestFailure::Refused(Refusal::RequestTimeout, UnreadInput::Some))
}
