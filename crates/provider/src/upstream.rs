//! Connections to providers: TLS to exactly their host, kept for the next request.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aifo_egress::Connector;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::body::RequestBody;
use crate::tls;
use crate::url::UpstreamUrl;

/// Limit of a connection with TLS.
const CONNECT: Duration = Duration::from_secs(30);

/// Idle connections of a provider, and how long they are kept.
const MAX_IDLE: usize = 8;
const KEEP_IDLE: Duration = Duration::from_secs(60);

/// Connections to all upstreams of a session.
pub(crate) struct Upstreams {
    connector: Connector,
    /// PEM files that are trusted beside this machine's certificates.
    certificates: Vec<PathBuf>,
    /// Made at the first connection: reading the certificates takes many milliseconds.
    tls: OnceCell<TlsConnector>,
    idle: Mutex<HashMap<String, Vec<Idle>>>,
}

/// A connection, and when its last request was sent.
type Idle = (SendRequest<RequestBody>, Instant);

/// Why a request has no response. It has no part of the request.
pub(crate) struct NoResponse {
    pub(crate) reason: String,
    /// False if the provider has received nothing of the request.
    pub(crate) is_sent: bool,
}

impl Upstreams {
    pub(crate) fn new(connector: Connector, certificates: &[PathBuf]) -> Self {
        let (certificates, tls, idle) = (certificates.to_vec(), OnceCell::new(), Mutex::default());
        Upstreams { connector, certificates, tls, idle }
    }

    /// Sends a request and returns the response's head.
    pub(crate) async fn send(
        &self,
        url: &UpstreamUrl,
        mut request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, NoResponse> {
        let unsent = |reason| NoResponse { reason, is_sent: false };
        loop {
            let idle = self.take(url);
            let is_idle = idle.is_some();
            let mut sender = match idle {
                Some(sender) => sender,
                None => {
                    let timed_out = |_| format!("timed out after {} s", CONNECT.as_secs());
                    let connected = timeout(CONNECT, self.connect(url)).await.map_err(timed_out);
                    connected.flatten().map_err(unsent)?
                }
            };
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.keep(url, sender, response)),
                Err(mut error) => match error.take_message() {
                    // The provider closed the connection while it was idle.
                    Some(unsent) if is_idle => request = unsent,
                    message => {
                        let (is_sent, reason) = (message.is_none(), error.into_error().to_string());
                        return Err(NoResponse { reason, is_sent });
                    }
                },
            }
        }
    }

    async fn connect(&self, url: &UpstreamUrl) -> Result<SendRequest<RequestBody>, String> {
        let connecting = self.connector.connect(url.host(), url.port(), url.addresses());
        let stream = connecting.await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        if !url.is_tls() {
            return handshake(stream).await;
        }
        let name =
            ServerName::try_from(url.host().to_owned()).map_err(|error| error.to_string())?;
        let tls = self.tls().await.map_err(|error| error.to_string())?;
        let stream = tls.connect(name, stream).await.map_err(|error| error.to_string())?;
        handshake(stream).await
    }

    /// Errors: this machine has no certificates. The next connection tries again.
    async fn tls(&self) -> io::Result<&TlsConnector> {
        let make = async || {
            let files = self.certificates.clone();
            let reading = tokio::task::spawn_blocking(move || tls::connector(&files));
            reading.await.map_err(io::Error::other)?
        };
        self.tls.get_or_try_init(make).await
    }

    fn take(&self, url: &UpstreamUrl) -> Option<SendRequest<RequestBody>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(url.authority())?;
        kept.retain(|(sender, since)| !sender.is_closed() && since.elapsed() < KEEP_IDLE);
        // Others still receive a response.
        let ready = kept.iter().rposition(|(sender, _)| sender.is_ready())?;
        Some(kept.remove(ready).0)
    }

    /// Keeps a connection, which is ready for the next request when this response has ended.
    fn keep(
        &self,
        url: &UpstreamUrl,
        sender: SendRequest<RequestBody>,
        response: Response<Incoming>,
    ) -> Response<Incoming> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(url.authority().to_owned()).or_default();
        if kept.len() < MAX_IDLE {
            kept.push((sender, Instant::now()));
        }
        response
    }
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<RequestBody>, String> {
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| error.to_string())?;
    // It ends with the sender and the response's body.
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}
