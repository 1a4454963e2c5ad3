//! gh through the proxy, at a scripted API.
//!
//! Proves `spec/forges.md#gh` and `spec/forges.md#graphql`.

mod api_server;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use aifo_egress::{Connector, ParentProxy};
use aifo_forge::{Oid, Push, RepositoryPath};
use aifo_provider::{
    Forge, ForgeApi, ForgeChange, ForgeForm, ForgeGate, FreshKey, GateFuture, Key, KeySource,
    PushedTo, UpstreamUrl,
};
use tokio::net::UnixListener;

use api_server::{ApiServer, TOKEN};

struct Fixed;

impl KeySource for Fixed {
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<FreshKey, String>> + Send + '_>> {
        let key = Key::parse(TOKEN).map_err(|error| error.to_string());
        Box::pin(async move { Ok(FreshKey { key: key?, lifetime: None }) })
    }
}

/// Allows what is asked once a session, and keeps what it was asked.
#[derive(Default)]
struct Gate(Mutex<Vec<String>>);

impl ForgeGate for Gate {
    fn judge_push(&self, _: PushedTo, _: Push, _: Arc<HashSet<Oid>>) -> GateFuture {
        unreachable!("gh pushes by git")
    }

    fn judge_change(&self, to: PushedTo, change: ForgeChange) -> GateFuture {
        let line = format!("{} {} {}", to.repository.as_str(), change.effect, change.content);
        self.0.lock().unwrap().push(line);
        let denied = || "not that".to_owned();
        Box::pin(async move { if change.is_each { Err(denied()) } else { Ok(()) } })
    }
}

struct World {
    server: ApiServer,
    gate: Arc<Gate>,
    phantom: String,
    directory: tempfile::TempDir,
    _serving: tokio::task::JoinHandle<()>,
}

