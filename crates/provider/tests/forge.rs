//! git through the proxy, at a real server of git's own behind authentication.
//!
//! Proves `spec/forges.md#git`, `spec/forges.md#requests` and `spec/forges.md#pushes`.

mod git_server;
mod tls;

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use aifo_egress::{Connector, ParentProxy};
use aifo_forge::{Oid, Push, RefChange, RemoteUrl, RepositoryPath, git_settings};
use aifo_provider::{
    Forge, ForgeChange, ForgeForm, ForgeGate, ForgeProxy, FreshKey, GateFuture, Key, KeySource,
    PushedTo, UpstreamUrl,
};
use base64::prelude::{BASE64_STANDARD, Engine};
use tokio::net::TcpListener;

use git_server::{GitServer, TOKEN};

struct Fixed(&'static str);

impl KeySource for Fixed {
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<FreshKey, String>> + Send + '_>> {
        let key = Key::parse(self.0).map_err(|error| error.to_string());
        Box::pin(async move { Ok(FreshKey { key: key?, lifetime: None }) })
    }
}

/// Allows creations only, and keeps what it was asked.
#[derive(Default)]
struct Gate(Mutex<Vec<String>>);

impl ForgeGate for Gate {
    fn judge_push(&self, to: PushedTo, push: Push, known: Arc<HashSet<Oid>>) -> GateFuture {
        let _ = known;
        assert!(!to.is_public, "the server asks who it is");
        let updates = push.updates().iter();
        let line =
            |update: &aifo_forge::RefUpdate| format!("{:?} {}", update.change(), update.name);
        let lines: Vec<String> = updates.map(line).collect();
        let is_allowed = push.updates().iter().all(|update| update.change() == RefChange::Create);
        self.0.lock().unwrap().push(format!("{}: {}", to.repository.as_str(), lines.join(", ")));
        Box::pin(
            async move { if is_allowed { Ok(()) } else { Err("only new branches".to_owned()) } },
        )
    }

    fn judge_change(&self, to: PushedTo, change: ForgeChange) -> GateFuture {
        let line = format!("{}: {} {}", to.repository.as_str(), change.effect, change.content);
        self.0.lock().unwrap().push(line);
        let is_allowed = !change.is_each && !change.content.starts_with("0 ");
        Box::pin(async move { if is_allowed { Ok(()) } else { Err("not that".to_owned()) } })
    }
}

/// A server with the repositories `o/r` and `o/secret`, a proxy to it, and a clone.
struct World {
    server: GitServer,
    gate: Arc<Gate>,
    port: u16,
    settings: Vec<(String, String)>,
    directory: tempfile::TempDir,
    _serving: tokio::task::JoinHandle<()>,
}

impl World {
    async fn new(token: &'static str) -> World {
        World::with(token, false).await
    }

