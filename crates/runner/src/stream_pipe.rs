//! The bytes of one stream between a client's connection and the tool: a pipe, or the pseudo
//! terminal both ways.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aifo_process::bytes_in_pipe;
use aifo_wire::{Allowance, Buffer, Credit, CreditError, Stream};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::Mode;
use nix::unistd::{pipe2, write};

use crate::data_frame::DataFrame;

/// Our end of a stream. It closes when this is dropped.
#[derive(Debug)]
pub(crate) struct StreamPipe {
    pub(crate) stream: Stream,
    fd: OwnedFd,
    input: Option<ToolInput>,
    output: Option<ToolOutput>,
}

#[derive(Debug, Default)]
struct ToolInput {
    /// What the tool's end had no room for yet: at most a window.
    queue: Buffer,
    allowance: Allowance,
    /// Nothing comes behind what is queued.
    ended: bool,
    /// What the tool's end has taken so far.
    written: u64,
    /// Our end is closed, and nothing happens here any more.
    closed: bool,
}

#[derive(Debug, Default)]
struct ToolOutput {
    credit: Credit,
    /// After the tool's end: how much of what stands in the pipe may still be the tool's.
    remaining: Option<usize>,
}

/// What came of handing bytes to the tool.
#[derive(Debug, Default)]
pub(crate) struct ForwardedInput {
    /// What the client may send more.
    pub(crate) grant: Option<u32>,
    /// The tool reads no more.
    pub(crate) refused: bool,
}

/// What came of reading from the tool.
#[derive(Debug)]
pub(crate) enum ReadOutcome<'a> {
    /// An encoded frame.
    Frame(&'a [u8]),
    /// Nothing now.
    Nothing,
    /// Every writer has closed.
    End,
}

impl StreamPipe {
    /// The tool's stdin: our pipe, and its end.
    pub(crate) fn stdin() -> nix::Result<(Self, OwnedFd)> {
        let (tool_end, runner_end) = pipe2(OFlag::O_CLOEXEC)?;
        let input = Some(ToolInput::default());
        Ok((StreamPipe::new(Stream::Stdin, runner_end, input, None)?, tool_end))
    }

    /// The tool's stdout or stderr: our pipe, and its end.
    pub(crate) fn output(stream: Stream) -> nix::Result<(Self, OwnedFd)> {
        let (runner_end, tool_end) = pipe2(OFlag::O_CLOEXEC)?;
        let output = Some(ToolOutput::default());
        Ok((StreamPipe::new(stream, runner_end, None, output)?, tool_end))
    }

    /// The controlling side of the pseudo terminal.
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
        // Our end alone: the tool's is another open file.
        fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(StreamPipe { stream, fd, input, output })
    }

    /// Whether nothing can happen here any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.closed)
    }

    /// Whether bytes wait for room at the tool's end.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.input.as_ref().is_some_and(|input| !input.queue.is_empty())
    }

    /// Whether output may be read now, for a client that takes more.
    pub(crate) fn wants_to_read(&self) -> bool {
        let may = |from: &ToolOutput| from.remaining != Some(0) && from.credit.left() > 0;
        self.output.as_ref().is_some_and(may)
    }

    /// Whether output comes from here at all.
    pub(crate) fn has_output(&self) -> bool {
        self.output.is_some()
    }

    /// Whether some of the tool's output may still stand here after its end.
    pub(crate) fn has_remaining_output(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.remaining != Some(0))
    }

    /// The client sent bytes. Errors: more than it was granted, or on a stream that takes none.
    pub(crate) fn receive(&mut self, data: &[u8]) -> Result<(), CreditError> {
        let input = self.input.as_mut().ok_or(CreditError)?;
        input.allowance.receive(data.len())?;
        if !input.ended {
            input.queue.extend(data);
        }
        Ok(())
    }

    /// The client takes more. Errors: more than there is.
    pub(crate) fn grant(&mut self, bytes: u32) -> Result<(), CreditError> {
        self.output.as_mut().ok_or(CreditError)?.credit.grant(bytes)
    }

    /// Nothing more will come from the client.
    pub(crate) fn end_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.ended = true;
        }
    }

    /// Gives the tool as much as it has room for.
    pub(crate) fn forward_input(&mut self) -> ForwardedInput {
        let mut forwarded = ForwardedInput::default();
        let Some(input) = &mut self.input else { return forwarded };
        let mut count = 0;
        while !input.queue.is_empty() {
            match write(&self.fd, input.queue.as_slice()) {
                Ok(written) => {
                    input.queue.consume(written);
                    count += written;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // Nobody has the other end open any more.
                Err(_) => {
                    input.queue = Buffer::new();
                    input.ended = true;
                    forwarded.refused = true;
                }
            }
        }
        input.written += count as u64;
        forwarded.grant = input.allowance.hand_on(count);
        let is_finished = input.ended && input.queue.is_empty() && self.stream == Stream::Stdin;
        if is_finished && !std::mem::replace(&mut input.closed, true) {
            self.close_input();
        }
        forwarded
    }

    /// Closes our end of stdin, which is how the tool learns of its end. In its place we keep the end
    /// that the tool reads from, unread, to see in the end how far it came.
    fn close_input(&mut self) {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let kept = open(path.as_str(), flags, Mode::empty());
        // Should that fail, all of it counts as read.
        self.fd = match kept.or_else(|_| open("/dev/null", flags, Mode::empty())) {
            Ok(fd) => fd,
            Err(_) => return,
        };
    }

    /// Reads output once into a frame, as much as the client takes.
    pub(crate) fn read<'a>(&mut self, frame: &'a mut DataFrame) -> ReadOutcome<'a> {
        let Some(output) = &mut self.output else { return ReadOutcome::End };
        let limit = output.credit.left().min(output.remaining.unwrap_or(usize::MAX));
        if limit == 0 {
            // Reading nothing would look like the end.
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

    /// Reads output once and throws it away: a writer that lives on is neither stopped nor killed by
    /// a pipe without a reader. `false` when every writer has closed.
    pub(crate) fn discard(&self, frame: &mut DataFrame) -> bool {
        match frame.read(self.stream, self.fd.as_fd(), usize::MAX) {
            Ok(count) => count > 0,
            Err(errno) => matches!(errno, Errno::EAGAIN | Errno::EINTR),
        }
    }

    /// The tool has ended. What it wrote stands in the pipe, which holds no more than its capacity;
    /// whatever a child that it left behind writes later belongs to nobody.
    pub(crate) fn tool_ended(&mut self) {
        let capacity = fcntl(&self.fd, FcntlArg::F_GETPIPE_SZ);
        let capacity = capacity.ok().and_then(|size| usize::try_from(size).ok());
        if let Some(output) = &mut self.output {
            output.remaining = Some(capacity.unwrap_or(TERMINAL_CAPACITY));
        }
    }

    /// Bytes that the tool has read from here.
    pub(crate) fn bytes_read(&self) -> u64 {
        let written = self.input.as_ref().map_or(0, |input| input.written);
        written.saturating_sub(bytes_in_pipe(self.fd.as_fd()) as u64)
    }
}

impl AsFd for StreamPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// More than a pseudo terminal holds.
const TERMINAL_CAPACITY: usize = 256 * 1024;
