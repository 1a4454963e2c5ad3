//! Rejects an editor when no agent could be started.

use std::time::Duration;

use aifo_acp::{Envelope, Inbound, Limits, Message, MessageReader, RpcError, encode_line};
use tokio::time::{Instant, timeout_at};

use crate::stdio::Stdio;

/// Answers an editor's requests with an error, up to `initialize`, then closes the connection
/// (`spec/acp-commands.md#failures`). Returns when the editor's stream ends, at the latest after
/// `timeout` plus 2 s for the editor to read.
pub async fn refuse_editor(mut editor: Stdio, error: &RpcError, timeout: Duration) {
    let deadline = Instant::now().checked_add(timeout).unwrap_or_else(Instant::now);
    let mut reader = MessageReader::new(&Limits::default());
    // Each answer is written before more is read, which limits the memory for a flooding editor.
    let _ = timeout_at(deadline, async {
        let mut is_initialized = false;
        while !is_initialized {
            let bytes = editor.from.recv().await;
            match &bytes {
                Some(bytes) => reader.receive(bytes),
                None => reader.receive_eof(),
            }
            while let Some(inbound) = reader.next_message().filter(|next| *next != Inbound::Eof) {
                let Some((method, answer)) = refusal(inbound, error) else { continue };
                is_initialized |= method == "initialize";
                let Some(room) = editor.to.reserve().await else { return };
                editor.to.write(room, answer);
            }
            if bytes.is_none() {
                return;
            }
        }
    })
    .await;
    editor.to.finish(Vec::new()).await;
}

/// Returns a request's method and the line that rejects it.
fn refusal(inbound: Inbound, error: &RpcError) -> Option<(String, Vec<u8>)> {
    let (id, method) = match inbound {
        Inbound::Message(Message::Request { id, method, .. })
        | Inbound::TooLong { envelope: Envelope { id: Some(id), method: Some(method) }, .. } => {
            (id, method)
        }
        _ => return None,
    };
    let answer = Message::Response { id, outcome: Err(error.clone()) };
    let line = encode_line(&answer.to_value(), Limits::default().frame_out).ok()?;
    Some((method, line))
}