impl World {
    async fn new() -> World {
        let server = ApiServer::start().await;
        let url = UpstreamUrl::parse(&format!("http://127.0.0.1:{}", server.port)).unwrap();
        let repositories = vec![RepositoryPath::parse("o/r").unwrap()];
        let forge =
            Forge::new("test", url, ForgeForm::GitHub, Box::new(Fixed), repositories).unwrap();
        let phantom = forge.api().unwrap().0.as_str().to_owned();
        let gate = Arc::new(Gate::default());
        let connector = Connector::new(ParentProxy::from_environment(|_| None).unwrap());
        let of_gate = Arc::clone(&gate) as Arc<dyn ForgeGate>;
        let api = ForgeApi::new(Arc::new(forge), of_gate, connector, &[]);
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("s")).unwrap();
        let _serving = tokio::spawn(async move { api.serve(listener).await });
        World { server, gate, phantom, directory, _serving }
    }

    /// Sends a request, and returns the answer.
    async fn raw(&self, head: &str, body: &str) -> String {
        let socket = self.directory.path().join("s");
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let request = format!("{head}{length}Connection: close\r\n\r\n{body}");
        let sending = move || {
            let mut stream = UnixStream::connect(socket).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8_lossy(&answer).into_owned()
        };
        tokio::task::spawn_blocking(sending).await.unwrap()
    }

    /// Sends a request with all headers that gh sends.
    async fn send(&self, line: &str, body: &str) -> String {
        let head = format!(
            "{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: token {}\r\nContent-Type: application/json\r\n",
            self.phantom
        );
        self.raw(&head, body).await
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.gate.0.lock().unwrap())
    }

    /// gh of an agent. `None` if this machine has none.
    async fn gh(&self, words: &[&str]) -> Option<Output> {
        let config = self.directory.path().join("config");
        std::fs::create_dir_all(&config).unwrap();
        let socket = self.directory.path().join("s");
        let text = format!("version: \"1\"\nhttp_unix_socket: {}\n", socket.display());
        std::fs::write(config.join("config.yml"), text).unwrap();
        let work = self.directory.path().join("work");
        if !work.exists() {
            std::fs::create_dir(&work).unwrap();
            let script = "git init -q -b topic && git config user.name a && git config user.email a@b && \
                git commit -qm first --allow-empty && git remote add origin http://127.0.0.1:9/o/r";
            let made = Command::new("sh").args(["-c", script]).current_dir(&work).status().unwrap();
            assert!(made.success());
        }
        let program = std::env::var_os("AIFO_TEST_GH").unwrap_or_else(|| "gh".into());
        let mut gh = Command::new(program);
        gh.args(words).current_dir(&work).env_clear().env("PATH", "/usr/bin:/bin");
        gh.env("HOME", self.directory.path()).env("GH_CONFIG_DIR", &config);
        gh.env("GH_HOST", "127.0.0.1").env("GH_ENTERPRISE_TOKEN", &self.phantom);
        gh.env("GH_PROMPT_DISABLED", "1").env("GH_NO_UPDATE_NOTIFIER", "1");
        tokio::task::spawn_blocking(move || gh.output().ok()).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gh_works_without_the_credential() {
    let world = World::new().await;
    let listed = world.gh(&["pr", "list"]).await;
    let Some(listed) = listed else {
        let _ = writeln!(std::io::stderr(), "skipped: gh_works_without_the_credential: no gh");
        return;
    };
    let text = |output: &Output| {
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    assert!(listed.status.success() && text(&listed).contains("a title"), "{listed:?}");
    assert_eq!(world.asked(), [""; 0]);
    for (words, expected, asked) in [
        (
            &["pr", "create", "--title", "t", "--body", "b", "--head", "topic", "--base", "main"][..],
            "/o/r/pull/2",
            Some("o/r creates a pull request createPullRequest {\"base"),
        ),
        (&["pr", "view", "1", "--json", "title,body,author"], "a title", None),
        (
            &["issue", "create", "--title", "t", "--body", "b"],
            "/o/r/issues/3",
            Some("o/r creates an issue"),
        ),
        (&["pr", "comment", "1", "--body", "well"], "/o/r/pull/1#c", Some("o/r adds a comment")),
        (&["api", "repos/o/r/pulls/1"], "a title", None),
        (&["api", "--paginate", "repos/o/r/issues"], "second page", None),
        (
            &["api", "repos/{owner}/{repo}/issues/1/comments", "-f", "body=hello"],
            "made",
            Some("o/r adds a comment /api/v3/repos/o/r/issues/1/comments {\"body\":\"hello\"}"),
        ),
    ] {
        let output = world.gh(words).await.unwrap();
        assert!(
            output.status.success() && text(&output).contains(expected),
            "{words:?} {output:?} {:?}",
            world.server.requests()
        );
        let of_gate = world.asked();
        assert_eq!(of_gate.len(), usize::from(asked.is_some()), "{words:?} {of_gate:?}");
        assert!(
            of_gate.iter().all(|line| line.starts_with(asked.unwrap_or_default())),
            "{of_gate:?}"
        );
    }
    for (words, expected) in [
        (&["pr", "merge", "1", "--merge"][..], "not that"),
        (&["api", "-X", "PUT", "repos/o/r/pulls/1/merge"], "not that"),
        (&["api", "repos/o/secret/issues"], "'o/secret' is none of the project's remotes"),
        (&["api", "repos/o/r/actions/secrets"], "is not passed on"),
        (
            &["api", "-X", "PATCH", "repos/o/r/git/refs/heads/main", "-f", "sha=1"],
            "is not passed on",
        ),
        (
            &["api", "graphql", "-f", "query={viewer{repositories(first:9){nodes{name}}}}"],
            "'repositories' may lead to other repositories",
        ),
        (&["repo", "view", "o/secret"], "none of the project's remotes"),
        (&["secret", "list"], "is not passed on"),
    ] {
        let output = world.gh(words).await.unwrap();
        assert!(
            !output.status.success() && text(&output).contains(expected),
            "{words:?} {output:?}"
        );
        assert!(!text(&output).contains(TOKEN), "{output:?}");
    }
}

/// Requests that no gh makes.
#[tokio::test(flavor = "multi_thread")]
async fn forged_requests_change_nothing() {
    let world = World::new().await;
    let read = r#"{"query": "{repository(owner:\"o\",name:\"r\"){id}}"}"#;
    assert!(world.send("POST /api/graphql", read).await.contains("R_own"));
    let before = world.server.requests().len();
    let host = "Host: 127.0.0.1\r\n";
    let phantom = format!("Authorization: token {}\r\n", world.phantom);
    let line = "GET /api/v3/repos/o/r HTTP/1.1\r\n";
    for (head, status) in [
        (format!("{line}{host}"), 403),
        (format!("{line}{phantom}"), 421),
        (format!("{line}{host}{host}{phantom}"), 421),
        (format!("{line}Host: other\r\n{phantom}"), 421),
        (format!("{line}{host}{phantom}Authorization: token x\r\n"), 403),
        (format!("GET http://x/api/v3/repos/o/r HTTP/1.1\r\n{host}{phantom}"), 400),
        (
            format!(
                "POST /api/v3/repos/o/r/issues HTTP/1.1\r\n{host}{phantom}Content-Encoding: gzip\r\n"
            ),
            415,
        ),
    ] {
        let answer = world.raw(&head, "").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
    }
    let graphql = |query: &str| serde_json::json!({"query": query}).to_string();
    for (line, body, status) in [
        ("GET /api/v3/repos/o/../secret", String::new(), 403),
        ("GET /api/v3/repos/o/%72", String::new(), 403),
        ("GET /api/v3/repos/o/r%2f..%2fsecret", String::new(), 403),
        ("GET /api/v3/repos/o/r/contents/%2e%2e/%2e%2e/secret", String::new(), 403),
        ("GET /api/v3/repositories/1", String::new(), 403),
        ("GET /api/graphql?query=%7Bviewer%7Blogin%7D%7D", String::new(), 403),
        ("DELETE /api/v3/repos/o/r", String::new(), 403),
        ("POST /api/v3/repos/o/r/issues", "{".to_owned(), 400),
        ("POST /api/v3/repos/o/r/issues", "a=b".to_owned(), 400),
        ("POST /api/v3/repos/o/r/issues?title=x", "{}".to_owned(), 400),
        ("POST /api/graphql", format!("[{read}]"), 403),
        (
            "POST /api/graphql",
            graphql(
                "mutation{a:addComment(input:{subjectId:\"R_own\"}){clientMutationId} b:mergePullRequest(input:{pullRequestId:\"R_own\"}){clientMutationId}}",
            ),
            403,
        ),
        (
            "POST /api/graphql",
            graphql("mutation{updateRef(input:{refId:\"R_own\"}){clientMutationId}}"),
            403,
        ),
        (
            "POST /api/graphql",
            graphql("mutation{createIssue(input:{repositoryId:\"R_parent\"}){clientMutationId}}"),
            403,
        ),
        (
            "POST /api/graphql",
            graphql(
                "mutation M{createIssue(input:{repositoryId:\"R_own\"}){clientMutationId}} query Q{viewer{login}}",
            ),
            403,
        ),
        (
            "POST /api/graphql",
            graphql("{search(query:\"x\",type:REPOSITORY,first:1){nodes{__typename}}}"),
            403,
        ),
    ] {
        let answer = world.send(line, &body).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line} {body}: {answer}");
        assert!(!answer.contains(TOKEN), "{answer}");
    }
    assert_eq!(world.server.requests().len(), before, "{:?}", world.server.requests());
    assert_eq!(world.asked(), [""; 0]);
    // An echo of the forge, and a redirect.
    let answer = world.send("GET /api/v3/repos/o/r/contents/echo", "").await;
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("token ****"), "{answer}");
    assert!(!answer.contains(TOKEN), "{answer}");
    let answer = world.send("GET /api/v3/repos/o/r/contents/moved", "").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

/// The answers are incomplete, so gh may fail, but by no refusal.
#[tokio::test(flavor = "multi_thread")]
async fn gh_reads_the_project() {
    let world = World::new().await;
    for words in [
        "browse -n",
        "issue list",
        "issue list --search x",
        "issue status",
        "issue view 1",
        "issue view 1 --comments",
        "label list",
        "pr checks 1",
        "pr diff 1",
        "pr list --author x --label y",
        "pr status",
        "pr view 1",
        "pr view 1 --comments",
        "pr view 1 --json closed,comments,commits,files,labels,mergeCommit,mergedBy,milestone,reviews,statusCheckRollup",
        "release list",
        "repo view",
        "repo view --json defaultBranchRef,isFork,languages,parent",
        "run list",
        "run view 1",
        "workflow list",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let Some(output) = world.gh(&words).await else { return };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("aifo: ") && !text.contains("HTTP 403"), "{words:?} {text}");
        assert_eq!(world.asked(), [""; 0], "{words:?}");
    }
}
