//! Relays WebSockets.

use std::io;

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

use crate::meter::Meter;
use crate::redact::Redactor;

/// Bytes that are read at once.
const PART: usize = 16 * 1024;

/// Relays both directions until both have ended, or one fails. The redactor overwrites the key in the frames of
/// the provider, which are not masked.
pub(crate) async fn relay(
    agent: impl AsyncRead + AsyncWrite,
    provider: impl AsyncRead + AsyncWrite,
    meter: &Meter,
    redactor: Redactor,
) -> io::Result<()> {
    let (from_agent, to_agent) = split(agent);
    let (from_provider, to_provider) = split(provider);
    let sending = copy(from_agent, to_provider, Redactor::of(&[]), |count| meter.add_sent(count));
    let receiving = copy(from_provider, to_agent, redactor, |count| meter.add_received(count));
    tokio::try_join!(sending, receiving).map(|_| ())
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut redactor: Redactor,
    count: impl Fn(usize),
) -> io::Result<()> {
    let mut part = vec![0; PART];
    loop {
        let read = from.read(&mut part).await?;
        count(read);
        let (bytes, _) = part.split_at(read);
        let passed = redactor.read(Bytes::copy_from_slice(bytes));
        to.write_all(&passed).await?;
        if read == 0 {
            to.write_all(&redactor.finish()).await?;
            return to.shutdown().await;
        }
    }
}
