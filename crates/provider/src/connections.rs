//! Connections to a proxy, and their limits.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::background::Background;
use crate::body::ResponseBody;
use crate::head::MAX_HEAD;

/// Connections of an agent at once. Further ones wait.
const MAX_CONNECTIONS: usize = 256;

/// Further limits of a request head.
const MAX_HEADERS: usize = 100;
const HEAD_TIME: Duration = Duration::from_secs(30);

/// Pause after a failed accept, as when the descriptor table is full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Ends the tasks when it is dropped.
struct EndBackground<'a>(&'a Background);

impl Drop for EndBackground<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A listener of agents.
pub(crate) trait AgentListener {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl AgentListener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self).await?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl AgentListener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        UnixListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Answers the requests of a listener until the future is dropped, which ends its connections and the tasks in
/// the background.
pub(crate) async fn serve_connections<F>(
    listener: impl AgentListener,
    background: &Background,
    respond: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let _background = EndBackground(background);
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let permit = Arc::clone(&permits).acquire_owned();
        let (permit, accepted) = tokio::join!(permit, listener.accept());
        match (permit, accepted) {
            (Ok(permit), Ok(stream)) => {
                let respond = respond.clone();
                connections.spawn(async move {
                    serve_connection(stream, respond).await;
                    drop(permit);
                });
            }
            _ => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection<S, F>(stream: S, respond: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Response<ResponseBody>>,
{
    let service = service_fn(|request| {
        let responding = respond(request);
        async move { Ok::<_, Infallible>(responding.await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // The agent's own failure, such as a connection that it resets.
    if let Err(error) = serving.await {
        tracing::debug!("a connection to a proxy of keys ended: {error}");
    }
}
