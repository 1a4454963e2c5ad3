//! The reverse proxy: accepts an agent's connections, and passes permitted requests on.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aifo_egress::Connector;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::background::Background;
use crate::body::{self, Counted, Received, RequestBody, ResponseBody, Sent};
use crate::connections::serve_connections;
use crate::demand::{self, CountedBody, Demand};
use crate::head::{Head, local_hosts};
use crate::headers;
use crate::judge::{Permitted, Served, judge};
use crate::key::{Key, PhantomKey};
use crate::meter::{Meter, Reservation, Usage, UsageLimits};
use crate::providers::{ErrorForm, Provider};
use crate::redact::Redactor;
use crate::refusal::Refusal;
use crate::source::{KeptKey, KeySource};
use crate::tunnel;
use crate::upstream::{NoResponse, Upstreams};
use crate::url::{UpstreamUrl, UrlError};

/// Limit until the head of a response, in minutes: models think before the first byte.
pub(crate) const RESPONSE_MINUTES: u64 = 15;

/// Limits of bodies that are read before they are sent: bytes, how many at once, and how long.
const MAX_BODY: usize = 32 << 20;
const MAX_BODIES: usize = 4;
const BODY_TIME: Duration = Duration::from_secs(60);

/// A provider that an agent may use.
pub struct Upstream {
    name: String,
    provider: &'static Provider,
    url: UpstreamUrl,
    phantom: PhantomKey,
    key: KeptKey,
}

impl Upstream {
    /// Draws a phantom key for the provider of this row, at its own URL or one of the user's. `name` is the
    /// first segment of the agent paths.
    pub fn new(
        name: &str,
        provider: &'static Provider,
        url: Option<UpstreamUrl>,
        source: Box<dyn KeySource>,
    ) -> io::Result<Self> {
        let invalid = |error: UrlError| io::Error::new(io::ErrorKind::InvalidInput, error);
        let url =
            url.map_or_else(|| UpstreamUrl::of_row(provider.upstream).map_err(invalid), Ok)?;
        let (name, phantom) = (name.to_owned(), PhantomKey::generate(&provider.shape)?);
        Ok(Upstream { name, provider, url, phantom, key: KeptKey::new(source) })
    }

    /// Returns the key for the agent.
    pub fn phantom(&self) -> &PhantomKey {
        &self.phantom
    }

    /// Returns the first segment of the agent paths.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Served for Upstream {
    fn provider(&self) -> &Provider {
        self.provider
    }

    fn phantom(&self) -> &PhantomKey {
        &self.phantom
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.name)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Passes requests of an agent on, with the user's keys. Clones share connections and counts.
#[derive(Clone)]
pub struct ReverseProxy(Arc<Shared>);

struct Shared {
    upstreams: Vec<Upstream>,
    connections: Upstreams,
    meter: Arc<Meter>,
    /// What outlives its request.
    background: Arc<Background>,
    /// Bodies that are read before they are sent.
    bodies: Semaphore,
}

impl ReverseProxy {
    /// Creates the proxy. `certificates` are PEM files that are trusted beside this machine's own. All are read
    /// at the first request.
    pub fn new(
        upstreams: Vec<Upstream>,
        connector: Connector,
        certificates: &[PathBuf],
        limits: UsageLimits,
    ) -> Self {
        let connections = Upstreams::new(connector, certificates);
        let (meter, background) = (Arc::new(Meter::new(limits)), Arc::default());
        let bodies = Semaphore::new(MAX_BODIES);
        ReverseProxy(Arc::new(Shared { upstreams, connections, meter, background, bodies }))
    }

    /// Returns the counts so far.
    pub fn usage(&self) -> Usage {
        self.0.meter.usage()
    }

