//! The reverse proxy to a git forge: an agent's git gets the user's credential, and each push is judged by its refs
//! (`spec/forges.md`).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aifo_egress::Connector;
use aifo_forge::{GitRequest, GitService, Oid, PushReader, RepositoryPath, advertised_ids};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, WWW_AUTHENTICATE,
};
use hyper::{Request, Response, StatusCode, Version};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::background::Background;
use crate::body::{Counted, Received, RequestBody, ResponseBody, Sent, poll_data};
use crate::connections::serve_connections;
use crate::forge::{Forge, PushGate, PushedTo};
use crate::forge_refusal::ForgeRefusal;
use crate::forges::ForgeForm;
use crate::head::{Head, check_head};
use crate::headers;
use crate::key::Key;
use crate::lfs::{self, MAX_BATCH};
use crate::meter::{Meter, UsageLimits};
use crate::redact::Redactor;
use crate::server::RESPONSE_MINUTES;
use crate::upstream::Upstreams;

/// Passes the requests of an agent's git to a forge. Clones share connections.
#[derive(Clone)]
pub struct ForgeProxy(Arc<Shared>);

struct Shared {
    forge: Arc<Forge>,
    gate: Arc<dyn PushGate>,
    connections: Upstreams,
    meter: Arc<Meter>,
    background: Arc<Background>,
    /// The ids of the refs of repositories, as the forge told them last.
    known: Mutex<HashMap<RepositoryPath, Arc<HashSet<Oid>>>>,
}

impl ForgeProxy {
    /// Creates the proxy. `certificates` are PEM files that are trusted beside this machine's own.
    pub fn new(
        forge: Arc<Forge>,
        gate: Arc<dyn PushGate>,
        connector: Connector,
        certificates: &[PathBuf],
    ) -> Self {
        let connections = Upstreams::new(connector, certificates);
        let meter = Arc::new(Meter::new(UsageLimits::default()));
        let (background, known) = (Arc::default(), Mutex::default());
        ForgeProxy(Arc::new(Shared { forge, gate, connections, meter, background, known }))
    }

    /// Serves a listener until the future is dropped, which ends its connections.
    pub async fn serve(&self, listener: TcpListener) {
        let shared = Arc::clone(&self.0);
        serve_connections(listener, &self.0.background, move |request, port| {
            let shared = Arc::clone(&shared);
            async move { shared.respond(request, port).await }
        })
        .await;
    }
}

impl fmt::Debug for ForgeProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForgeProxy").field(&self.0.forge).finish()
    }
}

/// A request of git that may be passed on.
struct Permitted {
    repository: RepositoryPath,
    /// The path at the forge.
    path: String,
    query: Option<String>,
    request: GitRequest,
}

impl Shared {
    async fn respond(&self, request: Request<Incoming>, port: u16) -> Response<ResponseBody> {
        let name = &self.forge.name;
        let answered = match self.judge(&request, port) {
            Ok(permitted) => self.pass_on(permitted, request).await,
            Err(refusal) => Err(refusal),
        };
        answered.unwrap_or_else(|refusal| {
            tracing::info!("an agent's request to {name} failed: {refusal}");
            text(refusal.status(), &format!("aifo: {refusal}\n"))
        })
    }

    fn judge(&self, request: &Request<Incoming>, port: u16) -> Result<Permitted, ForgeRefusal> {
        let head = Head {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
        };
        check_head(&head, port)?;
        if !headers::has_key(request.headers(), None, &self.forge.phantom) {
            return Err(ForgeRefusal::Credential);
        }
        let (path, query) = (request.uri().path(), request.uri().query());
        let parsed = GitRequest::parse(request.method().as_str(), path, query);
        let unknown = || ForgeRefusal::Path(format!("{} {path}", request.method()));
        let (repository, end, git) = parsed.ok_or_else(unknown)?;
        if !self.forge.repositories.contains(&repository) {
            return Err(ForgeRefusal::Repository(repository.as_str().to_owned()));
        }
        let is_read =
            matches!(git, GitRequest::Exchange(GitService::ReceivePack) | GitRequest::LfsBatch);
        if is_read && request.headers().contains_key(CONTENT_ENCODING) {
            return Err(ForgeRefusal::Encoded);
        }
        let path = match self.forge.form {
            // Its repositories may be directories with or without this end.
            ForgeForm::Git => path.to_owned(),
            _ => format!("/{}.git{end}", repository.as_str()),
        };
        Ok(Permitted { repository, path, query: query.map(str::to_owned), request: git })
    }

