//! Reads an agent's stdout.

use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::time::timeout;

use crate::agent_process::DRAIN_TIMEOUT;

/// The state of an agent's stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdoutState {
    /// More may be read.
    Open,
    /// The process has exited; the pipe may hold unread output.
    ProcessExited,
    /// The client has received the end of the stream.
    Ended,
}

/// Reads some bytes; 0 at the end. After the process has exited, the rest is read with a timeout,
/// as another process may keep the pipe open. Cancel-safe.
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
    // A failed read counts as the end.
    read.unwrap_or_default()
}
