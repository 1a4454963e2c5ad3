//! The other end on our own stdin and stdout: an editor that started us.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::peer::READ;

/// Two streams that are ours since we were started: what they are nobody knows, pipes, sockets or
/// files, and their modes are not ours to change. So each has a thread that reads or writes as anybody
/// would.
#[derive(Debug)]
pub struct Stdio {
    pub(crate) from: mpsc::Receiver<Vec<u8>>,
    pub(crate) to: Lines,
}

/// What is written, by a thread.
#[derive(Debug)]
pub(crate) struct Lines {
    lines: Option<mpsc::Sender<Vec<u8>>>,
    written: oneshot::Receiver<()>,
}

/// What was read and not yet taken: so many reads.
const READS: usize = 8;
/// Writes that wait behind another. Each may be of a long line, so there is one.
const WRITES: usize = 1;
/// For somebody to read the last of it.
const LAST: Duration = Duration::from_secs(2);

impl Stdio {
    /// Takes copies of two descriptors, such as 0 and 1, and starts to read.
    pub fn start(input: &impl AsFd, output: &impl AsFd) -> io::Result<Self> {
        let (input, output) =
            (input.as_fd().try_clone_to_owned()?, output.as_fd().try_clone_to_owned()?);
        let (give, from) = mpsc::channel(READS);
        let (lines, to_write) = mpsc::channel(WRITES);
        let (tell, written) = oneshot::channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("aifo-stdin").spawn(move || read(input, &give))?;
        thread("aifo-stdout").spawn(move || {
            write(output, to_write);
            // Whoever wanted to know may be gone.
            let _ = tell.send(());
        })?;
        Ok(Stdio { from, to: Lines { lines: Some(lines), written } })
    }
}

impl Lines {
    /// Room for some lines; `None` once nobody reads any more. Cancel-safe.
    pub(crate) async fn room(&self) -> Option<mpsc::Permit<'_, Vec<u8>>> {
        self.lines.as_ref()?.reserve().await.ok()
    }

    /// Writes what is left, and waits until all is written, or nobody reads it.
    pub(crate) async fn finish(mut self, rest: Vec<Vec<u8>>) {
        let lines = self.lines.take();
        let all = async {
            for rest in rest {
                // Whoever is gone hears nothing.
                let Some(lines) = &lines else { return };
                if lines.send(rest).await.is_err() {
                    return;
                }
            }
            drop(lines);
            let _ = self.written.await;
        };
        // Who does not read by then never will.
        let _ = timeout(LAST, all).await;
    }
}

/// Reads until the end, or nobody wants it.
fn read(input: OwnedFd, give: &mpsc::Sender<Vec<u8>>) {
    let mut input = std::fs::File::from(input);
    let mut buffer = vec![0; READ];
    loop {
        match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(count @ 1..) => {
                let bytes = buffer.get(..count).unwrap_or_default().to_vec();
                if give.blocking_send(bytes).is_err() {
                    return;
                }
            }
            // What cannot be read has ended.
            Ok(0) | Err(_) => return,
        }
    }
}

fn write(output: OwnedFd, mut lines: mpsc::Receiver<Vec<u8>>) {
    let mut output = std::fs::File::from(output);
    while let Some(line) = lines.blocking_recv() {
        if output.write_all(&line).is_err() {
            return;
        }
    }
}
