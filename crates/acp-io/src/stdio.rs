//! An editor connection on this process's stdin and stdout.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::agent_process::READ;

/// An editor's streams: inherited pipes, sockets or files, whose modes must not be changed. Each
/// has a thread with blocking reads or writes. A line that fits without blocking is written at
/// once, which saves a wake-up.
#[derive(Debug)]
pub struct Stdio {
    pub(crate) from: mpsc::Receiver<Vec<u8>>,
    pub(crate) to: LineWriter,
}

/// Writes lines to the editor.
#[derive(Debug)]
pub(crate) struct LineWriter {
    lines: Option<mpsc::Sender<Vec<u8>>>,
    written: oneshot::Receiver<()>,
    output: Arc<OutputStream>,
}

/// The editor input.
#[derive(Debug)]
struct OutputStream {
    stream: File,
    kind: StreamKind,
    /// Writes that are queued for the thread.
    unwritten: AtomicUsize,
}

/// How to write to a stream without blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamKind {
    Pipe,
    Socket,
    Other,
}

/// Queued reads.
const READS: usize = 8;
/// Queued writes. One, as each may be long.
const WRITES: usize = 1;
/// The time for the editor to read the rest.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

impl Stdio {
    /// Duplicates two descriptors, such as 0 and 1, and starts to read.
    pub fn start(input: &impl AsFd, output: &impl AsFd) -> io::Result<Self> {
        let (input, output) =
            (input.as_fd().try_clone_to_owned()?, output.as_fd().try_clone_to_owned()?);
        let (sender, from) = mpsc::channel(READS);
        let (lines, to_write) = mpsc::channel(WRITES);
        let (done, written) = oneshot::channel();
        let output = Arc::new(OutputStream::new(output)?);
        let writes = Arc::clone(&output);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("aifo-stdin").spawn(move || read(input, &sender))?;
        thread("aifo-stdout").spawn(move || {
            write(&writes, to_write);
            // The receiver may be dropped.
            let _ = done.send(());
        })?;
        Ok(Stdio { from, to: LineWriter { lines: Some(lines), written, output } })
    }
}

impl LineWriter {
    /// Reserves room for lines; `None` if the stream is closed. Cancel-safe.
    pub(crate) async fn reserve(&self) -> Option<mpsc::Permit<'_, Vec<u8>>> {
        self.lines.as_ref()?.reserve().await.ok()
    }

    /// Writes lines: at once if that does not block, else on the thread.
    pub(crate) fn write(&self, room: mpsc::Permit<'_, Vec<u8>>, mut lines: Vec<u8>) {
        let written = self.output.write_at_once(&lines);
        if written == lines.len() {
            return;
        }
        lines.drain(..written);
        self.output.unwritten.fetch_add(1, Ordering::AcqRel);
        room.send(lines);
    }

    /// Writes the rest and waits until it is written or the stream is closed.
    pub(crate) async fn finish(mut self, rest: Vec<Vec<u8>>) {
        let lines = self.lines.take();
        let all = async {
            for rest in rest {
                // The stream is closed.
                let Some(lines) = &lines else { return };
                self.output.unwritten.fetch_add(1, Ordering::AcqRel);
                if lines.send(rest).await.is_err() {
                    return;
                }
            }
            drop(lines);
            let _ = self.written.await;
        };
        // An editor that has not read by then is given up.
        let _ = timeout(FINISH_TIMEOUT, all).await;
    }
}

/// Reads until the end, or until the receiver is dropped.
fn read(input: OwnedFd, sender: &mpsc::Sender<Vec<u8>>) {
    let mut input = File::from(input);
    let mut buffer = vec![0; READ];
    loop {
        match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(count @ 1..) => {
                let bytes = buffer.get(..count).unwrap_or_default().to_vec();
                if sender.blocking_send(bytes).is_err() {
                    return;
                }
            }
            // A failed read counts as the end.
            Ok(0) | Err(_) => return,
        }
    }
}

fn write(output: &OutputStream, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.blocking_recv() {
        if (&output.stream).write_all(&line).is_err() {
            return;
        }
        output.unwritten.fetch_sub(1, Ordering::AcqRel);
    }
}

impl OutputStream {
    fn new(stream: OwnedFd) -> io::Result<Self> {
        let stream = File::from(stream);
        let kind = match stream.metadata()?.file_type() {
            kind if kind.is_fifo() => StreamKind::Pipe,
            kind if kind.is_socket() => StreamKind::Socket,
            _ => StreamKind::Other,
        };
        Ok(OutputStream { stream, kind, unwritten: AtomicUsize::new(0) })
    }

    /// Writes as much as possible without blocking and returns the length. Errors are left to the
    /// thread, which will meet them too.
    fn write_at_once(&self, bytes: &[u8]) -> usize {
        if self.unwritten.load(Ordering::Acquire) > 0 {
            return 0;
        }
        match self.kind {
            // A writable pipe has room for a page.
            StreamKind::Pipe if bytes.len() <= PAGE && self.is_writable() => {
                (&self.stream).write(bytes).unwrap_or_default()
            }
            StreamKind::Socket => {
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                send(self.stream.as_raw_fd(), bytes, flags).unwrap_or_default()
            }
            StreamKind::Pipe | StreamKind::Other => 0,
        }
    }

    fn is_writable(&self) -> bool {
        let mut streams = [PollFd::new(self.stream.as_fd(), PollFlags::POLLOUT)];
        let ready = poll(&mut streams, PollTimeout::ZERO);
        let [stream] = streams;
        ready == Ok(1) && stream.revents() == Some(PollFlags::POLLOUT)
    }
}

/// The least room of a writable pipe: a buffer (`pipe(7)`).
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// Checks that a reader receives every line in order.
    fn check(to: impl Into<OwnedFd>, mut from: impl Read + Send + 'static) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let null = File::open("/dev/null").unwrap();
        let stdio = Stdio::start(&null, &to.into()).unwrap();
        // Short, long and many lines: written at once and by the thread.
        let line = |number: usize| format!("{number}{}\n", "x".repeat(number * 97 % 9000));
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            from.read_to_end(&mut read).unwrap();
            read
        });
        runtime.block_on(async {
            for number in 0..2000 {
                let room = stdio.to.reserve().await.unwrap();
                stdio.to.write(room, line(number).into_bytes());
            }
            stdio.to.finish(vec![b"rest\n".to_vec()]).await;
        });
        let read = reader.join().unwrap();
        let expected: String = (0..2000).map(line).chain(["rest\n".to_owned()]).collect();
        assert!(read == expected.as_bytes(), "{} of {} bytes", read.len(), expected.len());
    }

    #[test]
    fn lines_arrive_whole_and_in_order_on_any_stream() {
        let (from, to) = io::pipe().unwrap();
        check(to, from);
        let (from, to) = UnixStream::pair().unwrap();
        check(to, from);
    }

    #[test]
    fn blocking_writes_are_left_to_the_thread() {
        let (from, to) = io::pipe().unwrap();
        let output = OutputStream::new(to.into()).unwrap();
        let line = vec![b'x'; PAGE];
        let mut count = 0;
        while output.write_at_once(&line) == PAGE {
            count += 1;
        }
        assert!(count > 0, "the pipe had room");
        assert_eq!(output.write_at_once(b"x"), 0, "the pipe is full");
        assert_eq!(
            OutputStream::new(File::open("/dev/null").unwrap().into()).unwrap().kind,
            StreamKind::Other
        );
        drop(from);
        assert_eq!(output.write_at_once(b"x"), 0, "the pipe is closed");
    }
}
