//! The reverse proxy to a forge's API, for gh (`spec/forges.md#gh`).

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use aifo_egress::Connector;
use aifo_forge::{
    ApiChange, ApiRequest, GraphQlRequest, KnownIds, RepositoryPath, own_links, repository_named,
};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LINK};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::UnixListener;

use crate::body::{ResponseBody, refused};
use crate::connections::serve_connections;
use crate::forge::{Forge, ForgeChange, ForgeGate, PushedTo};
use crate::forge_refusal::ForgeRefusal;
use crate::forge_upstream::{ForgeUpstream, Outgoing, read_all};
use crate::head::{Head, check_head};
use crate::headers;
use crate::providers::KeyHeader;

/// Passes the requests of an agent's gh to a forge. Clones share connections.
#[derive(Clone)]
pub struct ForgeApi(Arc<Shared>);

struct Shared {
    upstream: ForgeUpstream,
    gate: Arc<dyn ForgeGate>,
    known: Mutex<KnownIds>,
}

/// Longest request body.
const MAX_BODY: usize = 1 << 20;

/// How credentials are sent.
const CREDENTIAL: KeyHeader = KeyHeader::Token;

impl ForgeApi {
    /// Creates the proxy. `certificates` are PEM files that are trusted beside this machine's own.
    pub fn new(
        forge: Arc<Forge>,
        gate: Arc<dyn ForgeGate>,
        connector: Connector,
        certificates: &[PathBuf],
    ) -> Self {
        let upstream = ForgeUpstream::new(forge, connector, certificates);
        ForgeApi(Arc::new(Shared { upstream, gate, known: Mutex::default() }))
    }

    /// Serves a listener until the future is dropped, which ends its connections.
    pub async fn serve(&self, listener: UnixListener) {
        let shared = Arc::clone(&self.0);
        serve_connections(listener, &self.0.upstream.background, move |request| {
            let shared = Arc::clone(&shared);
            async move { shared.respond(request).await }
        })
        .await;
    }
}

impl fmt::Debug for ForgeApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForgeApi").field(&self.0.upstream.forge).finish()
    }
}

