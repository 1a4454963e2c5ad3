//! One stream of the tool's output on its way to our own descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aifo_wire::{Buffer, CreditError, Frame, ReceiveWindow, Stream};
use nix::poll::PollFlags;

use crate::line::Line;
use crate::outlet::Outlet;

/// What the tool wrote, and where it goes. It holds at most one window of the stream.
#[derive(Debug)]
pub(crate) struct Sink {
    stream: Stream,
    /// `None` once nobody reads there any more.
    outlet: Option<Outlet>,
    waiting: Buffer,
    allowance: ReceiveWindow,
    /// No more comes.
    is_ended: bool,
    loss: Option<Loss>,
}

/// What could not be written, and why.
#[derive(Debug)]
pub(crate) enum Loss {
    /// Nobody reads it any more.
    NoReader,
    /// The descriptor of this name does not take it.
    Refused(&'static str, io::Error),
}

impl Sink {
    pub(crate) fn new(stream: Stream, outlet: Outlet) -> Self {
        Sink {
            stream,
            outlet: Some(outlet),
            waiting: Buffer::new(),
            allowance: ReceiveWindow::default(),
            is_ended: false,
            loss: None,
        }
    }

    /// Takes what the tool wrote. Errors: it is more than was granted.
    pub(crate) fn take(&mut self, data: &[u8], line: &mut Line) -> Result<(), CreditError> {
        self.allowance.receive(data.len())?;
        let at_once = self.waiting.is_empty()
            && self.outlet.as_ref().is_some_and(|outlet| !outlet.must_wait_first());
        let written = if at_once { self.write(data, line) } else { 0 };
        match data.get(written..) {
            None | Some([]) => {}
            Some(rest) if self.outlet.is_some() => self.waiting.extend(rest),
            Some(rest) => {
                self.loss.get_or_insert(Loss::NoReader);
                self.hand_on(rest.len(), line);
            }
        }
        Ok(())
    }

    /// The tool writes no more: as soon as all is written, our own reader is told.
    pub(crate) fn end(&mut self) {
        self.is_ended = true;
        self.let_go_at_end();
    }

    /// Goes on after a wait.
    pub(crate) fn resume(&mut self, ready: PollFlags, line: &mut Line) {
        if ready.is_empty() {
            return;
        }
        if self.waiting.is_empty() {
            // Nothing was to be written: it can only be that nobody reads any more.
            self.close(None, line);
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let written = self.write(waiting.as_slice(), line);
        if self.outlet.is_some() {
            self.waiting = waiting;
            self.waiting.consume(written);
        } else {
            self.hand_on(waiting.len().saturating_sub(written), line);
        }
        self.let_go_at_end();
    }

    /// What to wait for: room, or the end of the reader.
    pub(crate) fn wants(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let outlet = self.outlet.as_ref()?;
        let room = if self.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
        Some((outlet.as_fd(), room))
    }

    /// Whether all is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What was lost, if anything was.
    pub(crate) fn into_loss(self) -> Option<Loss> {
        self.loss
    }

    /// Writes as much as fits now; says how much.
    fn write(&mut self, data: &[u8], line: &mut Line) -> usize {
        let mut written = 0;
        while let (Some(outlet), Some(rest)) = (&self.outlet, data.get(written..)) {
            if rest.is_empty() {
                break;
            }
            match outlet.write(rest) {
                Ok(Some(count)) => written += count,
                Ok(None) => break,
                Err(error) => self.close(Some(error), line),
            }
            if self.outlet.as_ref().is_some_and(Outlet::must_wait_first) {
                break;
            }
        }
        self.hand_on(written, line);
        written
    }

    /// Nobody reads any more: the tool is to see the same.
    fn close(&mut self, error: Option<io::Error>, line: &mut Line) {
        let Some(outlet) = self.outlet.take() else { return };
        self.loss = error.map(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Loss::NoReader,
            _ => Loss::Refused(outlet.name(), error),
        });
        // A terminal that is gone has told the tool so by HUP.
        if self.stream != Stream::Terminal {
            line.push(&Frame::Closed { stream: self.stream });
        }
    }

    fn hand_on(&mut self, count: usize, line: &mut Line) {
        if let Some(bytes) = self.allowance.release(count) {
            line.push(&Frame::Credit { stream: self.stream, bytes });
        }
    }

    fn let_go_at_end(&mut self) {
        let is_done = self.is_ended && self.is_empty();
        if let Some(outlet) = self.outlet.take_if(|_| is_done) {
            outlet.let_go();
        }
    }
}
