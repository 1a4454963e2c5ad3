//! Relays the clients' bytes in frames where no descriptors pass (`spec/runner.md#stream-transport`).

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use aifo_types::Stdio;
use aifo_wire::{
    Buffer, ClientHandover, ClientTransport, Frame, FrameReader, ReceiveWindow, SendWindow, Start,
    Stream,
};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{read, write};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::control::{ControlConnection, TunnelMessage};
use crate::event::ExecEvent;
use crate::socket::{Socket, on_reactor};

/// The descriptors to relay for an exec.
#[derive(Debug)]
enum RelayTarget {
    Client(OwnedFd),
    /// 0, 1 and 2 of an exec without a client.
    Streams([Option<OwnedFd>; 3]),
    None,
}

/// The runner messages for one exec.
type TunnelMessages = mpsc::UnboundedReceiver<TunnelMessage>;

/// Starts a task that relays the bytes which the descriptors of a `Start` would carry.
pub(crate) fn relay(control: &Arc<ControlConnection>, start: &mut Start, fds: Vec<OwnedFd>) {
    let serial = start.serial();
    let (sender, messages) = mpsc::unbounded_channel();
    let mut replies = control.replies();
    match relay_streams(start, fds) {
        RelayTarget::Client(client) => {
            replies.tunnels.insert(serial, sender);
            tokio::spawn(relay_client(Arc::clone(control), serial, client, messages));
        }
        RelayTarget::Streams(pipes) => {
            // All output is in the pipes before the event of the end.
            let Some(events) = replies.execs.remove(&serial) else { return };
            replies.tunnels.insert(serial, sender);
            tokio::spawn(relay_pipes(Arc::clone(control), serial, pipes, messages, events));
        }
        RelayTarget::None => {}
    }
}

/// Replaces passed descriptors in a `Start` with relayed streams, and returns the descriptors to relay.
/// A call without a client passes pipes; then the holder of their other ends is the client.
fn relay_streams(start: &mut Start, fds: Vec<OwnedFd>) -> RelayTarget {
    let mut fds = fds.into_iter();
    let mut client = None;
    match &mut start.client {
        Some(handover) => {
            handover.transport = ClientTransport::Tunnelled;
            client = fds.next();
        }
        None if start.request.passed() == 0 => return RelayTarget::None,
        None => {
            let transport = ClientTransport::Tunnelled;
            start.client = Some(ClientHandover { transport, ..ClientHandover::default() });
        }
    }
    let pipes = start.request.inherited.stdio.each_mut().map(|stdio| {
        (*stdio == Stdio::Passed).then(|| {
            *stdio = Stdio::Relayed;
            fds.next()
        })?
    });
    client.map_or(RelayTarget::Streams(pipes), RelayTarget::Client)
}

/// Copies a client's bytes both ways until the client has received everything, or has disconnected.
async fn relay_client(
    control: Arc<ControlConnection>,
    serial: u32,
    client: OwnedFd,
    messages: TunnelMessages,
) {
    let copied = copy_both_ways(&control, serial, &Socket::new(client), messages).await;
    control.forget_tunnel(serial);
    if copied.is_err() {
        control.send(&Frame::TunnelEnd { serial });
    }
}

/// An error means that the client has disconnected.
async fn copy_both_ways(
    control: &ControlConnection,
    serial: u32,
    client: &Socket,
    mut messages: TunnelMessages,
) -> io::Result<()> {
    let mut unsent = Buffer::new();
    let mut bytes = vec![0; READ_SIZE];
    let mut accepted = false;
    let mut all_received = false;
    while !all_received || !unsent.is_empty() {
        let has_room = control.has_room();
        // Nothing is read from a client that may still be passed to another runner, or that does not
        // read its own input.
        let may_read = accepted && unsent.len() < MAX_UNSENT;
        tokio::select! {
            biased;
            sent = client.send(unsent.as_slice()), if !unsent.is_empty() => {
                unsent.consume(sent?);
            }
            message = messages.recv(), if !all_received => match message {
                Some(TunnelMessage::Bytes(bytes)) => {
                    accepted = true;
                    unsent.extend(&bytes);
                }
                Some(TunnelMessage::Event(_)) => {}
                None => all_received = true,
            },
            () = control.writable(), if may_read && !has_room => {}
            count = client.receive(&mut bytes), if may_read && has_room => {
                let data = bytes.get(..count?).unwrap_or_default();
                if data.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                control.send(&Frame::Tunnel { serial, data });
            }
        }
    }
    Ok(())
}

/// Bytes per read from a client.
const READ_SIZE: usize = 32 * 1024;
/// More than the windows of all streams together, so a client that reads never reaches it.
const MAX_UNSENT: usize = 1024 * 1024;