impl Shared {
    async fn respond(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let what = format!("{} {}", request.method(), request.uri().path());
        self.answer(request).await.unwrap_or_else(|refusal| {
            tracing::info!(
                "{what}, a request of an agent to {}, failed: {refusal}",
                self.upstream.forge.name
            );
            let body = json!({"message": format!("aifo: {refusal}")}).to_string();
            refused(refusal.status(), "application/json", body)
        })
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, ForgeRefusal> {
        let (forge, head) = (&self.upstream.forge, Head::of(&request));
        let own = forge.api.url.authority().to_owned();
        check_head(&head, &["127.0.0.1".to_owned(), own.clone()])?;
        if !headers::has_key(request.headers(), None, &forge.phantom) {
            return Err(ForgeRefusal::Credential);
        }
        if request.headers().contains_key(CONTENT_ENCODING) {
            return Err(ForgeRefusal::Encoded);
        }
        let is_own =
            request.headers().get(hyper::header::HOST).is_some_and(|host| host == own.as_str());
        let path = match request.uri().path() {
            // The paths of links that the API itself gives.
            "/graphql" if is_own && forge.api.is_at_root => "/api/graphql".to_owned(),
            path if is_own && forge.api.is_at_root => format!("/api/v3{path}"),
            path => path.to_owned(),
        };
        let (head, body) = request.into_parts();
        let parsed = ApiRequest::parse(head.method.as_str(), &path);
        let parsed = parsed.ok_or_else(|| ForgeRefusal::Api(format!("{} {path}", head.method)))?;
        let at_root = path.strip_prefix("/api/v3").or_else(|| path.strip_prefix("/api"));
        let to = at_root.filter(|_| forge.api.is_at_root).unwrap_or(&path);
        let target = (head.method.clone(), to.to_owned());
        match parsed {
            ApiRequest::GraphQl => self.graphql(target, head.headers, body).await,
            ApiRequest::General => {
                let query = head.uri.query();
                let response = self.send(target, query, head.headers, None).await?;
                Ok(self.upstream.received(response, CREDENTIAL, false))
            }
            ApiRequest::Repository { repository, change } => {
                let repositories = &self.upstream.forge.repositories;
                let other = || ForgeRefusal::Repository(repository.as_str().to_owned());
                let own = repository_named(repositories, repository.as_str()).ok_or_else(other)?;
                if change.is_some() && head.uri.query().is_some() {
                    // Its members would count as those of the body.
                    return Err(ForgeRefusal::MALFORMED);
                }
                let body = match change {
                    None => None,
                    Some(change) => Some(self.judge(own, change, &path, body).await?),
                };
                let response = self.send(target, head.uri.query(), head.headers, body).await?;
                let mut answer = self.upstream.received(response, CREDENTIAL, false);
                let links = answer.headers().get(LINK).and_then(|links| links.to_str().ok());
                let links = links.map(|links| own_links(links, own));
                if let Some(links) = links.and_then(|links| HeaderValue::from_str(&links).ok()) {
                    answer.headers_mut().insert(LINK, links);
                }
                Ok(answer)
            }
        }
    }

    /// Has a change judged. Returns its body, written anew.
    async fn judge(
        &self,
        repository: &RepositoryPath,
        change: ApiChange,
        path: &str,
        body: Incoming,
    ) -> Result<Value, ForgeRefusal> {
        let body = read_all(body, MAX_BODY).await.ok_or(ForgeRefusal::MALFORMED)?;
        let input: Value = match body.is_empty() {
            true => json!({}),
            false => serde_json::from_slice(&body).map_err(|_| ForgeRefusal::MALFORMED)?,
        };
        self.ask(repository, change, format!("{path} {input}")).await?;
        Ok(input)
    }

    async fn ask(
        &self,
        repository: &RepositoryPath,
        change: ApiChange,
        content: String,
    ) -> Result<(), ForgeRefusal> {
        let forge = &self.upstream.forge;
        let to = PushedTo {
            host: forge.url.host_name(),
            repository: repository.clone(),
            is_public: self.upstream.is_public(&forge.path_of(repository)).await,
        };
        let ApiChange { effect, is_each } = change;
        let change = ForgeChange { effect: effect.to_owned(), content, is_each };
        self.gate.judge_change(to, change).await.map_err(ForgeRefusal::Denied)
    }

    async fn graphql(
        &self,
        target: (Method, String),
        headers: HeaderMap,
        body: Incoming,
    ) -> Result<Response<ResponseBody>, ForgeRefusal> {
        let body = read_all(body, MAX_BODY).await.ok_or(ForgeRefusal::MALFORMED)?;
        let request = GraphQlRequest::parse(&body)?;
        let repositories = &self.upstream.forge.repositories;
        let mutation = request.judge(repositories, &self.known())?;
        if let Some(mutation) = mutation {
            let numbers: String = mutation.numbers.iter().map(|it| format!("#{it} ")).collect();
            let content = format!("{numbers}{} {}", mutation.name, mutation.input);
            self.ask(&mutation.repository, mutation.change, content).await?;
        }
        let response = self.send(target, None, headers, Some(request.body())).await?;
        let (answer, bytes) = self.upstream.read(response, CREDENTIAL, "its answer").await?;
        if answer.status() == StatusCode::OK
            && let Ok(answer) = serde_json::from_slice(&bytes)
        {
            request.keep_ids(&answer, repositories, &mut self.known());
        }
        Ok(answer)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, KnownIds> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(
        &self,
        (method, path): (Method, String),
        query: Option<&str>,
        mut headers: HeaderMap,
        body: Option<Value>,
    ) -> Result<Response<Incoming>, ForgeRefusal> {
        headers.remove(CONTENT_TYPE);
        let body = match body {
            None => Bytes::new(),
            Some(body) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Bytes::from(body.to_string())
            }
        };
        let (url, path) = (&self.upstream.forge.api.url, path.as_str());
        let outgoing = Outgoing { url, method, path, query, headers, credential: CREDENTIAL };
        self.upstream.send(outgoing, Either::Right(Full::new(body))).await
    }
}
