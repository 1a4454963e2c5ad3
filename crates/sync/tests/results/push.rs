//! The push of a result (`spec/kubernetes.md#push`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use aifo_sync::{PushFailure, Remote, SyncError, push_result};

use super::{BRANCH, Case, git, run};

impl Case {
    /// Fetches the result and pushes it, as `aifo` does in the pod.
    fn push(&self, url: &str) -> Result<(), SyncError> {
        let result = self.fetch();
        let remote = Remote { url, credential_helper: None, variables: &[] };
        push_result(&git().in_pod(), &self.repository(), &result, remote)
    }

    /// A bare copy of the remote repository.
    fn remote(&self) -> std::path::PathBuf {
        let remote = self.path("remote.git");
        run(self.dir.path(), &["clone", "--quiet", "--bare", "origin", "remote.git"]);
        remote
    }
}

fn log(at: &Path) -> String {
    run(at, &["log", "--format=%s", BRANCH])
}

#[test]
fn the_branches_of_a_result_are_pushed() {
    let case = Case::new();
    case.commit("agent");
    run(&case.pod(), &["switch", "--quiet", "--create", "other", "main"]);
    case.commit("other");
    run(&case.pod(), &["switch", "--quiet", BRANCH]);
    let remote = case.remote();
    // The agent configuration names another repository, and a program.
    run(
        &case.pod(),
        &[
            "config",
            &format!("url.{}/elsewhere.insteadOf", case.dir.path().display()),
            remote.to_str().unwrap(),
        ],
    );
    case.push(remote.to_str().unwrap()).unwrap();
    assert_eq!(log(&remote), "agent\nthree\ntwo\none");
    assert_eq!(run(&remote, &["log", "-1", "--format=%s", &format!("{BRANCH}.1")]), "other");
    run(&remote, &["fsck", "--strict"]);
    assert!(!remote.join("shallow").exists());
    assert!(!case.path("elsewhere").exists());
}

#[test]
fn a_branch_of_the_remote_is_never_replaced() {
    let case = Case::new();
    case.commit("agent");
    let remote = case.remote();
    let url = remote.to_str().unwrap();
    case.push(url).unwrap();
    run(&case.pod(), &["reset", "--quiet", "--hard", "main"]);
    case.commit("rewritten");
    let error = case.push(url).unwrap_err();
    assert_eq!(PushFailure::of(&error), PushFailure::Rejected, "{error}");
    assert_eq!(log(&remote), "agent\nthree\ntwo\none");
}

#[test]
fn failures_have_a_cause() {
    let case = Case::new();
    case.commit("agent");
    let remote = case.remote();
    let hook = remote.join("hooks/pre-receive");
    fs::write(&hook, "#!/bin/sh\necho the rule of the server; exit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let error = case.push(remote.to_str().unwrap()).unwrap_err();
    assert_eq!(PushFailure::of(&error), PushFailure::Rejected, "{error}");
    assert!(error.to_string().contains("the rule of the server"), "{error}");
    for url in ["/nonexistent.git", "http://127.0.0.1:1/p.git"] {
        let error = case.push(url).unwrap_err();
        assert_eq!(PushFailure::of(&error), PushFailure::Unreachable, "{error}");
    }
    let error = case.push("ext::touch x").unwrap_err();
    assert!(error.to_string().contains("transport 'ext' not allowed"), "{error}");
}

/// A server that accepts no login. Returns its URL, and the `Authorization` headers of its requests.
fn server() -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/p.git", listener.local_addr().unwrap());
    let requests = thread::spawn(move || {
        let mut found = Vec::new();
        while found.len() < 2 {
            let (stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            let login = head.iter().find_map(|line| line.strip_prefix("Authorization: "));
            found.push(login.unwrap_or_default().to_owned());
            let answer = "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
        found
    });
    (url, requests)
}

#[test]
fn the_login_comes_from_the_helper() {
    let case = Case::new();
    case.commit("agent");
    let result = case.fetch();
    let (url, requests) = server();
    let variables = [("USERNAME", "robot"), ("PASSWORD", "secret")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let helper = "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \"$USERNAME\" \"$PASSWORD\"; }; f";
    let remote = Remote { url: &url, credential_helper: Some(helper), variables: &variables };
    let error = push_result(&git(), &case.repository(), &result, remote).unwrap_err();
    assert_eq!(PushFailure::of(&error), PushFailure::NoRight, "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    // robot:secret
    assert_eq!(requests.join().unwrap(), ["", "Basic cm9ib3Q6c2VjcmV0"]);
}
