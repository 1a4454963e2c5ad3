//! An agent's stdout, up to its end and past that of its process.

use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::time::timeout;

use crate::peer::LAST_WORDS;

/// Where the agent's stdout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pipe {
    /// More may come.
    Open,
    /// Its process has ended; what stands in the pipe still counts.
    Last,
    /// Its end was told to the client.
    Ended,
}

/// Reads some; 0 is the end. What a process that has ended left in its pipe comes at once, or somebody
/// else has the pipe. Cancel-safe.
pub(crate) async fn read(stdout: &mut ChildStdout, pipe: Pipe, buffer: &mut [u8]) -> usize {
    let read = stdout.read(buffer);
    let read = match pipe {
        Pipe::Last => timeout(LAST_WORDS, read).await.unwrap_or(Ok(0)),
        Pipe::Open | Pipe::Ended => read.await,
    };
    // A pipe that cannot be read has ended.
    read.unwrap_or_default()
}
