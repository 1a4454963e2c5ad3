//! Version 1 responses: all output at once, when the tool has ended.

use std::io;
use std::sync::Arc;

use aifo_types::{ExecId, Kind, Refusal, Status};
use aifo_wire::{encode_refusal, encode_response_head};

use crate::budget::{Share, Use};
use crate::client::Client;
use crate::config::Transcript;
use crate::read_buffer::{ReadBuffer, ReadSize};
use crate::record::CallResult;
use crate::refusals::runner_lost;
use crate::relayed_exec::ResponseWriter;
use crate::spool::{Spool, SpoolSpace};
use crate::state::ProxyState;

/// A buffered response (`spec/toolexec.md#v1-buffered`). Output that exceeds [`MAX_IN_MEMORY`], or the
/// memory of all calls, is kept in an unlinked file.
#[derive(Debug)]
pub(crate) struct BufferedResponse {
    echo: Option<ExecId>,
    transcript: Transcript,
    kind: Kind,
    /// The output, if nothing is spooled.
    memory: Vec<u8>,
    share: Share,
    spool_space: Arc<SpoolSpace>,
    spool: Option<Spool>,
    /// Why output was lost, for example a full disk. Later output is dropped.
    failure: Option<io::Error>,
}

/// Bytes of output kept in memory, per exec.
const MAX_IN_MEMORY: usize = 1024 * 1024;

impl BufferedResponse {
    pub(crate) fn new(
        state: &ProxyState,
        echo: Option<ExecId>,
        transcript: Transcript,
        kind: &Kind,
    ) -> Self {
        BufferedResponse {
            echo,
            transcript,
            kind: kind.clone(),
            memory: Vec::new(),
            share: state.memory.share(),
            spool_space: Arc::clone(&state.spool),
            spool: None,
            failure: None,
        }
    }

    /// Makes room for `more` bytes in memory. `false` if they must be spooled.
    fn has_room(&mut self, more: usize) -> bool {
        let len = self.memory.len().saturating_add(more);
        if self.spool.is_some() || len > MAX_IN_MEMORY {
            return false;
        }
        if len > self.memory.capacity() {
            let capacity = len.next_power_of_two();
            if !self.share.try_resize(capacity, Use::Half) {
                return false;
            }
            self.memory.reserve_exact(capacity - self.memory.len());
        }
        true
    }

    async fn spill(&mut self, data: &[u8]) -> io::Result<()> {
        let mut spool = match self.spool.take() {
            Some(spool) => spool,
            None => Spool::create(&self.spool_space).await?,
        };
        spool.append(&self.memory).await?;
        self.free_memory();
        spool.append(data).await?;
        self.spool = Some(spool);
        Ok(())
    }

    fn free_memory(&mut self) {
        self.memory = Vec::new();
        self.share.try_resize(0, Use::All);
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
        let spooled = self.spool.as_ref().map_or(0, Spool::len);
        let length = 2 * margin.len() + self.memory.len() + last.len() + spooled;
        let mut head = Vec::with_capacity(256);
        let (code, echo) = (Some(result.exit_code), self.echo.as_ref());
        encode_response_head(&mut head, status, code, result.limit, echo, length as u64);
        head.extend_from_slice(margin);
        client.socket.send_all(&head).await?;
        if let Some(spool) = &self.spool {
            let mut buffer = ReadBuffer::new(self.share.budget(), ReadSize::Bulk);
            let mut at = 0;
            while at < spooled {
                let count = spool.read(at, buffer.space()).await?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                client.socket.send_all(buffer.filled(count)).await?;
                at += count;
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
        if self.has_room(data.len()) {
            self.memory.extend_from_slice(data);
        } else if let Err(error) = self.spill(data).await {
            self.failure = Some(error);
            self.free_memory();
        }
        Ok(())
    }

    async fn end(&mut self, client: &Client, result: &CallResult) -> io::Result<()> {
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
