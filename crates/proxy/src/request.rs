//! Reading a request and judging all of it that is not policy.
//!
//! The order of the checks is part of the protocol (`spec/toolexec.md#order-of-checks`): nothing
//! about tools shows before authentication, and no body is looked at before the version is known.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use aifo_types::{ExecId, ExecRequest, Refusal, Signal, Token, ToolName};
use aifo_wire::{
    CONTINUE, ClientMode, Form, Invocation, Limits, MAX_INVOCATION, RequestError, RequestEvent,
    RequestHead, RequestReader, Version,
};
use nix::errno::Errno;
use tokio::time::{Instant, timeout_at};

use crate::client::Client;

/// What a client wants.
#[derive(Debug)]
pub(crate) enum Call {
    /// Run a tool.
    Exec {
        request: ExecRequest,
        /// The id as far as the client chose it, to be echoed.
        echo: Option<ExecId>,
        answer: Answer,
    },
    /// Run a tool on what its caller has, version 3.
    Attach { request: ExecRequest, echo: Option<ExecId>, upgrade: Box<Upgrade> },
    /// Run a notification command on the host.
    Notify { id: ExecId, command: Vec<u8>, args: Vec<Vec<u8>>, attendance: ClientMode },
    /// Deliver a signal.
    Signal { id: ExecId, signal: Signal },
}

/// What a version 3 client brings along.
#[derive(Debug)]
pub(crate) struct Upgrade {
    pub(crate) invocation: Invocation,
    /// As many as the invocation says are passed.
    pub(crate) fds: Vec<OwnedFd>,
    /// Frames that came right behind the request.
    pub(crate) received: Vec<u8>,
}

/// How the output of a tool is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Version 1: all of it when the tool has ended.
    Buffered,
    /// Version 2: as it comes.
    Streamed,
}

/// Why there is no call.
#[derive(Debug)]
pub(crate) enum Unserved {
    /// The client is to be told so.
    Refused(Refusal, Unread),
    /// The client has left.
    Gone,
}

/// Whether a refused client may still be sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Its request was read to the end.
    Nothing,
    /// There is more on its way.
    Rest,
}

/// Reads one request. `fresh_id` makes an id for a client that sent none.
pub(crate) async fn read_call(
    client: &Client,
    token: &Token,
    limits: &Limits,
    fresh_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<Call, Unserved> {
    let reader = RequestReader::new(limits.clone());
    let mut reading = Reading { client, reader, fds: Vec::new() };
    let head = reading.head(limits.head_timeout).await?;
    let refused = |refusal| Unserved::Refused(refusal, Unread::Rest);
    let target = Target::of(&head).map_err(refused)?;
    authenticate(&head, token).map_err(refused)?;
    let spoken = version(&head, target).map_err(refused)?;
    if spoken == Spoken::Upgrade {
        reading.reader.set_body_limit(MAX_INVOCATION);
    }
    let body = reading.body(&head, limits.body_stall).await?;
    let fds = reading.fds;
    let received = reading.reader.take_rest();
    let unread = |refusal| Unserved::Refused(refusal, Unread::Nothing);
    let answer = match spoken {
        Spoken::Upgrade => {
            let invocation = Invocation::parse(&body)
                .map_err(|invalid| unread(Refusal::BadRequest(invalid.to_string())))?;
            let upgrade = Upgrade { invocation, fds, received };
            return attach_call(&head, upgrade, fresh_id).map_err(unread);
        }
        _ if !fds.is_empty() => return Err(unread(misplaced_descriptors())),
        Spoken::Form(answer) => answer,
    };
    let form = aifo_wire::decode_form(&body);
    let call = match target {
        Target::Exec => exec_call(&head, &form, answer, fresh_id),
        Target::Notify => notify_call(&form, fresh_id),
        Target::Signal => signal_call(&form),
    };
    call.map_err(unread)
}

/// What a request's version means for its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    /// A form.
    Form(Answer),
    /// An invocation, and frames from then on.
    Upgrade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Exec,
    Notify,
    Signal,
}

