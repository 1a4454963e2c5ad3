//! What descriptors would carry, copied in frames: for runners that take none
//! (`spec/runner.md#stream-transport`).

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use aifo_wire::{Buffer, ClientHandover, Frame, FrameReader, ReceiveWindow, Start, Stdio};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::write;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::control::{ControlConnection, TunnelMessage};
use crate::event::ExecEvent;
use crate::socket::{Socket, on_reactor};

/// What is to be copied for an exec.
#[derive(Debug)]
pub(crate) enum RelayTarget {
    /// Its client's connection.
    Client(OwnedFd),
    /// What it prints, into this pipe.
    Output(OwnedFd),
    None,
}

/// Everything the runner still has to say of an exec.
pub(crate) type TunnelMessages = mpsc::UnboundedReceiver<TunnelMessage>;

/// Asks in a `Start` for relayed streams instead of passed descriptors, and says what of these is to
/// be copied then. A call without a client has at most one, the pipe that it prints to: whoever made
/// that pipe is the client.
pub(crate) fn relay_streams(start: &mut Start, fds: Vec<OwnedFd>) -> RelayTarget {
    let mut fds = fds.into_iter();
    let stdio = &mut start.invocation.stdio;
    if start.client.is_some() {
        for stdio in stdio.iter_mut().filter(|stdio| **stdio == Stdio::Passed) {
            *stdio = Stdio::Relayed;
        }
        return fds.next().map_or(RelayTarget::None, RelayTarget::Client);
    }
    // Anything else stays as it is, and the runner says that it did not come.
    match (&mut *stdio, fds.next()) {
        ([Stdio::Null | Stdio::Closed, stdout @ Stdio::Passed, _], Some(pipe)) => {
            *stdout = Stdio::Relayed;
            start.client = Some(ClientHandover::default());
            RelayTarget::Output(pipe)
        }
        _ => RelayTarget::None,
    }
}

/// Carries a client's bytes both ways until it has been told everything, or has left.
pub(crate) async fn relay_client(
    control: Arc<ControlConnection>,
    serial: u32,
    client: OwnedFd,
    messages: TunnelMessages,
) {
    let copied = match Socket::new(client) {
        Ok(client) => copy_both_ways(&control, serial, &client, messages).await,
        Err(error) => Err(error),
    };
    control.forget_tunnel(serial);
    if copied.is_err() {
        control.send(&Frame::TunnelEnd { serial }, Vec::new());
    }
}

/// An error means that the client has left.
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
        // Nothing is taken from a client that may yet be handed to another runner, nor from one that
        // does not read what it asks for.
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
                control.send(&Frame::Tunnel { serial, data }, Vec::new());
            }
        }
    }
    Ok(())
}

/// What is read of a client at a time.
const READ_SIZE: usize = 32 * 1024;
/// More than the windows of all streams, which a client that reads never exceeds.
const MAX_UNSENT: usize = 1024 * 1024;

/// Puts what a tool prints into a pipe, as the tool would, and tells of the exec in the same order:
/// once its end is told, all that it printed stands in the pipe.
pub(crate) async fn relay_output(
    control: Arc<ControlConnection>,
    serial: u32,
    pipe: OwnedFd,
    mut messages: TunnelMessages,
    events: mpsc::UnboundedSender<ExecEvent>,
) {
    let mut frames = FrameReader::for_client();
    let mut output =
        OutputPipe { pipe: Some(PipeState::Untouched(pipe)), allowance: ReceiveWindow::default() };
    while let Some(message) = messages.recv().await {
        let bytes = match message {
            TunnelMessage::Bytes(bytes) => bytes,
            TunnelMessage::Event(event) => {
                if let ExecEvent::Ended(_) = event {
                    output.pipe = None;
                }
                // Nobody may be interested any more.
                let _ = events.send(event);
                continue;
            }
        };
        frames.receive(&bytes);
        if !output.take_frames(&control, serial, &mut frames).await {
            tracing::warn!("a runner broke the protocol of a client's connection");
            control.shutdown(Shutdown::Both);
        }
    }
}

/// The tool's end of a pipe, as long as somebody reads from it and the tool prints.
struct OutputPipe {
    pipe: Option<PipeState>,
    allowance: ReceiveWindow,
}

enum PipeState {
    /// As it came: whoever else has it may still hand it to another runner, so it is left as it is
    /// until this one has printed something.
    Untouched(OwnedFd),
    Registered(AsyncFd<OwnedFd>),
}

impl OutputPipe {
    /// `false` if they make no sense.
    async fn take_frames(
        &mut self,
        control: &ControlConnection,
        serial: u32,
        frames: &mut FrameReader,
    ) -> bool {
        let send = |frame: &Frame<'_>| {
            let mut data = Vec::new();
            frame.encode(&mut data);
            control.send(&Frame::Tunnel { serial, data: &data }, Vec::new());
        };
        loop {
            match frames.next_frame() {
                Ok(Some(Frame::Data { stream, data })) => {
                    if self.allowance.receive(data.len()).is_err() {
                        return false;
                    }
                    if self.pipe.is_some() && self.write(data).await.is_err() {
                        // The tool's next write meets a closed pipe, too.
                        self.pipe = None;
                        send(&Frame::Closed { stream });
                    }
                    if let Some(bytes) = self.allowance.release(data.len()) {
                        send(&Frame::Credit { stream, bytes });
                    }
                }
                Ok(Some(Frame::Closed { .. })) => self.pipe = None,
                // The same is told on the control connection.
                Ok(Some(Frame::Exit { .. } | Frame::Stopped { .. })) => {}
                Ok(None) => return true,
                Ok(Some(_)) | Err(_) => return false,
            }
        }
    }

    async fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        let pipe = match self.pipe.take() {
            Some(PipeState::Untouched(pipe)) => {
                fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
                on_reactor(pipe, Interest::WRITABLE)?
            }
            Some(PipeState::Registered(pipe)) => pipe,
            None => return Ok(()),
        };
        while !data.is_empty() {
            match write(pipe.get_ref(), data) {
                Ok(count) => data = data.get(count..).unwrap_or_default(),
                // Forgotten before the next attempt, so an event in between is never lost.
                Err(Errno::EAGAIN) => pipe.writable().await?.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.pipe = Some(PipeState::Registered(pipe));
        Ok(())
    }
}