/// Copies between a tool's streams and pipes, and forwards the exec's events in order: all output is in the
/// pipes before the event of the end.
async fn relay_pipes(
    control: Arc<ControlConnection>,
    serial: u32,
    [stdin, stdout, stderr]: [Option<OwnedFd>; 3],
    mut messages: TunnelMessages,
    events: mpsc::UnboundedSender<ExecEvent>,
) {
    let mut frames = FrameReader::for_client();
    let mut outputs = [stdout, stderr].map(|pipe| OutputPipe {
        pipe: pipe.map(PipeState::Untouched),
        allowance: ReceiveWindow::default(),
    });
    let mut input =
        InputPipe { pipe: stdin.map(PipeState::Untouched), credit: SendWindow::default() };
    let send = |frame: &Frame<'_>| {
        let mut data = Vec::new();
        frame.encode(&mut data);
        control.send(&Frame::Tunnel { serial, data: &data });
    };
    // Nothing is read for a tool that may still be started by another runner.
    let mut started = false;
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            read = input.read(), if started && input.is_ready() => {
                match read {
                    Ok(data) if !data.is_empty() => {
                        send(&Frame::Data { stream: Stream::Stdin, data: &data });
                        control.writable().await;
                    }
                    _ => {
                        input.pipe = None;
                        send(&Frame::Closed { stream: Stream::Stdin });
                    }
                }
                continue;
            }
        };
        let bytes = match message {
            Some(TunnelMessage::Bytes(bytes)) => bytes,
            Some(TunnelMessage::Event(event)) => {
                started = true;
                if let ExecEvent::Ended(_) = event {
                    input.pipe = None;
                    outputs.iter_mut().for_each(|output| output.pipe = None);
                }
                // The receiver may have been dropped.
                let _ = events.send(event);
                continue;
            }
            None => return,
        };
        frames.receive(&bytes);
        if !take_frames(&mut frames, &mut input, &mut outputs, send).await {
            tracing::warn!("a runner broke the protocol of a client's connection");
            control.shutdown(Shutdown::Both);
        }
    }
}

/// Handles all complete frames. `false` after a protocol error.
async fn take_frames(
    frames: &mut FrameReader,
    input: &mut InputPipe,
    outputs: &mut [OutputPipe; 2],
    send: impl Fn(&Frame<'_>),
) -> bool {
    let index = |stream| match stream {
        Stream::Stdin | Stream::Terminal => None,
        Stream::Stdout => Some(0),
        Stream::Stderr => Some(1),
    };
    loop {
        match frames.next_frame() {
            Ok(Some(Frame::Data { stream, data })) => {
                let Some(at) = index(stream) else { return false };
                let output = &mut outputs[at];
                if output.allowance.receive(data.len()).is_err() {
                    return false;
                }
                if output.pipe.is_some() && output.write(data).await.is_err() {
                    // The tool's next write fails with EPIPE too.
                    output.pipe = None;
                    send(&Frame::Closed { stream });
                }
                if let Some(bytes) = output.allowance.release(data.len()) {
                    send(&Frame::Credit { stream, bytes });
                }
            }
            Ok(Some(Frame::Closed { stream })) => match index(stream) {
                Some(at) => outputs[at].pipe = None,
                None => input.pipe = None,
            },
            Ok(Some(Frame::Credit { stream: Stream::Stdin, bytes })) => {
                if input.credit.grant(bytes).is_err() {
                    return false;
                }
            }
            // The control connection carries the same.
            Ok(Some(Frame::Exit { .. } | Frame::Stopped { .. })) => {}
            Ok(None) => return true,
            Ok(Some(_)) | Err(_) => return false,
        }
    }
}

/// The reading end of a pipe, until its end or until the tool closes its input.
struct InputPipe {
    pipe: Option<PipeState>,
    credit: SendWindow,
}

/// The writing end of a pipe, until the tool closes its output or the reader closes the pipe.
struct OutputPipe {
    pipe: Option<PipeState>,
    allowance: ReceiveWindow,
}

enum PipeState {
    /// Unchanged. The caller may still pass its duplicate to another runner, which must not find
    /// `O_NONBLOCK` set.
    Untouched(OwnedFd),
    Registered(AsyncFd<OwnedFd>),
}

impl PipeState {
    /// Registers the pipe for its only direction.
    fn register(pipe: &mut Option<PipeState>, interest: Interest) -> io::Result<&AsyncFd<OwnedFd>> {
        if let Some(PipeState::Untouched(_)) = pipe
            && let Some(PipeState::Untouched(fd)) = pipe.take()
        {
            fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            *pipe = Some(PipeState::Registered(on_reactor(fd, interest)?));
        }
        match pipe {
            Some(PipeState::Registered(pipe)) => Ok(pipe),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl InputPipe {
    fn is_ready(&self) -> bool {
        self.pipe.is_some() && self.credit.left() > 0
    }

    /// Returns bytes, empty at the end, and spends their credit. Cancel-safe.
    async fn read(&mut self) -> io::Result<Vec<u8>> {
        let pipe = PipeState::register(&mut self.pipe, Interest::READABLE)?;
        let mut data = vec![0; READ_SIZE.min(self.credit.left())];
        loop {
            match read(pipe.get_ref(), &mut data) {
                Ok(count) => {
                    data.truncate(count);
                    self.credit.spend(count);
                    return Ok(data);
                }
                // Cleared before the next attempt, so that no event in between is lost.
                Err(Errno::EAGAIN) => pipe.readable().await?.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl OutputPipe {
    async fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        let pipe = PipeState::register(&mut self.pipe, Interest::WRITABLE)?;
        while !data.is_empty() {
            match write(pipe.get_ref(), data) {
                Ok(count) => data = data.get(count..).unwrap_or_default(),
                // Cleared before the next attempt, so that no event in between is lost.
                Err(Errno::EAGAIN) => pipe.writable().await?.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}
