//! The runner's end of one relayed stream: a pipe, or a pseudo terminal for both directions.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aifo_process::{MAX_INPUT, bytes_in_pipe, descriptor_path, take_unread_input};
use aifo_wire::{Buffer, CreditError, ReceiveWindow, SendWindow, Stream};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::Mode;
use nix::unistd::{pipe2, write};

use crate::data_frame::DataFrame;

#[derive(Debug)]
pub(crate) struct StreamPipe {
    pub(crate) stream: Stream,
    fd: OwnedFd,
    input: Option<ToolInput>,
    output: Option<ToolOutput>,
}

#[derive(Debug, Default)]
struct ToolInput {
    /// Bytes that the pipe had no room for; at most one window.
    queue: Buffer,
    allowance: ReceiveWindow,
    /// No more input follows the queue.
    ended: bool,
    /// Bytes written to the pipe.
    written: u64,
    /// The last bytes written to a terminal, at most [`MAX_INPUT`].
    recent: Vec<u8>,
    /// The write end is closed.
    closed: bool,
}

#[derive(Debug, Default)]
struct ToolOutput {
    credit: SendWindow,
    /// After the tool's end: an upper bound of the tool bytes in the pipe.
    remaining: Option<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct ForwardedInput {
    /// Credit for the client.
    pub(crate) grant: Option<u32>,
    /// The tool has closed its end.
    pub(crate) closed_by_tool: bool,
}

#[derive(Debug)]
pub(crate) enum ReadOutcome<'a> {
    /// An encoded `Data` frame.
    Frame(&'a [u8]),
    /// Nothing to read now.
    Nothing,
    /// Every writer has closed.
    End,
}

impl StreamPipe {
    /// Creates the stdin pipe. Returns the runner's end and the tool's.
    pub(crate) fn stdin() -> nix::Result<(Self, OwnedFd)> {
        let (tool_end, runner_end) = pipe2(OFlag::O_CLOEXEC)?;
        let input = Some(ToolInput::default());
        Ok((StreamPipe::new(Stream::Stdin, runner_end, input, None)?, tool_end))
    }

    /// Creates the pipe of stdout or stderr. Returns the runner's end and the tool's.
    pub(crate) fn output(stream: Stream) -> nix::Result<(Self, OwnedFd)> {
        let (runner_end, tool_end) = pipe2(OFlag::O_CLOEXEC)?;
        let output = Some(ToolOutput::default());
        Ok((StreamPipe::new(stream, runner_end, None, output)?, tool_end))
    }

    pub(crate) fn terminal(master: OwnedFd) -> nix::Result<Self> {
        let (input, output) = (ToolInput::default(), ToolOutput::default());
        StreamPipe::new(Stream::Terminal, master, Some(input), Some(output))
    }

    fn new(
        stream: Stream,
        fd: OwnedFd,
        input: Option<ToolInput>,
        output: Option<ToolOutput>,
    ) -> nix::Result<Self> {
        // Affects the runner's end only: the tool's is another open file description.
        fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(StreamPipe { stream, fd, input, output })
    }

    /// Returns whether stdin has been closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.closed)
    }

    /// Returns whether input is queued for the tool.
    pub(crate) fn has_queued_input(&self) -> bool {
        self.input.as_ref().is_some_and(|input| !input.queue.is_empty())
    }

    /// Returns whether the client's credit allows reading output.
    pub(crate) fn may_read(&self) -> bool {
        self.output.as_ref().is_some_and(|it| it.remaining != Some(0) && it.credit.left() > 0)
    }

    pub(crate) fn has_output(&self) -> bool {
        self.output.is_some()
    }

