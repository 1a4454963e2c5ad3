//! A forge's API with a few answers, behind a token.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The credential of its user.
pub(crate) const TOKEN: &str = "forge-token-0123456789abcdef";

pub(crate) struct ApiServer {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ApiServer {
    pub(crate) async fn start() -> ApiServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        let kept = Arc::clone(&kept);
                        async move { Ok::<_, Infallible>(answer(request, port, &kept).await) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        ApiServer { port, requests, serving }
    }

    /// The requests so far, with their bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn answer(
    request: Request<Incoming>,
    port: u16,
    kept: &Mutex<Vec<String>>,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let line = format!("{} {}", head.method, head.uri);
    let respond = |status: u16, body: Value| {
        let text = Bytes::from(body.to_string());
        let response =
            Response::builder().status(status).header("content-type", "application/json");
        response.body(Full::new(text)).unwrap()
    };
    let given =
        head.headers.get("authorization").and_then(|it| it.to_str().ok()).unwrap_or_default();
    if line.contains("service=git-upload-pack") {
        return respond(404, json!({}));
    }
    kept.lock().unwrap().push(format!("{line} {}", String::from_utf8_lossy(&body)));
    if given != format!("token {TOKEN}") {
        return respond(401, json!({"message": "Bad credentials"}));
    }
    let first = "GET /api/v3/repos/o/r/issues";
    match line.as_str() {
        "POST /api/graphql" => respond(200, graphql(&serde_json::from_slice(&body).unwrap())),
        "GET /api/v3/repos/o/r/contents/echo" => respond(500, json!({"message": given})),
        "GET /api/v3/repos/o/r/contents/moved" => {
            let mut moved = respond(302, json!({}));
            moved.headers_mut().insert("location", "https://other.example/".parse().unwrap());
            moved
        }
        "GET /api/v3/repos/o/r/pulls/1" => respond(200, json!({"title": "a title"})),
        "POST /api/v3/repos/o/r/issues/1/comments" => respond(201, json!({"body": "made"})),
        _ if line.starts_with(first) && !line.contains("page=2") => {
            let mut page = respond(200, json!([{"title": "first page"}]));
            let next = format!(
                "<http://127.0.0.1:{port}/api/v3/repositories/7/issues?page=2>; rel=\"next\""
            );
            page.headers_mut().insert("link", next.parse().unwrap());
            page
        }
        _ if line.starts_with(first) => respond(200, json!([{"title": "second page"}])),
        _ => respond(404, json!({"message": "Not Found"})),
    }
}

/// The answer to what gh asks; of its fields the server knows some.
fn graphql(request: &Value) -> Value {
    let query = request["query"].as_str().unwrap();
    let has = |text: &str| query.contains(text);
    let url = |path: &str| format!("https://forge.example/o/r/{path}");
    let data = if has("createPullRequest") {
        json!({"createPullRequest": {"pullRequest": {"id": "PR_2", "url": url("pull/2")}}})
    } else if has("createIssue") {
        json!({"createIssue": {"issue": {"id": "I_3", "url": url("issues/3")}}})
    } else if has("addComment") {
        json!({"addComment": {"commentEdge": {"node": {"url": url("pull/1#c")}}}})
    } else if has("__type") {
        json!({})
    } else {
        let author = json!({"login": "me", "id": "U_me"});
        let pull = json!({
            "id": "PR_1", "number": 1, "title": "a title", "body": "a body", "state": "OPEN",
            "url": url("pull/1"), "headRefName": "topic", "baseRefName": "main", "author": author,
            "isCrossRepository": false, "mergeStateStatus": "CLEAN", "mergeable": "MERGEABLE",
            "createdAt": "2026-01-01T00:00:00Z",
            "headRepository": {"id": "R_own", "name": "r"}, "headRepositoryOwner": author,
        });
        let list = match has("headRefName: $headRefName") {
            true => json!([]),
            false => json!([pull.clone()]),
        };
        let repository = json!({
            "id": "R_own", "name": "r", "owner": {"login": "o"}, "viewerPermission": "WRITE",
            "hasIssuesEnabled": true, "defaultBranchRef": {"name": "main"},
            "mergeCommitAllowed": true, "rebaseMergeAllowed": true, "squashMergeAllowed": true,
            "parent": null, "pullRequest": pull,
            "pullRequests": {"totalCount": 1, "nodes": list, "pageInfo": {"hasNextPage": false}},
        });
        let issue = json!({
            "__typename": "Issue", "id": "I_1", "number": 1, "title": "an issue", "state": "OPEN",
            "url": url("issues/1"), "author": author, "createdAt": "2026-01-01T00:00:00Z",
        });
        let mut repository = repository;
        repository["issue"] = issue;
        let mut data = json!({});
        for (name, value) in
            [("viewer", &author), ("repo_000", &repository), ("repository", &repository)]
        {
            if has(&format!("{name}: ")) || has(&format!("{name}(")) || has(&format!("{name} {{")) {
                data[name] = value.clone();
            }
        }
        data
    };
    json!({"data": data})
}