    /// Serves a listener until the future is dropped, which ends its connections.
    pub async fn serve(&self, listener: TcpListener) {
        let Ok(hosts) = local_hosts(&listener) else { return };
        let (shared, hosts) = (Arc::clone(&self.0), Arc::new(hosts));
        serve_connections(listener, &self.0.background, move |request| {
            let (shared, hosts) = (Arc::clone(&shared), Arc::clone(&hosts));
            async move { shared.respond(request, &*hosts).await }
        })
        .await;
    }
}

impl fmt::Debug for ReverseProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReverseProxy").field("upstreams", &self.0.upstreams).finish_non_exhaustive()
    }
}

impl Shared {
    async fn respond(
        &self,
        request: Request<Incoming>,
        hosts: &[String],
    ) -> Response<ResponseBody> {
        let head = Head::of(&request);
        let known = || {
            let names = self.upstreams.iter().map(|upstream| upstream.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let find = |name: &str| self.upstreams.iter().find(|upstream| upstream.name == name);
        let (upstream, permitted) = match judge(&head, hosts, find, known) {
            Ok(permitted) => permitted,
            Err((upstream, refusal)) => {
                tracing::info!("refused an agent's request to a provider: {refusal}");
                let form = upstream.map(|upstream| upstream.provider.errors);
                return refused(&refusal, form.unwrap_or(ErrorForm::OpenAi));
            }
        };
        match self.pass_on(upstream, &permitted, request).await {
            Ok(response) => response,
            Err(refusal) => {
                tracing::info!("an agent's request to {} failed: {refusal}", upstream.name);
                refused(&refusal, upstream.provider.errors)
            }
        }
    }

    async fn pass_on(
        &self,
        upstream: &Upstream,
        permitted: &Permitted,
        mut request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let unreadable = |reason| Refusal::Source { provider: upstream.name.clone(), reason };
        let key = upstream.key.get().await.map_err(unreadable)?;
        let agent_side = permitted.is_web_socket.then(|| hyper::upgrade::on(&mut request));
        let (outgoing, mut reservation) = self.admit(upstream, permitted, request).await?;
        let outgoing = self.outgoing(upstream, permitted, outgoing, &key)?;
        let limit = Duration::from_secs(RESPONSE_MINUTES * 60);
        let sending = timeout(limit, self.connections.send(&upstream.url, outgoing));
        let mut response = match sending.await.map_err(|_| Refusal::Timeout(RESPONSE_MINUTES))? {
            Ok(response) => response,
            Err(NoResponse { reason, is_sent }) => {
                if let Some(reservation) = reservation.as_mut().filter(|_| !is_sent) {
                    reservation.settle();
                }
                return Err(Refusal::Upstream(reason));
            }
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            upstream.key.refuse(&key).await;
        }
        if headers::is_encoded(response.headers()) {
            let reason = "its response is encoded, although the request forbids that".to_owned();
            return Err(Refusal::Upstream(reason));
        }
        let redactor = upstream.key.redactor(upstream.provider.key_header);
        let mut headers = headers::to_agent(response.headers());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(agent_side) = agent_side else {
                let reason = "it changed the protocol of a plain request".to_owned();
                return Err(Refusal::Upstream(reason));
            };
            headers::change_to_web_socket(&mut headers);
            self.tunnel(agent_side, hyper::upgrade::on(&mut response), redactor.clone());
        }
        redactor.clear(&mut headers);
        let (mut parts, body) = response.into_parts();
        if let Some(reservation) = reservation.as_mut().filter(|_| is_refusal(parts.status)) {
            reservation.settle();
        }
        // The reason phrase is the provider's text too.
        parts.extensions.clear();
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default();
        let counted = Counted::new(
            body,
            Arc::clone(&self.meter),
            content_type,
            reservation,
            is_error(parts.status),
        );
        (parts.headers, parts.version) = (headers, Version::HTTP_11);
        let body = Received::new(counted, redactor, Arc::clone(&self.background));
        Ok(Response::from_parts(parts, Either::Right(body)))
    }

    /// Counts a request. With a limit of tokens, one that costs some is read to see how many.
    async fn admit(
        &self,
        upstream: &Upstream,
        permitted: &Permitted,
        request: Request<Incoming>,
    ) -> Result<(Request<RequestBody>, Option<Reservation>), Refusal> {
        let pass = |body| Either::Left(Sent::new(body, Arc::clone(&self.meter)));
        if !permitted.is_counted {
            self.meter.admit()?;
            return Ok((request.map(pass), None));
        }
        if !self.meter.limits_tokens() {
            let reservation = self.meter.reserve(Demand::default()).await?;
            return Ok((request.map(pass), Some(reservation)));
        }
        if permitted.is_web_socket {
            return Err(Refusal::WebSocket);
        }
        demand::check_form(permitted.query.as_deref(), request.headers())?;
        let (head, body) = request.into_parts();
        let permit = self.bodies.acquire().await;
        let reading = timeout(BODY_TIME, Limited::new(body, MAX_BODY).collect());
        let body = reading.await.map_err(|_| Refusal::MALFORMED)?;
        let is_long = |error: &(dyn std::error::Error + 'static)| error.is::<LengthLimitError>();
        let body = body.map_err(|error| match is_long(&*error) {
            true => Refusal::Uncounted("its body is longer than 32 MiB".to_owned()),
            false => Refusal::MALFORMED,
        })?;
        // Mistral rejects the option, and reports usage without it.
        let takes_options = upstream.provider.name != "mistral";
        let counted = CountedBody::read(body.to_bytes(), &permitted.path, takes_options)?;
        let CountedBody { body, demand } = counted;
        let reservation = self.meter.reserve(demand).await?;
        drop(permit);
        self.meter.add_sent(body.len());
        let body = Either::Right(Full::new(body));
        Ok((Request::from_parts(head, body), Some(reservation)))
    }

    /// Returns the request to the provider, whose head is new.
    fn outgoing(
        &self,
        upstream: &Upstream,
        permitted: &Permitted,
        request: Request<RequestBody>,
        key: &Key,
    ) -> Result<Request<RequestBody>, Refusal> {
        let headers = headers::to_provider(request.headers(), upstream.provider.key_header, key);
        let authority = HeaderValue::from_str(upstream.url.authority());
        let (Some(mut headers), Ok(authority)) = (headers, authority) else {
            return Err(Refusal::MALFORMED);
        };
        headers.insert(HOST, authority);
        if permitted.is_web_socket {
            headers::change_to_web_socket(&mut headers);
        }
        let target = upstream.url.request_target(&permitted.path, permitted.query.as_deref());
        let (parts, body) = request.into_parts();
        let mut outgoing = Request::new(body);
        *outgoing.method_mut() = parts.method;
        *outgoing.uri_mut() = target.parse().map_err(|_| Refusal::MALFORMED)?;
        *outgoing.headers_mut() = headers;
        Ok(outgoing)
    }

    /// Relays a WebSocket until either side closes.
    fn tunnel(&self, agent: OnUpgrade, provider: OnUpgrade, redactor: Redactor) {
        let meter = Arc::clone(&self.meter);
        self.background.spawn(async move {
            let (Ok(agent), Ok(provider)) = tokio::join!(agent, provider) else { return };
            let (agent, provider) = (TokioIo::new(agent), TokioIo::new(provider));
            // The end of a side that has failed closes the other one.
            let _ = tunnel::relay(agent, provider, &meter, redactor).await;
        });
    }
}

/// True for the answer of a provider that has not begun: to the key, the path or the rate of requests.
fn is_refusal(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401..=405 | 429)
}

/// True for an error of the provider's own. That of a gateway leaves open what the provider did.
fn is_error(status: StatusCode) -> bool {
    !status.is_success() && !matches!(status.as_u16(), 502 | 504 | 520..=524)
}

fn refused(refusal: &Refusal, form: ErrorForm) -> Response<ResponseBody> {
    let text = refusal.body(form).to_string();
    let mut response = body::refused(refusal.status(), "application/json", text);
    if refusal.status() == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    }
    response
}
