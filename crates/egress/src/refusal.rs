//! Refusals that a client can read: a TLS alert, an HTTP response, or a reset.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::client::Client;
use crate::event::ConnectionError;
use crate::limits::Limits;
use crate::name::Name;
use crate::rule::Protocol;
use crate::rules::allow_hint;

/// The bytes of a client that are discarded after a refusal.
const MAX_DISCARDED: usize = 256 * 1024;

/// Answers a connection that is refused or failed, and closes it.
///
/// TLS gets an alert, HTTP a response with the cause, other protocols a reset. The client has
/// [`Limits::refusal`] to read it.
pub(crate) async fn refuse(
    client: Client,
    protocol: Protocol,
    name: Option<&Name>,
    port: u16,
    error: &ConnectionError,
    limits: &Limits,
) {
    let answer = match protocol {
        Protocol::Http => response(name, port, error),
        Protocol::Tls => vec![21, 3, 1, 0, 2, 2, alert(error)],
        Protocol::Raw => {
            client.reset();
            return;
        }
    };
    // The client may be gone. Its unread bytes would turn the close into a reset, which can
    // overtake the answer.
    let mut client = client.stream;
    let answering = async {
        client.write_all(&answer).await?;
        client.shutdown().await?;
        let mut discarded = 0;
        let mut buffer = [0; 4096];
        while discarded < MAX_DISCARDED {
            match client.read(&mut buffer).await? {
                0 => break,
                read => discarded += read,
            }
        }
        Ok::<(), std::io::Error>(())
    };
    let _ = timeout(limits.refusal, answering).await;
}

/// Returns the description of a fatal alert (RFC 8446, section 6.2).
fn alert(error: &ConnectionError) -> u8 {
    const ACCESS_DENIED: u8 = 49;
    const DECODE_ERROR: u8 = 50;
    const INTERNAL_ERROR: u8 = 80;
    const UNRECOGNIZED_NAME: u8 = 112;
    match error {
        ConnectionError::NoSni | ConnectionError::OtherSni(_) => UNRECOGNIZED_NAME,
        ConnectionError::Hello(_) => DECODE_ERROR,
        error if error.is_refusal() => ACCESS_DENIED,
        _ => INTERNAL_ERROR,
    }
}

/// Returns a response with the cause.
fn response(name: Option<&Name>, port: u16, error: &ConnectionError) -> Vec<u8> {
    let status = match error {
        ConnectionError::FirstBytesTimeout(_) => "408 Request Timeout",
        error if error.is_refusal() => "403 Forbidden",
        _ => "502 Bad Gateway",
    };
    let mut text = match name {
        Some(name) => format!("aifo: {name}:{port}: {error}\n"),
        None => format!("aifo: port {port}: {error}\n"),
    };
    if let (ConnectionError::NoRule, Some(name)) = (error, name) {
        text += &format!("hint: allow it with {}\n", allow_hint(name, Some(port)));
    }
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    (head + &text).into_bytes()
}