impl Target {
    fn of(head: &RequestHead) -> Result<Self, Refusal> {
        let target = match head.path() {
            "/exec" => Target::Exec,
            "/notify" => Target::Notify,
            "/signal" => Target::Signal,
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

fn version(head: &RequestHead, target: Target) -> Result<Spoken, Refusal> {
    let buffered = Spoken::Form(Answer::Buffered);
    // An HTTP/1.0 client understands neither chunks nor an upgrade.
    let modern = head.version == Version::Http11;
    match (target, head.header("x-aifo-proto")) {
        (Target::Notify, Some(b"2" | b"3")) => Ok(buffered),
        (Target::Notify, _) => Err(Refusal::UnsupportedNotifyProtocol),
        (_, Some(b"1")) | (Target::Signal, Some(b"2" | b"3")) => Ok(buffered),
        (Target::Exec, Some(b"2")) if modern => Ok(Spoken::Form(Answer::Streamed)),
        (Target::Exec, Some(b"3")) if modern && asks_for_upgrade(head) => Ok(Spoken::Upgrade),
        _ => Err(Refusal::UnsupportedProtocol),
    }
}

fn asks_for_upgrade(head: &RequestHead) -> bool {
    head.header("upgrade").is_some_and(|name| name.eq_ignore_ascii_case(b"aifo-exec"))
}

fn attach_call(
    head: &RequestHead,
    mut upgrade: Upgrade,
    fresh_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<Call, Refusal> {
    let bad = |why: String| Refusal::BadRequest(why);
    let (id, echo) = exec_id(head, fresh_id)?;
    let Upgrade { invocation, fds, .. } = &mut upgrade;
    if fds.len() != invocation.passed() {
        let (came, named) = (fds.len(), invocation.passed());
        let why = format!("{came} file descriptors came, the invocation passes {named}");
        return Err(bad(why));
    }
    let (tool, args) = invocation.argv.split_first().ok_or(bad("tool is missing".to_owned()))?;
    let tool = ToolName::parse(tool).map_err(|invalid| bad(invalid.to_string()))?;
    let cwd = invocation.cwd.as_deref().filter(|cwd| !cwd.is_empty());
    let cwd = cwd.map(aifo_policy::normalise).transpose()?;
    let request = ExecRequest { id, tool, args: args.to_vec(), cwd: cwd.clone() };
    invocation.cwd = cwd;
    Ok(Call::Attach { request, echo, upgrade: Box::new(upgrade) })
}

fn misplaced_descriptors() -> Refusal {
    Refusal::BadRequest("file descriptors belong to protocol 3".to_owned())
}

/// The id of a call, and again as far as the client chose it.
fn exec_id(
    head: &RequestHead,
    fresh_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<(ExecId, Option<ExecId>), Refusal> {
    match head.header("x-aifo-exec-id") {
        Some(id) => {
            let id = ExecId::parse(id).map_err(|why| Refusal::BadRequest(why.to_string()))?;
            Ok((id.clone(), Some(id)))
        }
        None => {
            let id = fresh_id().map_err(|error| Refusal::Internal(error.to_string()))?;
            Ok((id, None))
        }
    }
}

fn exec_call(
    head: &RequestHead,
    form: &Form,
    answer: Answer,
    fresh_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<Call, Refusal> {
    let bad = |why: String| Refusal::BadRequest(why);
    let (id, echo) = exec_id(head, fresh_id)?;
    let tool = form.last("tool").ok_or_else(|| bad("tool is missing".to_owned()))?;
    let tool = ToolName::parse(tool).map_err(|invalid| bad(invalid.to_string()))?;
    let args = arguments(form)?;
    let cwd = form.last("cwd").filter(|cwd| !cwd.is_empty());
    let cwd = cwd.map(aifo_policy::normalise).transpose()?;
    Ok(Call::Exec { request: ExecRequest { id, tool, args, cwd }, echo, answer })
}

fn notify_call(
    form: &Form,
    fresh_id: impl FnOnce() -> io::Result<ExecId>,
) -> Result<Call, Refusal> {
    let command = form.last("cmd").ok_or(Refusal::BadRequest("cmd is missing".to_owned()))?;
    let args = arguments(form)?;
    let id = fresh_id().map_err(|error| Refusal::Internal(error.to_string()))?;
    let attendance = match form.last("detach") {
        Some(b"1") => ClientMode::Detached,
        _ => ClientMode::Attached,
    };
    Ok(Call::Notify { id, command: command.to_vec(), args, attendance })
}

fn arguments(form: &Form) -> Result<Vec<Vec<u8>>, Refusal> {
    let args: Vec<Vec<u8>> = form.all("arg").map(<[u8]>::to_vec).collect();
    if args.iter().any(|arg| arg.contains(&0)) {
        return Err(Refusal::BadRequest("an argument holds a NUL byte".to_owned()));
    }
    Ok(args)
}

fn signal_call(form: &Form) -> Result<Call, Refusal> {
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
    Ok(Call::Signal { id, signal })
}

struct Reading<'a> {
    client: &'a Client,
    reader: RequestReader,
    /// What came along so far. A plain read would lose it.
    fds: Vec<OwnedFd>,
}

/// Standard descriptors.
const MAX_FDS: usize = 3;

impl Reading<'_> {
    async fn head(&mut self, within: Duration) -> Result<RequestHead, Unserved> {
        let deadline = Instant::now() + within;
        loop {
            match self.event()? {
                RequestEvent::Head(head) => return Ok(head),
                _ => self.fill(deadline).await?,
            }
        }
    }

    async fn body(&mut self, head: &RequestHead, stall: Duration) -> Result<Vec<u8>, Unserved> {
        let mut interim = head.expects_continue().then_some(CONTINUE);
        loop {
            if let RequestEvent::Body(body) = self.event()? {
                return Ok(body);
            }
            // Only now: a body that is too large is refused before the client sends it.
            if let Some(interim) = interim.take() {
                self.client.socket.send_all(interim).await.map_err(|_| Unserved::Gone)?;
            }
            self.fill(Instant::now() + stall).await?;
        }
    }

    fn event(&mut self) -> Result<RequestEvent, Unserved> {
        self.reader.next_event().map_err(|error| {
            let refusal = error.refusal(self.reader.limits());
            match error {
                RequestError::Truncated => Unserved::Refused(refusal, Unread::Nothing),
                _ => Unserved::Refused(refusal, Unread::Rest),
            }
        })
    }

    async fn fill(&mut self, deadline: Instant) -> Result<(), Unserved> {
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
                Err(Unserved::Refused(Refusal::BadRequest(why), Unread::Rest))
            }
            Err(_) => Err(Unserved::Gone),
        }
    }
}

/// A request is a few hundred bytes as a rule; a large one comes in several reads.
const READ: usize = 8 * 1024;

async fn within<F: Future>(deadline: Instant, work: F) -> Result<F::Output, Unserved> {
    timeout_at(deadline, work)
        .await
        .map_err(|_| Unserved::Refused(Refusal::RequestTimeout, Unread::Rest))
}
