//! A holder's side of one client.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use aifo_types::WindowSize;

use crate::frame::{Frame, FrameError, FrameReader};
use crate::screen::Screen;

/// Output that waits for a client.
const MAX_QUEUE: usize = 1024 * 1024;

/// A connected client.
#[derive(Debug)]
pub(crate) struct Peer {
    stream: UnixStream,
    received: FrameReader,
    /// Encoded frames; the first may be sent in part.
    queue: VecDeque<Vec<u8>>,
    queued: usize,
    sent: usize,
    /// The latest `Restore` that was sent whole: it undoes the modes of the output before that was dropped.
    sent_restore: Vec<u8>,
    /// True if output was dropped, so that it needs the whole screen.
    pub(crate) is_behind: bool,
    /// True from `Stopped` to the next `Hello`: its terminal is the shell's.
    pub(crate) is_stopped: bool,
    /// True from its `Hello` on.
    pub(crate) is_attached: bool,
    pub(crate) size: WindowSize,
    /// The latest `Restore`.
    pub(crate) restore: Vec<u8>,
    /// When it connected, typed or was resized last.
    pub(crate) active: Instant,
    pub(crate) is_gone: bool,
}

impl Peer {
    pub(crate) fn new(stream: UnixStream, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Peer {
            stream,
            received: FrameReader::default(),
            queue: VecDeque::new(),
            queued: 0,
            sent: 0,
            sent_restore: Vec::new(),
            is_behind: false,
            is_stopped: false,
            is_attached: false,
            size: WindowSize::default(),
            restore: Vec::new(),
            active: now,
            is_gone: false,
        })
    }

    /// Reads once. Afterwards [`next_frame`](Self::next_frame) returns the frames.
    pub(crate) fn read(&mut self) {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.is_gone = true,
            Ok(count) => self.received.receive(bytes.get(..count).unwrap_or_default()),
            Err(error) if is_transient(&error) => {}
            Err(_) => self.is_gone = true,
        }
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        self.received.next_frame()
    }

    /// Queues a frame. With too many bytes in the queue drops them all, and the client is
    /// [behind](Self::is_behind).
    pub(crate) fn send(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.queued += bytes.len();
        self.queue.push_back(bytes);
        if self.queued > MAX_QUEUE {
            // The rest of a frame that was sent in part keeps the frames in step.
            self.queue.truncate(usize::from(self.sent > 0));
            self.queued = self.queue.front().map_or(0, Vec::len);
            self.is_behind = true;
        }
    }

    /// Sends output of the command, and the bytes that undo its modes if they have changed.
    pub(crate) fn send_output(&mut self, output: &Frame, restore: &[u8]) {
        // What a client gets after output was dropped depends on the modes of what it got before.
        if !self.is_attached || self.is_behind || self.is_stopped {
            return;
        }
        if self.restore != restore {
            self.restore = restore.to_vec();
            self.send(&Frame::Restore(self.restore.clone()));
        }
        if !self.is_behind {
            self.send(output);
        }
    }

    /// Sends the whole screen to a client that lost output.
    pub(crate) fn catch_up(&mut self, screen: &Screen) {
        let mut output = self.sent_restore.clone();
        output.extend(screen.redraw(false));
        self.is_behind = false;
        self.restore = screen.restore();
        self.send(&Frame::Restore(self.restore.clone()));
        self.send(&Frame::Output(output));
    }

    /// Writes as much as the client takes.
    pub(crate) fn flush(&mut self) {
        while let Some(frame) = self.queue.front() {
            match self.stream.write(frame.get(self.sent..).unwrap_or_default()) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.is_gone = true;
                    return;
                }
            }
            if self.sent == frame.len() {
                self.queued -= frame.len();
                if let Some(restore) = Frame::restore_of(frame) {
                    self.sent_restore = restore.to_vec();
                }
                self.sent = 0;
                self.queue.pop_front();
            }
        }
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_does_not_read_loses_output_but_no_frame() {
        let (mut client, holder) = UnixStream::pair().unwrap();
        let mut peer = Peer::new(holder, Instant::now()).unwrap();
        let output = Frame::Output(vec![b'x'; 10_000]);
        for _ in 0..1000 {
            peer.send(&output);
            peer.flush();
        }
        assert!(peer.is_behind && peer.queued <= MAX_QUEUE);
        client.set_nonblocking(true).unwrap();
        let mut reader = FrameReader::default();
        let mut frames = Vec::new();
        peer.send(&Frame::Detached);
        while frames.last() != Some(&Frame::Detached) {
            peer.flush();
            let mut bytes = [0; 60_000];
            let count = client.read(&mut bytes).unwrap_or(0);
            reader.receive(&bytes[..count]);
            while let Some(frame) = reader.next_frame().unwrap() {
                frames.push(frame);
            }
        }
        assert!(frames.len() < 1000, "{}", frames.len());
        assert!(frames[..frames.len() - 1].iter().all(|frame| *frame == output));
    }

    #[test]
    fn a_client_that_is_behind_gets_its_modes_undone() {
        let (mut client, holder) = UnixStream::pair().unwrap();
        let mut peer = Peer::new(holder, Instant::now()).unwrap();
        peer.is_attached = true;
        let mut screen = Screen::new(WindowSize::default());
        let receive = |screen: &mut Screen, peer: &mut Peer, output: &[u8]| {
            screen.receive(output);
            peer.send_output(&Frame::Output(output.to_vec()), &screen.restore());
            peer.flush();
        };
        receive(&mut screen, &mut peer, b"\x1b[>5u\x1b[?2004h");
        let seen = screen.restore();
        for _ in 0..200 {
            receive(&mut screen, &mut peer, &[b'x'; 10_000]);
        }
        assert!(peer.is_behind);
        receive(&mut screen, &mut peer, b"\x1b[<u\x1b[?2004l\x1b[?1049h");
        peer.queue.clear();
        (peer.sent, peer.queued) = (0, 0);
        client.set_nonblocking(true).unwrap();
        let mut bytes = vec![0; 2_000_000];
        let _ = client.read(&mut bytes);
        peer.catch_up(&screen);
        peer.flush();
        let count = client.read(&mut bytes).unwrap();
        let mut reader = FrameReader::default();
        reader.receive(&bytes[..count]);
        assert_eq!(reader.next_frame(), Ok(Some(Frame::Restore(screen.restore()))));
        let Ok(Some(Frame::Output(output))) = reader.next_frame() else { panic!("no output") };
        assert!(output.starts_with(&seen), "{}", output.escape_ascii());
        assert!(output.ends_with(&screen.redraw(false)));
    }
}
