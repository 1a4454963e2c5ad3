//! The bytes of one stream between a client's connection and the tool: a pipe, or the pseudo
//! terminal both ways.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aifo_process::bytes_in_pipe;
use aifo_wire::{Buffer, CreditError, ReceiveWindow, SendWindow, Stream};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::Mode;
use nix::unistd::{pipe2, write};

use crate::data_frame::DataFrame;

/// Our end of a stream. It closes when this is dropped.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) stream: Stream,
    fd: OwnedFd,
    to_tool: Option<ToTool>,
    from_tool: Option<FromTool>,
}

#[derive(Debug, Default)]
struct ToTool {
    /// What the tool's end had no room for yet: at most a window.
    queue: Buffer,
    allowance: ReceiveWindow,
    /// Nothing comes behind what is queued.
    ended: bool,
    /// What the tool's end has taken so far.
    written: u64,
    /// Our end is closed, and nothing happens here any more.
    closed: bool,
}

#[derive(Debug, Default)]
struct FromTool {
    credit: SendWindow,
    /// After the tool's end: how much of what stands in the pipe may still be the tool's.
    owed: Option<usize>,
}

/// What came of handing bytes to the tool.
#[derive(Debug, Default)]
pub(crate) struct HandedOn {
    /// What the client may send more.
    pub(crate) grant: Option<u32>,
    /// The tool reads no more.
    pub(crate) refused: bool,
}

/// What came of reading from the tool.
#[derive(Debug)]
pub(crate) enum Reading<'a> {
    /// An encoded frame.
    Frame(&'a [u8]),
    /// Nothing now.
    Nothing,
    /// Every writer has closed.
    End,
}

impl Lane {
    /// The tool's stdin: our lane, and its end.
    pub(crate) fn stdin() -> nix::Result<(Self, OwnedFd)> {
        let (theirs, ours) = pipe2(OFlag::O_CLOEXEC)?;
        let to_tool = Some(ToTool::default());
        Ok((Lane::new(Stream::Stdin, ours, to_tool, None)?, theirs))
    }

    /// The tool's stdout or stderr: our lane, and its end.
    pub(crate) fn output(stream: Stream) -> nix::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
        let from_tool = Some(FromTool::default());
        Ok((Lane::new(stream, ours, None, from_tool)?, theirs))
    }

    /// The controlling side of the pseudo terminal.
    pub(crate) fn terminal(master: OwnedFd) -> nix::Result<Self> {
        let (to_tool, from_tool) = (ToTool::default(), FromTool::default());
        Lane::new(Stream::Terminal, master, Some(to_tool), Some(from_tool))
    }

    fn new(
        stream: Stream,
        fd: OwnedFd,
        to_tool: Option<ToTool>,
        from_tool: Option<FromTool>,
    ) -> nix::Result<Self> {
        // Our end alone: the tool's is another open file.
        fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Lane { stream, fd, to_tool, from_tool })
    }

    /// Whether nothing can happen here any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.to_tool.as_ref().is_some_and(|to_tool| to_tool.closed)
    }

    /// Whether bytes wait for room at the tool's end.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.to_tool.as_ref().is_some_and(|to_tool| !to_tool.queue.is_empty())
    }

    /// Whether output may be read now, for a client that takes more.
    pub(crate) fn wants_to_read(&self) -> bool {
        let may = |from: &FromTool| from.owed != Some(0) && from.credit.left() > 0;
        self.from_tool.as_ref().is_some_and(may)
    }

    /// Whether output comes from here at all.
    pub(crate) fn has_output(&self) -> bool {
        self.from_tool.is_some()
    }

    /// Whether some of the tool's output may still stand here after its end.
    pub(crate) fn owes(&self) -> bool {
        self.from_tool.as_ref().is_some_and(|from_tool| from_tool.owed != Some(0))
    }

    /// The client sent bytes. Errors: more than it was granted, or on a stream that takes none.
    pub(crate) fn receive(&mut self, data: &[u8]) -> Result<(), CreditError> {
        let to_tool = self.to_tool.as_mut().ok_or(CreditError)?;
        to_tool.allowance.receive(data.len())?;
        if !to_tool.ended {
            to_tool.queue.extend(data);
        }
        Ok(())
    }

    /// The client takes more. Errors: more than there is.
    pub(crate) fn grant(&mut self, bytes: u32) -> Result<(), CreditError> {
        self.from_tool.as_mut().ok_or(CreditError)?.credit.grant(bytes)
    }

    /// Nothing more will come from the client.
    pub(crate) fn end_input(&mut self) {
        if let Some(to_tool) = &mut self.to_tool {
            to_tool.ended = true;
        }
    }

    /// Gives the tool as much as it has room for.
    pub(crate) fn hand_on(&mut self) -> HandedOn {
        let mut handed_on = HandedOn::default();
        let Some(to_tool) = &mut self.to_tool else { return handed_on };
        let mut count = 0;
        while !to_tool.queue.is_empty() {
            match write(&self.fd, to_tool.queue.as_slice()) {
                Ok(written) => {
                    to_tool.queue.consume(written);
                    count += written;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // Nobody has the other end open any more.
                Err(_) => {
                    to_tool.queue = Buffer::new();
                    to_tool.ended = true;
                    handed_on.refused = true;
                }
            }
        }
        to_tool.written += count as u64;
        handed_on.grant = to_tool.allowance.release(count);
        let is_over = to_tool.ended && to_tool.queue.is_empty() && self.stream == Stream::Stdin;
        if is_over && !std::mem::replace(&mut to_tool.closed, true) {
            self.close_input();
        }
        handed_on
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
    pub(crate) fn read<'a>(&mut self, frame: &'a mut DataFrame) -> Reading<'a> {
        let Some(from_tool) = &mut self.from_tool else { return Reading::End };
        let limit = from_tool.credit.left().min(from_tool.owed.unwrap_or(usize::MAX));
        if limit == 0 {
            // Reading nothing would look like the end.
            return Reading::Nothing;
        }
        match frame.read(self.stream, self.fd.as_fd(), limit) {
            Ok(0) => Reading::End,
            Ok(count) => {
                from_tool.credit.spend(count);
                from_tool.owed = from_tool.owed.map(|owed| owed.saturating_sub(count));
                Reading::Frame(frame.encoded())
            }
            Err(Errno::EINTR) => Reading::Nothing,
            Err(Errno::EAGAIN) => {
                from_tool.owed = from_tool.owed.map(|_| 0);
                Reading::Nothing
            }
            Err(_) => Reading::End,
        }
    }

    /// Reads output once and throws it away: a writer that lives on is neither stopped nor killed by
    /// a pipe without a reader. `false` when every writer has closed.
    pub(crate) fn read_unseen(&self, frame: &mut DataFrame) -> bool {
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
        if let Some(from_tool) = &mut self.from_tool {
            from_tool.owed = Some(capacity.unwrap_or(TERMINAL_CAPACITY));
        }
    }

    /// Bytes that the tool has read from here.
    pub(crate) fn taken(&self) -> u64 {
        let written = self.to_tool.as_ref().map_or(0, |to_tool| to_tool.written);
        written.saturating_sub(bytes_in_pipe(self.fd.as_fd()) as u64)
    }
}

impl AsFd for Lane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// More than a pseudo terminal holds.
const TERMINAL_CAPACITY: usize = 256 * 1024;
