//! An agent of the test, and the reverse proxy that it uses.

use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aifo_egress::Connector;
use aifo_provider::{
    FreshKey, Key, KeySource, Provider, ReverseProxy, Upstream, UpstreamUrl, UsageLimits,
};
use tokio::runtime::Runtime;

use crate::provider::{KEY, TestProvider};

/// A reverse proxy with the providers `openai`, `anthropic` and `gemini`, all of them the same test provider.
pub(crate) struct Agent {
    pub(crate) port: u16,
    pub(crate) proxy: ReverseProxy,
    phantoms: Vec<(String, String)>,
    key: Arc<Mutex<String>>,
    /// Serves the proxy until it is dropped.
    _runtime: Runtime,
}

/// A source whose key can change.
struct Source(Arc<Mutex<String>>);

impl KeySource for Source {
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<FreshKey, String>> + Send + '_>> {
        let key = Key::parse(&self.0.lock().unwrap()).map_err(|error| error.to_string());
        Box::pin(async move { Ok(FreshKey { key: key?, lifetime: None }) })
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Agent {
    pub(crate) fn start(provider: &TestProvider, limits: UsageLimits) -> Self {
        let key = Arc::new(Mutex::new(KEY.to_owned()));
        let upstreams = ["openai", "anthropic", "gemini"].map(|name| {
            let url = UpstreamUrl::parse(&format!("https://localhost:{}", provider.port)).unwrap();
            let source = Box::new(Source(Arc::clone(&key)));
            Upstream::new(name, Provider::of(name).unwrap(), Some(url), source).unwrap()
        });
        let own = |upstream: &Upstream| {
            (upstream.name().to_owned(), upstream.phantom().as_str().to_owned())
        };
        let phantoms = upstreams.iter().map(own).collect();
        let certificates = [provider.certificate.path().to_owned()];
        let proxy =
            ReverseProxy::new(upstreams.into(), Connector::new(None), &certificates, limits);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = proxy.clone();
        runtime.spawn(async move { serving.serve(listener).await });
        Agent { port, proxy, phantoms, key, _runtime: runtime }
    }

    pub(crate) fn phantom(&self, provider: &str) -> &str {
        &self.phantoms.iter().find(|(name, _)| name == provider).unwrap().1
    }

    /// Changes the key in its source.
    pub(crate) fn rotate(&self, key: &str) {
        key.clone_into(&mut self.key.lock().unwrap());
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// Sends bytes, and reads until the connection ends.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The proxy may refuse before it has read everything.
        let _ = stream.write_all(bytes);
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request with these further header lines.
    pub(crate) fn request(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        let mut text = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n", self.port);
        for header in headers {
            text += &format!("{header}\r\n");
        }
        text += &format!("Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        Answer::parse(&self.exchange(text.as_bytes()))
    }

    /// Sends a permitted request.
    pub(crate) fn post(&self, body: &str) -> Answer {
        let key = format!("Authorization: Bearer {}", self.phantom("openai"));
        self.request("POST /openai/v1/chat/completions", &[&key], body)
    }
}

impl Answer {
    pub(crate) fn parse(text: &str) -> Answer {
        let text = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(text);
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap();
        let body = match head.to_lowercase().contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_owned(),
        };
        Answer { status, head: head.to_owned(), body }
    }
}

fn unchunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body += &rest[..length];
        text = &rest[length + 2..];
    }
    body
}