    /// Returns whether output of the tool may still be in the pipe after its end.
    pub(crate) fn has_remaining_output(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.remaining != Some(0))
    }

    /// Queues bytes from the client. Errors: more than was granted, or not an input stream.
    pub(crate) fn receive(&mut self, data: &[u8]) -> Result<(), CreditError> {
        let input = self.input.as_mut().ok_or(CreditError)?;
        input.allowance.receive(data.len())?;
        if !input.ended {
            input.queue.extend(data);
        }
        Ok(())
    }

    /// Adds credit from the client. Errors: overflow, or not an output stream.
    pub(crate) fn grant(&mut self, bytes: u32) -> Result<(), CreditError> {
        self.output.as_mut().ok_or(CreditError)?.credit.grant(bytes)
    }

    /// Closes the input once the queue is written.
    pub(crate) fn end_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.ended = true;
        }
    }

    /// Writes queued input as far as the pipe has room.
    pub(crate) fn forward_input(&mut self) -> ForwardedInput {
        let mut forwarded = ForwardedInput::default();
        let Some(input) = &mut self.input else { return forwarded };
        let mut count = 0;
        while !input.queue.is_empty() {
            match write(&self.fd, input.queue.as_slice()) {
                Ok(written) => {
                    if self.stream == Stream::Terminal {
                        let bytes = input.queue.as_slice().get(..written).unwrap_or_default();
                        keep_last(&mut input.recent, bytes);
                    }
                    input.queue.consume(written);
                    count += written;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // The tool has closed its end.
                Err(_) => {
                    input.queue = Buffer::new();
                    input.ended = true;
                    forwarded.closed_by_tool = true;
                }
            }
        }
        input.written += count as u64;
        forwarded.grant = input.allowance.release(count);
        let is_finished = input.ended && input.queue.is_empty() && self.stream == Stream::Stdin;
        if is_finished && !std::mem::replace(&mut input.closed, true) {
            self.close_input();
        }
        forwarded
    }

    /// Closes the write end of stdin, so that the tool reads end of file. Keeps a read end open
    /// instead, to count the unread bytes later.
    fn close_input(&mut self) {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let kept = open(&descriptor_path(&self.fd), flags, Mode::empty());
        // With neither, all bytes count as read.
        self.fd = match kept.or_else(|_| open("/dev/null", flags, Mode::empty())) {
            Ok(fd) => fd,
            Err(_) => return,
        };
    }

    /// Reads output once into a frame, within the client's credit.
    pub(crate) fn read<'a>(&mut self, frame: &'a mut DataFrame) -> ReadOutcome<'a> {
        let Some(output) = &mut self.output else { return ReadOutcome::End };
        let limit = output.credit.left().min(output.remaining.unwrap_or(usize::MAX));
        if limit == 0 {
            // Reading zero bytes would look like end of file.
            return ReadOutcome::Nothing;
        }
        match frame.read(self.stream, self.fd.as_fd(), limit) {
            Ok(0) => ReadOutcome::End,
            Ok(count) => {
                output.credit.spend(count);
                output.remaining =
                    output.remaining.map(|remaining| remaining.saturating_sub(count));
                ReadOutcome::Frame(frame.encoded())
            }
            Err(Errno::EINTR) => ReadOutcome::Nothing,
            Err(Errno::EAGAIN) => {
                output.remaining = output.remaining.map(|_| 0);
                ReadOutcome::Nothing
            }
            Err(_) => ReadOutcome::End,
        }
    }

    /// Reads output once and discards it, so that a background process neither blocks nor gets
    /// SIGPIPE. Returns `false` when every writer has closed.
    pub(crate) fn discard(&self, frame: &mut DataFrame) -> bool {
        match frame.read(self.stream, self.fd.as_fd(), usize::MAX) {
            Ok(count) => count > 0,
            Err(errno) => matches!(errno, Errno::EAGAIN | Errno::EINTR),
        }
    }

    /// Limits further output to the pipe's capacity, as the tool has ended: its output is in the pipe,
    /// and later output of background processes is not sent.
    pub(crate) fn tool_ended(&mut self) {
        let capacity = fcntl(&self.fd, FcntlArg::F_GETPIPE_SZ);
        let capacity = capacity.ok().and_then(|size| usize::try_from(size).ok());
        if let Some(output) = &mut self.output {
            output.remaining = Some(capacity.unwrap_or(TERMINAL_CAPACITY));
        }
    }

    /// Returns the bytes of stdin that the tool has read. For a terminal, one more than the bytes of
    /// its input that are used up, or 0 if that is not known. The tool has ended.
    pub(crate) fn bytes_read(&self) -> u64 {
        let Some(input) = &self.input else { return 0 };
        if self.stream != Stream::Terminal {
            return input.written.saturating_sub(bytes_in_pipe(self.fd.as_fd()) as u64);
        }
        if input.written == 0 {
            return 1;
        }
        let unread = take_unread_input(self.fd.as_fd()).unwrap_or_default();
        let from = input.recent.len().checked_sub(unread.len());
        let last = from.and_then(|from| input.recent.get(from..)).unwrap_or_default();
        // Line editing changes the input, so that typed bytes no longer match.
        let is_same =
            |(typed, unread): (&u8, &u8)| typed == unread || (*typed, *unread) == (b'\r', b'\n');
        match last.len() == unread.len() && last.iter().zip(&unread).all(is_same) {
            true => (input.written + 1).saturating_sub(unread.len() as u64),
            false => 0,
        }
    }
}

/// Appends bytes and keeps the last [`MAX_INPUT`].
fn keep_last(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    let surplus = kept.len().saturating_sub(MAX_INPUT);
    kept.drain(..surplus);
}

impl AsFd for StreamPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// More than a pseudo terminal buffers.
const TERMINAL_CAPACITY: usize = 256 * 1024;
