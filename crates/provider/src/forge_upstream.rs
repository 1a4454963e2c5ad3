//! Requests to a forge with the user's credential, and their responses without it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aifo_egress::Connector;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode, Version};
use tokio::time::timeout;

use crate::background::Background;
use crate::body::{Counted, Received, RequestBody, ResponseBody, Sent};
use crate::forge::Forge;
use crate::forge_refusal::ForgeRefusal;
use crate::headers;
use crate::meter::{Meter, UsageLimits};
use crate::providers::KeyHeader;
use crate::redact::Redactor;
use crate::server::RESPONSE_MINUTES;
use crate::upstream::Upstreams;
use crate::url::UpstreamUrl;

/// The connections to a forge.
pub(crate) struct ForgeUpstream {
    pub(crate) forge: Arc<Forge>,
    connections: Upstreams,
    meter: Arc<Meter>,
    pub(crate) background: Arc<Background>,
}

/// Where a request goes, and how.
pub(crate) struct Outgoing<'a> {
    pub(crate) url: &'a UpstreamUrl,
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    /// Those of the agent.
    pub(crate) headers: HeaderMap,
    pub(crate) credential: KeyHeader,
}

/// Time for bodies that are read as a whole.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Time for requests without a credential.
const PUBLIC_TIME: Duration = Duration::from_secs(10);

impl ForgeUpstream {
    pub(crate) fn new(forge: Arc<Forge>, connector: Connector, certificates: &[PathBuf]) -> Self {
        let connections = Upstreams::new(connector, certificates);
        let meter = Arc::new(Meter::new(UsageLimits::default()));
        ForgeUpstream { forge, connections, meter, background: Arc::default() }
    }

    /// Sends a request, whose head is new.
    pub(crate) async fn send(
        &self,
        outgoing: Outgoing<'_>,
        body: RequestBody,
    ) -> Result<Response<Incoming>, ForgeRefusal> {
        let name = || self.forge.name.clone();
        let unreadable = |reason| ForgeRefusal::Source { forge: name(), reason };
        let key = self.forge.key.get().await.map_err(unreadable)?;
        let Outgoing { url, method, path, query, headers, credential } = outgoing;
        let headers = headers::to_provider(&headers, credential, &key);
        let authority = HeaderValue::from_str(url.authority());
        let (Some(mut headers), Ok(authority)) = (headers, authority) else {
            return Err(ForgeRefusal::MALFORMED);
        };
        headers.insert(HOST, authority);
        let mut request = Request::new(body);
        *request.method_mut() = method;
        let target = url.request_target(path, query).parse();
        *request.uri_mut() = target.map_err(|_| ForgeRefusal::MALFORMED)?;
        *request.headers_mut() = headers;
        let limit = Duration::from_secs(RESPONSE_MINUTES * 60);
        let sending = timeout(limit, self.connections.send(url, request));
        let sent = sending.await.map_err(|_| ForgeRefusal::Timeout(RESPONSE_MINUTES))?;
        let response = sent.map_err(|error| ForgeRefusal::Upstream(error.reason))?;
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            self.forge.key.refuse(&key).await;
            return Err(ForgeRefusal::Unauthorized(name()));
        }
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            return Err(ForgeRefusal::Redirect(name()));
        }
        if status == StatusCode::SWITCHING_PROTOCOLS || headers::is_encoded(response.headers()) {
            return Err(ForgeRefusal::Upstream("its response is in another form".to_owned()));
        }
        Ok(response)
    }

    /// Returns the response for an agent: without credentials, and the forge's own questions for them. Objects, which no
    /// server makes of request heads, pass as they are.
    pub(crate) fn received(
        &self,
        response: Response<Incoming>,
        credential: KeyHeader,
        is_objects: bool,
    ) -> Response<ResponseBody> {
        let mut redactor = self.forge.key.redactor(credential);
        let mut headers = headers::to_agent(response.headers());
        headers.remove(WWW_AUTHENTICATE);
        redactor.clear(&mut headers);
        if is_objects {
            redactor = Redactor::of(&[]);
        }
        let (mut parts, body) = response.into_parts();
        parts.extensions.clear();
        (parts.headers, parts.version) = (headers, Version::HTTP_11);
        let counted = Counted::new(body, Arc::clone(&self.meter), "", None, false);
        let body = Received::new(counted, redactor, Arc::clone(&self.background));
        Response::from_parts(parts, Either::Right(body))
    }

    /// Reads a response as a whole. Returns it for the agent, and its body.
    pub(crate) async fn read(
        &self,
        response: Response<Incoming>,
        credential: KeyHeader,
        what: &str,
    ) -> Result<(Response<ResponseBody>, Bytes), ForgeRefusal> {
        let failed = |how: &str| ForgeRefusal::Upstream(format!("{what} {how}"));
        let (parts, body) = response.into_parts();
        let bytes = read_all(body, MAX_RESPONSE).await;
        let bytes = bytes.ok_or_else(|| failed("broke, did not end, or has more than 16 MiB"))?;
        let mut redactor = self.forge.key.redactor(credential);
        let clean = [redactor.read(bytes.clone()), redactor.finish()].concat();
        let mut answer = Response::new(Either::Left(Full::new(Bytes::from(clean))));
        *answer.status_mut() = parts.status;
        *answer.headers_mut() = headers::to_agent(&parts.headers);
        redactor.clear(answer.headers_mut());
        answer.headers_mut().remove(CONTENT_LENGTH);
        answer.headers_mut().remove(WWW_AUTHENTICATE);
        Ok((answer, bytes))
    }

    /// Returns a body that begins with bytes already read.
    pub(crate) fn sent(&self, begin: Bytes, rest: Incoming) -> Sent {
        Sent::with_begin(begin, rest, Arc::clone(&self.meter))
    }

    /// Returns whether the forge answers a fetch of this path without a credential; true also if that fails.
    pub(crate) async fn is_public(&self, repository: &str) -> bool {
        let url = &self.forge.url;
        let path = format!("{repository}/info/refs");
        let target = url.request_target(&path, Some("service=git-upload-pack"));
        let body = Either::Right(Full::new(Bytes::new()));
        let request = Request::get(target.as_str()).header(HOST, url.authority()).body(body);
        let Ok(request) = request else { return true };
        let answered = timeout(PUBLIC_TIME, self.connections.send(url, request)).await;
        let status = answered.map(|response| response.map(|response| response.status()));
        !matches!(
            status,
            Ok(Ok(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND))
        )
    }
}

/// The longest response that is read as a whole.
const MAX_RESPONSE: usize = 16 << 20;

/// Reads a body of at most `limit` bytes. `None` if it is longer, breaks, or does not end.
pub(crate) async fn read_all(
    body: impl Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
    limit: usize,
) -> Option<Bytes> {
    let reading = timeout(BODY_TIME, Limited::new(body, limit).collect());
    Some(reading.await.ok()?.ok()?.to_bytes())
}
