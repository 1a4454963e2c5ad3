//! The reverse proxy to a git forge: an agent's git gets the user's credential, and each push is judged by its refs
//! (`spec/forges.md`).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use aifo_egress::Connector;
use aifo_forge::{GitRequest, GitService, Oid, PushReader, RepositoryPath, advertised_ids};
use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;

use crate::body::{RequestBody, ResponseBody, Sent, poll_data, refused};
use crate::connections::serve_connections;
use crate::forge::{Forge, ForgeGate, PushedTo};
use crate::forge_refusal::ForgeRefusal;
use crate::forge_upstream::{ForgeUpstream, Outgoing, read_all};
use crate::forges::ForgeForm;
use crate::head::{Head, check_head, local_hosts};
use crate::headers;
use crate::lfs::{self, MAX_BATCH};

/// Passes the requests of an agent's git to a forge. Clones share connections.
#[derive(Clone)]
pub struct ForgeProxy(Arc<Shared>);

struct Shared {
    upstream: ForgeUpstream,
    gate: Arc<dyn ForgeGate>,
    /// The ids of the refs of repositories, as the forge told them last.
    known: Mutex<HashMap<RepositoryPath, Arc<HashSet<Oid>>>>,
}

impl ForgeProxy {
    /// Creates the proxy. `certificates` are PEM files that are trusted beside this machine's own.
    pub fn new(
        forge: Arc<Forge>,
        gate: Arc<dyn ForgeGate>,
        connector: Connector,
        certificates: &[PathBuf],
    ) -> Self {
        let upstream = ForgeUpstream::new(forge, connector, certificates);
        ForgeProxy(Arc::new(Shared { upstream, gate, known: Mutex::default() }))
    }

    /// Serves a listener until the future is dropped, which ends its connections.
    pub async fn serve(&self, listener: TcpListener) {
        let Ok(hosts) = local_hosts(&listener) else { return };
        let (shared, hosts) = (Arc::clone(&self.0), Arc::new(hosts));
        serve_connections(listener, &self.0.upstream.background, move |request| {
            let (shared, hosts) = (Arc::clone(&shared), Arc::clone(&hosts));
            async move { shared.respond(request, &*hosts).await }
        })
        .await;
    }
}

impl fmt::Debug for ForgeProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForgeProxy").field(&self.0.upstream.forge).finish()
    }
}

/// A request of git that may be passed on.
struct Permitted {
    repository: RepositoryPath,
    /// The path of the repository at the forge, and what follows it.
    path: String,
    end: usize,
    query: Option<String>,
    request: GitRequest,
}

impl Shared {
    async fn respond(
        &self,
        request: Request<Incoming>,
        hosts: &[String],
    ) -> Response<ResponseBody> {
        let name = &self.upstream.forge.name;
        let answered = match self.judge(&request, hosts) {
            Ok(permitted) => self.pass_on(permitted, request).await,
            Err(refusal) => Err(refusal),
        };
        answered.unwrap_or_else(|refusal| {
            tracing::info!("an agent's request to {name} failed: {refusal}");
            refused(refusal.status(), "text/plain; charset=utf-8", format!("aifo: {refusal}\n"))
        })
    }

    fn judge(
        &self,
        request: &Request<Incoming>,
        hosts: &[String],
    ) -> Result<Permitted, ForgeRefusal> {
        let forge = &self.upstream.forge;
        check_head(&Head::of(request), hosts)?;
        let has = |phantom| headers::has_key(request.headers(), None, phantom);
        let is_tool = has(&forge.of_tools);
        if !is_tool && !has(&forge.phantom) {
            return Err(ForgeRefusal::Credential);
        }
        let (path, query) = (request.uri().path(), request.uri().query());
        let parsed = GitRequest::parse(request.method().as_str(), path, query);
        let unknown = || ForgeRefusal::Path(format!("{} {path}", request.method()));
        let (repository, end, git) = parsed.ok_or_else(unknown)?;
        if !forge.repositories.contains(&repository) {
            return Err(ForgeRefusal::Repository(repository.as_str().to_owned()));
        }
        if is_tool && !matches!(git, GitRequest::Refs(UPLOAD) | GitRequest::Exchange(UPLOAD)) {
            return Err(ForgeRefusal::Tool);
        }
        let is_read =
            matches!(git, GitRequest::Exchange(GitService::ReceivePack) | GitRequest::LfsBatch);
        if is_read && request.headers().contains_key(CONTENT_ENCODING) {
            return Err(ForgeRefusal::Encoded);
        }
        let path = match forge.form {
            // Its repositories may be directories with or without this end.
            ForgeForm::Git => path.to_owned(),
            _ => format!("{}{end}", forge.path_of(&repository)),
        };
        let end = path.len() - end.len();
        Ok(Permitted { repository, path, end, query: query.map(str::to_owned), request: git })
    }