    async fn pass_on(
        &self,
        permitted: Permitted,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, ForgeRefusal> {
        let (head, body) = request.into_parts();
        let outgoing: RequestBody = match permitted.request {
            GitRequest::Exchange(GitService::ReceivePack) => {
                match self.read_push(&permitted, body).await? {
                    Judged::Allowed(body) => Either::Left(body),
                    Judged::Answered(answer) => return Ok(rejected(answer)),
                }
            }
            GitRequest::LfsBatch => {
                let reading = timeout(BATCH_TIME, Limited::new(body, MAX_BATCH).collect());
                let batch = reading.await.ok().and_then(Result::ok);
                let batch = batch.ok_or(ForgeRefusal::MALFORMED)?.to_bytes();
                Either::Right(Full::new(lfs::download(&batch)?))
            }
            _ => Either::Left(Sent::new(body, Arc::clone(&self.meter))),
        };
        let unreadable = |reason| ForgeRefusal::Source { forge: self.forge.name.clone(), reason };
        let key = self.forge.key.get().await.map_err(unreadable)?;
        let outgoing = self.outgoing(&permitted, &head.headers, outgoing, &key)?;
        let limit = Duration::from_secs(RESPONSE_MINUTES * 60);
        let sending = timeout(limit, self.connections.send(&self.forge.url, outgoing));
        let sent = sending.await.map_err(|_| ForgeRefusal::Timeout(RESPONSE_MINUTES))?;
        let response = sent.map_err(|error| ForgeRefusal::Upstream(error.reason))?;
        let name = || self.forge.name.clone();
        if response.status() == StatusCode::UNAUTHORIZED {
            self.forge.key.refuse(&key).await;
            return Err(ForgeRefusal::Unauthorized(name()));
        }
        if response.status().is_redirection() {
            return Err(ForgeRefusal::Redirect(name()));
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            || headers::is_encoded(response.headers())
        {
            return Err(ForgeRefusal::Upstream("its response is in another form".to_owned()));
        }
        match permitted.request {
            GitRequest::Refs(GitService::ReceivePack) if response.status() == StatusCode::OK => {
                self.keep_refs(permitted.repository, response).await
            }
            request => Ok(self.received(response, request)),
        }
    }

    /// Returns the response to git: without the credential, and the forge's own questions for one.
    fn received(
        &self,
        response: Response<Incoming>,
        request: GitRequest,
    ) -> Response<ResponseBody> {
        let mut redactor = self.forge.key.redactor(self.forge.header());
        let mut headers = headers::to_agent(response.headers());
        headers.remove(WWW_AUTHENTICATE);
        redactor.clear(&mut headers);
        let is_pack = response.status() == StatusCode::OK
            && request == GitRequest::Exchange(GitService::UploadPack)
            && headers.get(CONTENT_TYPE).is_some_and(|of| of == PACK_TYPE);
        if is_pack {
            // Objects, of any size, which no server makes of a request's head.
            redactor = Redactor::of(&[]);
        }
        let (mut parts, body) = response.into_parts();
        parts.extensions.clear();
        (parts.headers, parts.version) = (headers, Version::HTTP_11);
        let counted = Counted::new(body, Arc::clone(&self.meter), "", None, false);
        let body = Received::new(counted, redactor, Arc::clone(&self.background));
        Response::from_parts(parts, Either::Right(body))
    }

    /// Reads the forge's refs, and keeps their ids.
    async fn keep_refs(
        &self,
        repository: RepositoryPath,
        response: Response<Incoming>,
    ) -> Result<Response<ResponseBody>, ForgeRefusal> {
        let failed = |what: &str| ForgeRefusal::Upstream(format!("its list of refs {what}"));
        let (parts, body) = response.into_parts();
        let reading = timeout(REFS_TIME, Limited::new(body, MAX_REFS).collect());
        let body = reading.await.map_err(|_| failed("did not end"))?;
        let bytes = body.map_err(|_| failed("broke, or has more than 16 MiB"))?.to_bytes();
        let ids = Arc::new(advertised_ids(&bytes));
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(repository, ids);
        let mut redactor = self.forge.key.redactor(self.forge.header());
        let bytes = [redactor.read(bytes), redactor.finish()].concat();
        let mut answer = Response::new(Either::Left(Full::new(Bytes::from(bytes))));
        *answer.headers_mut() = headers::to_agent(&parts.headers);
        redactor.clear(answer.headers_mut());
        answer.headers_mut().remove(CONTENT_LENGTH);
        Ok(answer)
    }

    fn known_of(&self, repository: &RepositoryPath) -> Arc<HashSet<Oid>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(repository).cloned().unwrap_or_default()
    }

    /// Reads the head of a push, and has it judged.
    async fn read_push(
        &self,
        permitted: &Permitted,
        mut body: Incoming,
    ) -> Result<Judged, ForgeRefusal> {
        let mut reader = PushReader::default();
        let (push, pack) = loop {
            let data = poll_fn(|context| poll_data(&mut body, context)).await;
            let data = data.and_then(Result::ok).ok_or(ForgeRefusal::MALFORMED)?;
            if let Some(read) = reader.read(&data).map_err(ForgeRefusal::Push)? {
                break read;
            }
        };
        let begin = Bytes::from([push.head(), pack].concat());
        if push.updates().is_empty() {
            // The probe before a large push.
            if !body.is_end_stream()
                && poll_fn(|context| poll_data(&mut body, context)).await.is_some()
            {
                return Err(ForgeRefusal::MALFORMED);
            }
            return Ok(Judged::Allowed(Sent::with_begin(begin, body, Arc::clone(&self.meter))));
        }
        let to = PushedTo {
            host: self.forge.url.host_name(),
            repository: permitted.repository.clone(),
            is_public: self.is_public(&permitted.path).await,
        };
        let known = self.known_of(&to.repository);
        match self.gate.judge(to, push.clone(), known).await {
            Ok(()) => {
                let body = Sent::with_begin(begin, body, Arc::clone(&self.meter));
                Ok(Judged::Allowed(body))
            }
            Err(reason) => {
                // git reads the answer only once it has sent everything.
                while let Some(Ok(_)) = poll_fn(|context| poll_data(&mut body, context)).await {}
                let short = reason.split(": ").next().unwrap_or_default();
                let answer = push.rejection(short, &format!("aifo: {reason}"));
                Ok(Judged::Answered(Full::new(Bytes::from(answer))))
            }
        }
    }

    /// Returns whether the forge answers a fetch of this push's repository without a credential; true also if that fails.
    async fn is_public(&self, push: &str) -> bool {
        let repository = push.strip_suffix("/git-receive-pack").unwrap_or(push);
        let path = format!("{repository}/info/refs");
        let target = self.forge.url.request_target(&path, Some("service=git-upload-pack"));
        let body = Either::Right(Full::new(Bytes::new()));
        let (authority, uri) = (self.forge.url.authority(), target.as_str());
        let Ok(request) = Request::get(uri).header(HOST, authority).body(body) else { return true };
        let answered = timeout(PUBLIC_TIME, self.connections.send(&self.forge.url, request)).await;
        let status = answered.map(|response| response.map(|response| response.status()));
        !matches!(
            status,
            Ok(Ok(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND))
        )
    }

    /// Returns the request to the forge, whose head is new.
    fn outgoing(
        &self,
        permitted: &Permitted,
        given: &HeaderMap,
        body: RequestBody,
        key: &Key,
    ) -> Result<Request<RequestBody>, ForgeRefusal> {
        let headers = headers::to_provider(given, self.forge.header(), key);
        let authority = HeaderValue::from_str(self.forge.url.authority());
        let (Some(mut headers), Ok(authority)) = (headers, authority) else {
            return Err(ForgeRefusal::MALFORMED);
        };
        headers.insert(HOST, authority);
        if permitted.request.is_of_push() {
            // No version of the protocol has another form of pushes, so far.
            headers.remove(GIT_PROTOCOL);
        }
        let target = self.forge.url.request_target(&permitted.path, permitted.query.as_deref());
        let mut outgoing = Request::new(body);
        *outgoing.method_mut() = match permitted.request {
            GitRequest::Refs(_) => hyper::Method::GET,
            GitRequest::Exchange(_) | GitRequest::LfsBatch => hyper::Method::POST,
        };
        *outgoing.uri_mut() = target.parse().map_err(|_| ForgeRefusal::MALFORMED)?;
        *outgoing.headers_mut() = headers;
        Ok(outgoing)
    }
}

/// Limit of the request without a credential.
const PUBLIC_TIME: Duration = Duration::from_secs(10);

/// Limits for refs.
const MAX_REFS: usize = 16 << 20;
const REFS_TIME: Duration = Duration::from_secs(60);

/// Limit of a batch of git-lfs.
const BATCH_TIME: Duration = Duration::from_secs(60);

const PACK_TYPE: &str = "application/x-git-upload-pack-result";

const RESULT_TYPE: &str = "application/x-git-receive-pack-result";

const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");

enum Judged {
    /// The whole body, for the forge.
    Allowed(Sent),
    /// The answer to git, which has sent everything.
    Answered(Full<Bytes>),
}

fn rejected(answer: Full<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(Either::Left(answer));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(RESULT_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn text(status: StatusCode, text: &str) -> Response<ResponseBody> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(text.to_owned()))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-aifo-refused", HeaderValue::from_static("1"));
    response
}
