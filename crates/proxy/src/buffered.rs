//! Version 1 responses: all output at once, when the tool has ended.

use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};

use aifo_types::{ExecId, Kind, Refusal, Status};
use aifo_wire::{encode_refusal, encode_response_head};
use nix::fcntl::OFlag;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::client::Client;
use crate::config::Transcript;
use crate::record::CallResult;
use crate::refusals::runner_lost;
use crate::relayed_exec::ResponseWriter;

/// A buffered response (`spec/toolexec.md#v1-buffered`). Output beyond [`MAX_IN_MEMORY`] is kept in an
/// unlinked file.
#[derive(Debug)]
pub(crate) struct BufferedResponse {
    echo: Option<ExecId>,
    transcript: Transcript,
    spool_dir: PathBuf,
    kind: Kind,
    memory: Vec<u8>,
    spool: Option<File>,
    spooled: u64,
    /// Why output was lost, for example a full disk. Later output is dropped.
    failure: Option<io::Error>,
}

/// Bytes of output kept in memory, per exec.
const MAX_IN_MEMORY: usize = 1024 * 1024;
/// Bytes per read or write of the file.
const SPOOL_STEP: usize = 256 * 1024;

impl BufferedResponse {
    pub(crate) fn new(
        echo: Option<ExecId>,
        transcript: Transcript,
        spool_dir: &Path,
        kind: &Kind,
    ) -> Self {
        BufferedResponse {
            echo,
            transcript,
            spool_dir: spool_dir.to_owned(),
            kind: kind.clone(),
            memory: Vec::new(),
            spool: None,
            spooled: 0,
            failure: None,
        }
    }

    async fn spill(&mut self) -> io::Result<()> {
        if self.spool.is_none() {
            self.spool = Some(unnamed_file(&self.spool_dir).await?);
        }
        if let Some(spool) = &mut self.spool {
            spool.write_all(&self.memory).await?;
            self.spooled += self.memory.len() as u64;
            self.memory.clear();
        }
        Ok(())
    }

    async fn send(
        &mut self,
        client: &Client,
        status: Status,
        result: &CallResult,
        last: &[u8],
    ) -> io::Result<()> {
        let margin: &[u8] = match self.transcript {
            Transcript::Plain => b"",
            Transcript::OnOwnLines => b"\n",
        };
        let length = 2 * margin.len() + self.memory.len() + last.len();
        let length = self.spooled + length as u64;
        let mut head = Vec::with_capacity(256);
        let (code, echo) = (Some(result.exit_code), self.echo.as_ref());
        encode_response_head(&mut head, status, code, result.limit, echo, length);
        head.extend_from_slice(margin);
        client.socket.send_all(&head).await?;
        if let Some(spool) = &mut self.spool {
            spool.seek(SeekFrom::Start(0)).await?;
            let mut step = vec![0; SPOOL_STEP];
            let mut left = self.spooled;
            while left > 0 {
                let count = spool.read(&mut step).await?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                client.socket.send_all(&step[..count]).await?;
                left = left.saturating_sub(count as u64);
            }
        }
        client.socket.send_all(&self.memory).await?;
        client.send_parts([last, margin, b""]).await
    }
}

impl ResponseWriter for BufferedResponse {
    async fn start(&mut self, _client: &Client) -> io::Result<()> {
        Ok(())
    }

    async fn output(&mut self, _client: &Client, data: &[u8]) -> io::Result<()> {
        if self.failure.is_some() {
            return Ok(());
        }
        let kept = if self.spool.is_some() { SPOOL_STEP } else { MAX_IN_MEMORY };
        if self.memory.len() + data.len() > kept
            && let Err(error) = self.spill().await
        {
            self.failure = Some(error);
        }
        self.memory.extend_from_slice(data);
        Ok(())
    }

    async fn end(&mut self, client: &Client, result: &CallResult) -> io::Result<()> {
        // tokio reports a failed write with the next operation; this is the last one.
        if let (Some(spool), None) = (&mut self.spool, &self.failure) {
            self.failure = spool.flush().await.err();
        }
        let lost = match (&result.ending, &self.failure) {
            (None, _) => Some(runner_lost(&self.kind)),
            (Some(_), Some(error)) => Some(format!(
                "the tool ran, but its output could not be kept: {error}; use protocol version 2"
            )),
            (Some(_), None) => None,
        };
        if let Some(cause) = lost {
            let mut answer = Vec::new();
            encode_refusal(&mut answer, &Refusal::EndingUnknown(cause), self.echo.as_ref());
            return client.socket.send_all(&answer).await;
        }
        if result.timed_out {
            return self.send(client, (504, "Gateway Timeout"), result, b"timeout\n").await;
        }
        self.send(client, (200, "OK"), result, b"").await
    }
}

/// Creates a file in `directory` that has no name and is removed when it is closed.
async fn unnamed_file(directory: &Path) -> io::Result<File> {
    let mut options = tokio::fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(OFlag::O_TMPFILE.bits());
    let mut file = options.open(directory).await?;
    file.set_max_buf_size(SPOOL_STEP);
    Ok(file)
}
