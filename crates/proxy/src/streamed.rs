//! Version 2 responses: chunked output, the exit code in a trailer.

use std::io;

use aifo_types::ExecId;
use aifo_wire::{
    CHUNK_END, encode_chunk_head, encode_stream_end, encode_stream_end_limited,
    encode_stream_end_unknown, encode_stream_head,
};

use crate::client::Client;
use crate::record::CallResult;
use crate::relayed_exec::ResponseWriter;

/// A chunked response (`spec/toolexec.md#v2-streaming`).
#[derive(Debug)]
pub(crate) struct StreamedResponse {
    echo: Option<ExecId>,
    chunk_head: Vec<u8>,
}

impl StreamedResponse {
    pub(crate) fn new(echo: Option<ExecId>) -> Self {
        StreamedResponse { echo, chunk_head: Vec::new() }
    }
}

impl ResponseWriter for StreamedResponse {
    async fn start(&mut self, client: &Client) -> io::Result<()> {
        let mut head = Vec::with_capacity(256);
        encode_stream_head(&mut head, self.echo.as_ref());
        client.socket.send_all(&head).await
    }

    async fn output(&mut self, client: &Client, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            // An empty chunk would end the body.
            return Ok(());
        }
        self.chunk_head.clear();
        encode_chunk_head(&mut self.chunk_head, data.len());
        client.send_parts([&self.chunk_head, data, CHUNK_END]).await
    }

    async fn end(&mut self, client: &Client, result: &CallResult) -> io::Result<()> {
        let mut tail = Vec::new();
        match (result.ending, result.limit) {
            (Some(_), None) => encode_stream_end(&mut tail, result.exit_code),
            (Some(_), Some(limit)) => encode_stream_end_limited(&mut tail, limit, result.exit_code),
            (None, _) => encode_stream_end_unknown(&mut tail),
        }
        client.socket.send_all(&tail).await
    }
}
