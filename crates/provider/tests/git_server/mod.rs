//! A forge: `git http-backend` behind basic authentication.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::prelude::{BASE64_STANDARD, Engine};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::tls::server_config;

/// The credential of its user.
pub(crate) const TOKEN: &str = "forge-token-0123456789abcdef";

pub(crate) const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "a"),
    ("GIT_AUTHOR_EMAIL", "a@b"),
    ("GIT_COMMITTER_NAME", "a"),
    ("GIT_COMMITTER_EMAIL", "a@b"),
];

pub(crate) struct GitServer {
    pub(crate) port: u16,
    root: tempfile::TempDir,
    /// Its own, as PEM, if it has TLS.
    pub(crate) certificate: Option<PathBuf>,
    requests: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl GitServer {
    /// Serves bare repositories of these paths, each with a commit at `main`.
    pub(crate) async fn start(paths: &[&str], has_tls: bool) -> GitServer {
        let root = tempfile::tempdir().unwrap();
        let (certificate, acceptor) = has_tls.then(|| tls(root.path())).unzip();
        for path in paths {
            create(&root.path().join(format!("{path}.git")));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let (counter, directory) = (Arc::clone(&requests), root.path().to_owned());
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (counter, directory) = (Arc::clone(&counter), directory.clone());
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        counter.fetch_add(1, Ordering::Relaxed);
                        let directory = directory.clone();
                        async move { Ok::<_, Infallible>(answer(&directory, request).await) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = match acceptor {
                        None => http.serve_connection(TokioIo::new(stream), service).await,
                        Some(acceptor) => {
                            let Ok(stream) = acceptor.accept(stream).await else { return };
                            http.serve_connection(TokioIo::new(stream), service).await
                        }
                    };
                });
            }
        });
        GitServer { port, root, certificate, requests, serving }
    }

    /// The id of a ref, empty if there is none.
    pub(crate) fn id(&self, path: &str, name: &str) -> String {
        let mut git = Command::new("git");
        git.arg("--git-dir").arg(self.root.path().join(format!("{path}.git")));
        let output = git.args(["rev-parse", "-q", "--verify", name]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The files of git-lfs.
    pub(crate) fn stored(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.root.path().join("store")).into_iter().flatten();
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
    }

    /// The names of the refs of a repository.
    pub(crate) fn refs(&self, path: &str) -> Vec<String> {
        let mut git = Command::new("git");
        git.arg("--git-dir").arg(self.root.path().join(format!("{path}.git")));
        let output = git.args(["for-each-ref", "--format=%(refname)"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// How many requests have arrived.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Sends bytes to a port of this machine, and returns the answer.
    pub(crate) async fn raw(&self, port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// A certificate of its own, and what accepts with it.
fn tls(directory: &Path) -> (PathBuf, TlsAcceptor) {
    let (config, pem) = server_config();
    let file = directory.join("certificate.pem");
    std::fs::write(&file, pem).unwrap();
    (file, TlsAcceptor::from(config))
}

fn create(path: &Path) {
    let run = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).envs(IDENTITY).stdin(Stdio::null()).stdout(Stdio::piped());
        let output = git.arg("--").output().unwrap();
        assert!(output.status.success(), "{words:?} {output:?}");
    };
    let text = path.to_str().unwrap();
    run(&["init", "-q", "--bare", "-b", "main", text]);
    let work = tempfile::tempdir().unwrap();
    let script = format!(
        "cd {} && git init -q -b main && echo x >file && git add file && git commit -qm first && \
         git push -q {text} main && git -C {text} config http.receivepack true && \
         git -C {text} config receive.denyDeleteCurrent ignore",
        work.path().display()
    );
    let output = Command::new("sh").args(["-c", &script]).envs(IDENTITY).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

async fn answer(root: &Path, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    if let Some(id) = head.uri.path().strip_prefix("/store/") {
        return store(&root.join("store"), id, &head, &body);
    }
    let given = head.headers.get("authorization").and_then(|it| it.to_str().ok());
    let expected = format!("Basic {}", BASE64_STANDARD.encode(format!("git:{TOKEN}")));
    if given != Some(&expected) {
        let mut response = Response::new(Full::new(Bytes::from(format!("who is {given:?}?"))));
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response.headers_mut().insert("www-authenticate", "Basic realm=x".parse().unwrap());
        return response;
    }
    if head.uri.path().starts_with("/o/echo") {
        let mut response = Response::new(Full::new(Bytes::from(format!("{given:?} {TOKEN}"))));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response.headers_mut().insert("x-echo", given.unwrap_or_default().parse().unwrap());
        return response;
    }
    if head.uri.path().ends_with("/info/lfs/objects/batch") {
        return batch(&head, &body);
    }
    let mut backend = Command::new("git");
    backend.arg("http-backend").env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    backend.env("REQUEST_METHOD", head.method.as_str()).env("PATH_INFO", head.uri.path());
    backend.env("QUERY_STRING", head.uri.query().unwrap_or_default()).env("REMOTE_USER", "me");
    for (variable, header) in [
        ("CONTENT_TYPE", "content-type"),
        ("HTTP_CONTENT_ENCODING", "content-encoding"),
        ("GIT_PROTOCOL", "git-protocol"),
    ] {
        let value = head.headers.get(header).and_then(|it| it.to_str().ok());
        backend.env(variable, value.unwrap_or_default());
    }
    backend.env("CONTENT_LENGTH", body.len().to_string());
    let mut child = tokio::process::Command::from(backend)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    tokio::spawn(async move {
        let _ = stdin.write_all(&body).await;
    });
    let output = child.wait_with_output().await.unwrap().stdout;
    let end = output.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
    let mut response = Response::new(Full::new(Bytes::from(output[end + 4..].to_vec())));
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(": ").unwrap();
        match name {
            "Status" => *response.status_mut() = value[..3].parse().unwrap(),
            _ => {
                let name = hyper::header::HeaderName::try_from(name).unwrap();
                response.headers_mut().insert(name, value.parse().unwrap());
            }
        }
    }
    response
}

/// A store's header, which the forge makes for a short time.
const OF_STORE: &str = "a header of the store";

fn batch(head: &Parts, body: &[u8]) -> Response<Full<Bytes>> {
    let batch: Value = serde_json::from_slice(body).unwrap();
    let host = head.headers["host"].to_str().unwrap();
    let objects = batch["objects"].as_array().unwrap().iter().map(|object| {
        let href = format!("http://{host}/store/{}", object["oid"].as_str().unwrap());
        let action = json!({"href": href, "header": {"X-Store": OF_STORE}});
        json!({"oid": object["oid"], "size": object["size"],
            "actions": {batch["operation"].as_str().unwrap(): action}})
    });
    let objects: Vec<Value> = objects.collect();
    let text = json!({"transfer": "basic", "objects": objects}).to_string();
    let response = Response::builder().header("content-type", "application/vnd.git-lfs+json");
    response.body(Full::new(Bytes::from(text))).unwrap()
}

fn store(directory: &Path, id: &str, head: &Parts, body: &[u8]) -> Response<Full<Bytes>> {
    assert_eq!(head.headers["x-store"], OF_STORE);
    assert!(head.headers.get("authorization").is_none(), "{head:?}");
    std::fs::create_dir_all(directory).unwrap();
    let file = directory.join(id);
    if head.method == "PUT" {
        std::fs::write(&file, body).unwrap();
    }
    Response::new(Full::new(Bytes::from(std::fs::read(file).unwrap())))
}
