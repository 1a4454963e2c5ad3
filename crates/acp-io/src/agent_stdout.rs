//! An agent's stdout, up to its end and past that of its process.

use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::time::timeout;

use crate::agent_process::DRAIN_TIMEOUT;

/// Where the agent's stdout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdoutState {
    /// More may come.
    Open,
    /// Its process has ended; what stands in the pipe still counts.
    ProcessExited,
    /// Its end was told to the client.
    Ended,
}

/// Reads some; 0 is the end. What a process that has ended left in its pipe comes at once, or somebody
/// else has the pipe. Cancel-safe.
pub(crate) async fn read(
    stdout: &mut ChildStdout,
    stdout_state: StdoutState,
    buffer: &mut [u8],
) -> usize {
    let read = stdout.read(buffer);
    let read = match stdout_state {
        StdoutState::ProcessExited => timeout(DRAIN_TIMEOUT, read).await.unwrap_or(Ok(0)),
        StdoutState::Open | StdoutState::Ended => read.await,
    };
    // A pipe that cannot be read has ended.
    read.unwrap_or_default()
}
