//! Relays the clients' bytes in frames, for runners without descriptors (`spec/runner.md#stream-transport`).

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use aifo_types::Stdio;
use aifo_wire::{Buffer, ClientHandover, Frame, FrameReader, ReceiveWindow, Start};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::write;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::control::{ControlConnection, TunnelMessage};
use crate::event::ExecEvent;
use crate::socket::{Socket, on_reactor};

/// The descriptor to relay for an exec.
#[derive(Debug)]
pub(crate) enum RelayTarget {
    Client(OwnedFd),
    Output(OwnedFd),
    None,
}

/// The runner's messages for one exec.
pub(crate) type TunnelMessages = mpsc::UnboundedReceiver<TunnelMessage>;

/// Replaces passed descriptors in a `Start` with relayed streams, and returns the descriptor to relay.
/// A call without a client passes at most one descriptor, the pipe for its output; then the reader of
/// that pipe is the client.
pub(crate) fn relay_streams(start: &mut Start, fds: Vec<OwnedFd>) -> RelayTarget {
    let mut fds = fds.into_iter();
    let stdio = &mut start.request.inherited.stdio;
    if start.client.is_some() {
        for stdio in stdio.iter_mut().filter(|stdio| **stdio == Stdio::Passed) {
            *stdio = Stdio::Relayed;
        }
        return fds.next().map_or(RelayTarget::None, RelayTarget::Client);
    }
    // Any other `Start` is unchanged, and the runner reports the missing descriptors.
    match (&mut *stdio, fds.next()) {
        ([Stdio::Null | Stdio::Closed, stdout @ Stdio::Passed, _], Some(pipe)) => {
            *stdout = Stdio::Relayed;
            start.client = Some(ClientHandover::default());
            RelayTarget::Output(pipe)
        }
        _ => RelayTarget::None,
    }
}

/// Copies a client's bytes both ways until the client has received everything, or has disconnected.
pub(crate) async fn relay_client(
    control: Arc<ControlConnection>,
    serial: u32,
    client: OwnedFd,
    messages: TunnelMessages,
) {
    let copied = copy_both_ways(&control, serial, &Socket::new(client), messages).await;
    control.forget_tunnel(serial);
    if copied.is_err() {
        control.send(&Frame::TunnelEnd { serial }, Vec::new());
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
                control.send(&Frame::Tunnel { serial, data }, Vec::new());
            }
        }
    }
    Ok(())
}

/// Bytes per read from a client.
const READ_SIZE: usize = 32 * 1024;
/// More than the windows of all streams together, so a client that reads never reaches it.
const MAX_UNSENT: usize = 1024 * 1024;

/// Writes a tool's output to a pipe and forwards the exec's events in order: all output is in the pipe
/// before the event of the end.
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
                // The receiver may have been dropped.
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

/// The writing end of the output pipe, until the tool closes its output or the reader closes the pipe.
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

impl OutputPipe {
    /// Handles all complete frames. `false` after a protocol error.
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
                        // The tool's next write fails with EPIPE too.
                        self.pipe = None;
                        send(&Frame::Closed { stream });
                    }
                    if let Some(bytes) = self.allowance.release(data.len()) {
                        send(&Frame::Credit { stream, bytes });
                    }
                }
                Ok(Some(Frame::Closed { .. })) => self.pipe = None,
                // The control connection carries the same.
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
                // Cleared before the next attempt, so that no event in between is lost.
                Err(Errno::EAGAIN) => pipe.writable().await?.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.pipe = Some(PipeState::Registered(pipe));
        Ok(())
    }
}
