//! Forwarding of one output stream of the tool to a descriptor of the shim.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aifo_wire::{Buffer, CreditError, Frame, ReceiveWindow, Stream};
use nix::poll::PollFlags;

use crate::fd_writer::FdWriter;
use crate::frame_connection::FrameConnection;

/// Buffers and writes one stream. The buffer holds at most one window.
#[derive(Debug)]
pub(crate) struct OutputForwarder {
    stream: Stream,
    /// `None` after the reader has closed the stream.
    writer: Option<FdWriter>,
    pending: Buffer,
    allowance: ReceiveWindow,
    is_finished: bool,
    error: Option<OutputError>,
}

#[derive(Debug)]
pub(crate) enum OutputError {
    /// The reader has closed the stream.
    BrokenPipe,
    /// Writing to the named descriptor failed.
    Write(&'static str, io::Error),
}

impl OutputForwarder {
    pub(crate) fn new(stream: Stream, writer: FdWriter) -> Self {
        OutputForwarder {
            stream,
            writer: Some(writer),
            pending: Buffer::new(),
            allowance: ReceiveWindow::default(),
            is_finished: false,
            error: None,
        }
    }

    /// Writes or buffers data of the tool. Errors: it exceeds the credit.
    pub(crate) fn forward(
        &mut self,
        data: &[u8],
        connection: &mut FrameConnection,
    ) -> Result<(), CreditError> {
        self.allowance.receive(data.len())?;
        let write_now = self.pending.is_empty()
            && self.writer.as_ref().is_some_and(|writer| !writer.needs_poll());
        let written = if write_now { self.write(data, connection) } else { 0 };
        match data.get(written..) {
            None | Some([]) => {}
            Some(rest) if self.writer.is_some() => self.pending.extend(rest),
            Some(rest) => {
                self.error.get_or_insert(OutputError::BrokenPipe);
                self.return_credit(rest.len(), connection);
            }
        }
        Ok(())
    }

    /// Ends the stream: closes the descriptor as soon as the buffer is empty.
    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
        self.close_if_done();
    }

    /// Continues writing after poll.
    pub(crate) fn handle_ready(&mut self, ready: PollFlags, connection: &mut FrameConnection) {
        if ready.is_empty() {
            return;
        }
        if self.pending.is_empty() {
            // Nothing is buffered, so this can only be an error or a hang-up.
            self.close(None, connection);
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let written = self.write(pending.as_slice(), connection);
        if self.writer.is_some() {
            self.pending = pending;
            self.pending.consume(written);
        } else {
            self.return_credit(pending.len().saturating_sub(written), connection);
        }
        self.close_if_done();
    }

    /// Returns the events to poll for: writability, or only errors while the buffer is empty.
    pub(crate) fn poll_interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let writer = self.writer.as_ref()?;
        let room = if self.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
        Some((writer.as_fd(), room))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn into_error(self) -> Option<OutputError> {
        self.error
    }

    /// Writes as much as the descriptor accepts and returns its length.
    fn write(&mut self, data: &[u8], connection: &mut FrameConnection) -> usize {
        let mut written = 0;
        while let (Some(writer), Some(rest)) = (&self.writer, data.get(written..)) {
            if rest.is_empty() {
                break;
            }
            match writer.write(rest) {
                Ok(Some(count)) => written += count,
                Ok(None) => break,
                Err(error) => self.close(Some(error), connection),
            }
            if self.writer.as_ref().is_some_and(FdWriter::needs_poll) {
                break;
            }
        }
        self.return_credit(written, connection);
        written
    }

    fn close(&mut self, error: Option<io::Error>, connection: &mut FrameConnection) {
        let Some(writer) = self.writer.take() else { return };
        self.error = error.map(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => OutputError::BrokenPipe,
            _ => OutputError::Write(writer.name(), error),
        });
        // A hung-up terminal has sent HUP, which was forwarded.
        if self.stream != Stream::Terminal {
            connection.push(&Frame::Closed { stream: self.stream });
        }
    }

    fn return_credit(&mut self, count: usize, connection: &mut FrameConnection) {
        if let Some(bytes) = self.allowance.release(count) {
            connection.push(&Frame::Credit { stream: self.stream, bytes });
        }
    }

    fn close_if_done(&mut self) {
        let is_done = self.is_finished && self.is_empty();
        if let Some(writer) = self.writer.take_if(|_| is_done) {
            writer.close();
        }
    }
}