    async fn pass_on(
        &self,
        permitted: Permitted,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, ForgeRefusal> {
        let (mut head, body) = request.into_parts();
        let body: RequestBody = match permitted.request {
            GitRequest::Exchange(GitService::ReceivePack) => {
                match self.read_push(&permitted, body).await? {
                    Judged::Allowed(body) => Either::Left(body),
                    Judged::Answered(answer) => return Ok(rejected(answer)),
                }
            }
            GitRequest::LfsBatch => {
                let batch = read_all(body, MAX_BATCH).await.ok_or(ForgeRefusal::MALFORMED)?;
                let batch = lfs::Batch::parse(&batch)?;
                if let Some(change) = batch.change() {
                    let to = self.pushed_to(&permitted).await;
                    self.gate.judge_change(to, change).await.map_err(ForgeRefusal::Denied)?;
                }
                Either::Right(Full::new(batch.body()))
            }
            GitRequest::LfsLocks => return Err(ForgeRefusal::Locks),
            _ => Either::Left(self.upstream.sent(Bytes::new(), body)),
        };
        if permitted.request.is_of_push() {
            // No version of the protocol has another form of pushes, so far.
            head.headers.remove(GIT_PROTOCOL);
        }
        let (forge, request) = (&self.upstream.forge, permitted.request);
        let outgoing = Outgoing {
            url: &forge.url,
            method: match request {
                GitRequest::Refs(_) => Method::GET,
                _ => Method::POST,
            },
            path: &permitted.path,
            query: permitted.query.as_deref(),
            headers: head.headers,
            credential: forge.header(),
        };
        let response = self.upstream.send(outgoing, body).await?;
        let is_good = response.status() == StatusCode::OK;
        if is_good && request == GitRequest::Refs(GitService::ReceivePack) {
            let list = "its list of refs";
            let (answer, bytes) = self.upstream.read(response, forge.header(), list).await?;
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(permitted.repository, Arc::new(advertised_ids(&bytes)));
            return Ok(answer);
        }
        let is_pack = is_good
            && request == GitRequest::Exchange(GitService::UploadPack)
            && response.headers().get(CONTENT_TYPE).is_some_and(|of| of == PACK_TYPE);
        Ok(self.upstream.received(response, forge.header(), is_pack))
    }

    fn known_of(&self, repository: &RepositoryPath) -> Arc<HashSet<Oid>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(repository).cloned().unwrap_or_default()
    }

    async fn pushed_to(&self, permitted: &Permitted) -> PushedTo {
        let path = permitted.path.get(..permitted.end).unwrap_or_default();
        PushedTo {
            host: self.upstream.forge.url.host_name(),
            repository: permitted.repository.clone(),
            is_public: self.upstream.is_public(path).await,
        }
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
            return Ok(Judged::Allowed(self.upstream.sent(begin, body)));
        }
        let to = self.pushed_to(permitted).await;
        let known = self.known_of(&to.repository);
        match self.gate.judge_push(to, push.clone(), known).await {
            Ok(()) => Ok(Judged::Allowed(self.upstream.sent(begin, body))),
            Err(reason) => {
                // git reads the answer only once it has sent everything.
                while let Some(Ok(_)) = poll_fn(|context| poll_data(&mut body, context)).await {}
                let short = reason.split(": ").next().unwrap_or_default();
                let answer = push.rejection(short, &format!("aifo: {reason}"));
                Ok(Judged::Answered(Full::new(Bytes::from(answer))))
            }
        }
    }
}

const UPLOAD: GitService = GitService::UploadPack;

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