    async fn with(token: &'static str, has_tls: bool) -> World {
        let server = GitServer::start(&["o/r", "o/sub", "o/secret"], has_tls).await;
        let scheme = if has_tls { "https" } else { "http" };
        let url = UpstreamUrl::parse(&format!("{scheme}://127.0.0.1:{}", server.port)).unwrap();
        let repositories =
            ["o/r", "o/sub", "o/echo"].map(|path| RepositoryPath::parse(path).unwrap());
        let forge =
            Forge::new("test", url, ForgeForm::Git, Box::new(Fixed(token)), repositories.to_vec())
                .unwrap();
        let authorization = forge.authorization();
        let gate = Arc::new(Gate::default());
        let connector = Connector::new(ParentProxy::from_environment(|_| None).unwrap());
        let proxy = ForgeProxy::new(
            Arc::new(forge),
            Arc::clone(&gate) as Arc<dyn ForgeGate>,
            connector,
            server.certificate.as_slice(),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let _serving = tokio::spawn(async move { proxy.serve(listener).await });
        let remotes = [
            RemoteUrl::parse("git@forge.example:o/r.git").unwrap(),
            RemoteUrl::parse("https://forge.example/o/sub.git").unwrap(),
            RemoteUrl::parse("https://forge.example/o/secret").unwrap(),
        ];
        let base = format!("http://127.0.0.1:{port}");
        let settings = git_settings(&base, &authorization, &remotes, true);
        let directory = tempfile::tempdir().unwrap();
        World { server, gate, port, settings, directory, _serving }
    }

    /// git of an agent, which has nothing but the settings.
    async fn git(&self, directory: &str, words: &[&str]) -> Output {
        let mut git = Command::new("git");
        let at = self.directory.path().join(directory);
        git.current_dir(at).args(words).env("HOME", self.directory.path());
        git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_NOSYSTEM", "1");
        for (name, value) in git_server::IDENTITY {
            git.env(name, value);
        }
        git.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (number, (key, value)) in self.settings.iter().enumerate() {
            git.env(format!("GIT_CONFIG_KEY_{number}"), key);
            git.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        tokio::task::spawn_blocking(move || git.output().unwrap()).await.unwrap()
    }

    #[track_caller]
    fn good(output: &Output) -> String {
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    async fn clone(&self) -> PathBuf {
        Self::good(&self.git("", &["clone", "-q", "git@forge.example:o/r.git", "r"]).await);
        self.directory.path().join("r")
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.gate.0.lock().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_cloned_and_pushed_without_the_credential() {
    let world = World::new(TOKEN).await;
    let clone = world.clone().await;
    assert!(clone.join("file").exists());
    World::good(&world.git("r", &["switch", "-qc", "topic"]).await);
    World::good(&world.git("r", &["commit", "-qm", "more", "--allow-empty"]).await);
    let new = World::good(&world.git("r", &["rev-parse", "HEAD"]).await);
    World::good(&world.git("r", &["push", "-q", "origin", "HEAD:refs/heads/topic"]).await);
    assert_eq!(world.server.id("o/r", "refs/heads/topic"), new);
    assert_eq!(world.asked(), ["o/r: Create refs/heads/topic"]);
    // Nothing of it is in the clone.
    assert!(!contains(&clone, TOKEN), "the credential is in the clone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forge_has_tls_and_submodules() {
    let world = World::with(TOKEN, true).await;
    world.clone().await;
    let sub = ["submodule", "add", "-q", "https://forge.example/o/sub.git", "sub"];
    World::good(&world.git("r", &sub).await);
    World::good(&world.git("r", &["commit", "-qm", "sub"]).await);
    World::good(&world.git("r", &["push", "-q", "origin", "HEAD:refs/heads/sub"]).await);
    assert_eq!(world.asked(), ["o/r: Create refs/heads/sub"]);
    let words = ["clone", "-q", "--recurse-submodules", "-b", "sub"];
    let words = [&words[..], &["git@forge.example:o/r.git", "again"]].concat();
    World::good(&world.git("", &words).await);
    assert!(world.directory.path().join("again/sub/file").exists());
    World::good(&world.git("again", &["submodule", "update", "-q", "--remote"]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_push_says_why_and_changes_nothing() {
    let world = World::new(TOKEN).await;
    world.clone().await;
    let before = world.server.id("o/r", "refs/heads/main");
    World::good(&world.git("r", &["commit", "-qm", "more", "--allow-empty"]).await);
    let words: [&[&str]; 4] = [
        &["push", "origin", "main"],
        &["push", "--force", "origin", "HEAD~0:main"],
        &["push", "--atomic", "origin", "HEAD:refs/heads/new", "HEAD:main"],
        &["push", "origin", ":main"],
    ];
    for words in words {
        let refused = world.git("r", words).await;
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{words:?} {text}");
        assert!(text.contains("remote: aifo: only new branches"), "{words:?} {text}");
        assert!(text.contains("(only new branches)"), "{words:?} {text}");
    }
    assert_eq!(world.server.id("o/r", "refs/heads/main"), before);
    assert_eq!(world.server.id("o/r", "refs/heads/new"), "");
    let asked = world.asked();
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert!(asked[2].contains("Create refs/heads/new") && asked[3].contains("Delete"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_push_is_probed_and_streamed() {
    let world = World::new(TOKEN).await;
    let clone = world.clone().await;
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(clone.join("large"), &bytes).unwrap();
    World::good(&world.git("r", &["add", "large"]).await);
    World::good(&world.git("r", &["commit", "-qm", "large"]).await);
    World::good(&world.git("r", &["push", "-q", "origin", "HEAD:refs/heads/large"]).await);
    assert_ne!(world.server.id("o/r", "refs/heads/large"), "");
    // A refusal reads what git still sends.
    let refused = world.git("r", &["push", "origin", "HEAD:main"]).await;
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("(only new branches)"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_repositories_and_a_wrong_credential_are_refused_in_words() {
    let world = World::new(TOKEN).await;
    let other = world.git("", &["clone", "https://forge.example/o/secret"]).await;
    let text = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(text.contains("'o/secret' is none of the project's remotes"), "{text}");
    let world = World::new("a-token-that-is-not-valid").await;
    let refused = world.git("", &["ls-remote", "git@forge.example:o/r"]).await;
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("'test' does not accept the user's credential"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_the_forge_echoes_does_not_reach_the_agent() {
    let world = World::new(TOKEN).await;
    let (host, authorization) = (format!("127.0.0.1:{}", world.port), &world.settings[0].1);
    let request = format!(
        "GET /o/echo/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: {host}\r\n{authorization}\r\n\
         Connection: close\r\n\r\n"
    );
    let answer = world.server.raw(world.port, &request).await;
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("Basic ****"), "{answer}");
    let pair = BASE64_STANDARD.encode(format!("git:{TOKEN}"));
    assert!(!answer.contains(TOKEN) && !answer.contains(&pair), "{answer}");
    assert!(!answer.contains("x-echo"), "{answer}");
}

/// Requests that no git makes.
#[tokio::test(flavor = "multi_thread")]
async fn forged_requests_reach_nothing() {
    let world = World::new(TOKEN).await;
    let authorization = world.settings[0].1.clone();
    let before = world.server.requests();
    let host = format!("Host: 127.0.0.1:{}", world.port);
    let head = |line: &str, headers: &[&str]| {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n")
    };
    let post = "POST /o/r/git-receive-pack";
    for (request, status) in [
        (head("GET /o/r/info/refs?service=git-upload-pack", &[&host]), 403),
        (head("GET /o/r/info/refs?service=git-upload-pack", &[&authorization]), 421),
        (head("GET /o/r/info/refs?service=git-upload-pack", &["Host: x", &authorization]), 421),
        (head("GET /o/secret/info/refs?service=git-upload-pack", &[&host, &authorization]), 403),
        (head("GET /o/r/HEAD", &[&host, &authorization]), 403),
        (head("GET /o/r/../secret/HEAD", &[&host, &authorization]), 403),
        (head("GET /o/%72/info/refs?service=git-upload-pack", &[&host, &authorization]), 403),
        (head("GET /O/r/info/refs?service=git-upload-pack", &[&host, &authorization]), 403),
        (head("DELETE /o/r/git-receive-pack", &[&host, &authorization]), 403),
        (
            head(post, &[&host, &authorization, "Content-Encoding: gzip", "Content-Length: 4"])
                + "0000",
            415,
        ),
        (head(post, &[&host, &authorization, "Content-Length: 4"]) + "xxxx", 403),
        (
            head(
                "POST /o/r.git/info/lfs/objects/batch",
                &[&host, &authorization, "Content-Length: 22"],
            ) + "{\"operation\":\"upload\"}",
            403,
        ),
        (head(post, &[&host, &authorization, "Content-Length: 8"]) + "0000PACK", 403),
        (head(post, &[&host, &authorization, "Content-Length: 0"]), 400),
    ] {
        let answer = world.server.raw(world.port, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    }
    assert_eq!(world.server.requests(), before + 1, "nothing was sent but whether it is public");
    assert_eq!(world.asked(), ["o/r: uploads files of git-lfs 0 with 0 bytes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn git_lfs_gets_and_puts_files_by_an_answer() {
    let world = World::new(TOKEN).await;
    let clone = world.clone().await;
    if !world.git("r", &["lfs", "install", "--local"]).await.status.success() {
        let skipped = "skipped: git_lfs_gets_and_puts_files_by_an_answer: no git-lfs";
        let _ = writeln!(std::io::stderr(), "{skipped}");
        return;
    }
    World::good(&world.git("r", &["lfs", "track", "*.bin"]).await);
    std::fs::write(clone.join("a.bin"), "large\n").unwrap();
    World::good(&world.git("r", &["add", "-A"]).await);
    World::good(&world.git("r", &["commit", "-qm", "large"]).await);
    let pushed = world.git("r", &["push", "origin", "HEAD:refs/heads/large"]).await;
    World::good(&pushed);
    let asked = world.asked();
    assert_eq!(asked[0], "o/r: uploads files of git-lfs 1 with 6 bytes", "{asked:?}");
    assert_eq!(world.server.stored(), ["large\n"]);
    let words = ["clone", "-qb", "large", "git@forge.example:o/r.git", "again"];
    World::good(&world.git("", &words).await);
    World::good(&world.git("again", &["lfs", "install", "--local"]).await);
    World::good(&world.git("again", &["lfs", "pull"]).await);
    let file = world.directory.path().join("again/a.bin");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "large\n");
    assert!(!contains(world.directory.path(), TOKEN), "the credential is on disk");
}

/// Ways to move, force or delete `main`, and to reach what is none of the project's.
const WAYS: [&str; 30] = [
    "git push origin HEAD:main",
    "git push origin HEAD:refs/heads/main",
    "git push origin +$(git commit-tree HEAD^{tree} -m forced):main",
    "git push origin :main",
    "git push --delete origin main",
    "git push --force-with-lease origin HEAD:main",
    "git push --mirror origin",
    "git push --all origin",
    "git push --prune origin refs/heads/none:refs/heads/main",
    "git push --atomic origin HEAD:main HEAD:refs/heads/other",
    "git push -o ci.skip origin HEAD:main",
    "git push --no-verify --quiet origin HEAD:main",
    "git push --signed=if-asked origin HEAD:main",
    "git push --no-thin origin HEAD:main",
    "git push git@forge.example:o/r.git HEAD:main",
    "git push https://forge.example/o/r HEAD:main",
    "git push ssh://git@forge.example/o/r.git HEAD:main",
    "git config alias.save '!git push origin HEAD:main' && git save",
    "git -c alias.x='push origin HEAD:main' x",
    "git -c push.default=matching push origin",
    "git -c push.default=upstream push origin HEAD:main",
    "git -c remote.origin.push=HEAD:main push origin",
    "git -c remote.origin.mirror=true push origin",
    "git -c http.postBuffer=1 push origin HEAD:main",
    "git -c protocol.version=0 push origin HEAD:main",
    "git -c protocol.version=1 push origin HEAD:main",
    "printf '#!/bin/sh\\ngit push --no-verify origin HEAD:main\\n' >.git/hooks/post-commit && \
     chmod +x .git/hooks/post-commit && git commit -qm hook --allow-empty; \
     rm .git/hooks/post-commit; false",
    "git -c url.BASE/o/secret.pushInsteadOf=git@forge.example:o/r.git push origin HEAD:main",
    "git -c url.BASE/o/secret.insteadOf=x: push x: HEAD:main",
    "git replace HEAD~1 HEAD && git push origin HEAD:main; git replace -d HEAD~1; false",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_way_of_calling_git_moves_a_ref_without_an_answer() {
    let world = World::new(TOKEN).await;
    world.clone().await;
    World::good(&world.git("r", &["commit", "-qm", "second", "--allow-empty"]).await);
    let before = world.server.id("o/r", "refs/heads/main");
    let base = format!("http://127.0.0.1:{}", world.port);
    for way in WAYS {
        // git of an alias that runs a shell has the settings of the environment.
        let alias = format!("alias.way=!{}", way.replace("BASE", &base));
        let output = world.git("r", &["-c", &alias, "way"]).await;
        assert!(!output.status.success(), "{way}: {output:?}");
        assert_eq!(world.server.id("o/r", "refs/heads/main"), before, "{way}");
        let all = world.server.refs("o/r");
        assert_eq!(all, ["refs/heads/main"], "{way} {output:?}");
        assert_eq!(world.server.refs("o/secret"), ["refs/heads/main"], "{way}");
    }
}

/// Bodies that a forge could read as another push than the proxy does.
#[tokio::test(flavor = "multi_thread")]
async fn no_forged_body_moves_a_ref_without_an_answer() {
    let world = World::new(TOKEN).await;
    world.clone().await;
    let refs = |path: &str| world.server.refs(path);
    let old = world.server.id("o/r", "refs/heads/main");
    let zero = "0".repeat(40);
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let delete = format!("{old} {zero} refs/heads/main");
    let create = format!("{zero} {old} refs/heads/new");
    let report = "\0report-status";
    let bodies = [
        line(&format!("{delete}{report}")) + "0000",
        line(&format!("{delete}\n{report}")) + "0000",
        line(&format!("{delete}\0 report-status side-band-64k atomic\n")) + "0000",
        line(&format!("{create}{report}")) + &line(&delete) + "0000",
        line(&format!("{create}{report}")) + "0000" + &line(&delete) + "0000",
        "0000".to_owned() + &line(&format!("{delete}{report}")) + "0000",
        "0001".to_owned() + &line(&format!("{delete}{report}")) + "0000",
        "0004".to_owned() + &line(&format!("{delete}{report}")) + "0000",
        line(&format!("shallow {old}")) + &line(&format!("{delete}{report}")) + "0000",
        line(&format!("push-cert{report}")) + &line(&delete) + "0000",
        line(&delete) + "0000",
        line(&format!("{delete}\0")) + "0000",
        line(&format!("{delete}{report}")).to_uppercase() + "0000",
        line(&format!("{create}{report}")) + &line(&create) + "0000",
        line(&format!("{old} {zero} refs/heads/../heads/main{report}")) + "0000",
        line(&format!("{old} {zero}  refs/heads/main{report}")) + "0000",
        line(&format!("{old} {zero} HEAD{report}")) + "0000",
        line(&format!("{old}  {zero} refs/heads/main{report}")) + "0000",
        format!("0x70{delete}{report}0000"),
        "PACK".to_owned(),
    ];
    let authorization = world.settings[0].1.clone();
    for body in &bodies {
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        let single: String = body.split_inclusive(|_| true).map(chunk).collect();
        let smuggled = format!("POST /o/secret/git-receive-pack HTTP/1.1\r\nHost: x\r\n\r\n{body}");
        for (fields, body) in [
            (format!("Content-Length: {}", body.len()), body.clone()),
            ("Transfer-Encoding: chunked".to_owned(), single + "0\r\n\r\n"),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 4".to_owned(),
                chunk(body) + "0\r\n\r\n" + &smuggled,
            ),
        ] {
            let request = format!(
                "POST /o/r/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{authorization}\r\n\
                 Content-Type: application/x-git-receive-pack-request\r\nConnection: close\r\n{fields}\r\n\r\n{body}",
                world.port
            );
            let answer = world.server.raw(world.port, &request).await;
            assert_eq!(world.server.id("o/r", "refs/heads/main"), old, "{body:?}: {answer}");
            assert_eq!(refs("o/r"), ["refs/heads/main"], "{body:?}: {answer}");
            assert_eq!(refs("o/secret"), ["refs/heads/main"], "{body:?}: {answer}");
        }
    }
    assert!(world.asked().iter().all(|line| line.starts_with("o/r: ")));
}

fn contains(directory: &Path, needle: &str) -> bool {
    std::fs::read_dir(directory).unwrap().flatten().any(|entry| {
        let path = entry.path();
        match path.is_dir() {
            true => contains(&path, needle),
            false => std::fs::read(&path).is_ok_and(|bytes| {
                bytes.windows(needle.len()).any(|part| part == needle.as_bytes())
            }),
        }
    })
}
