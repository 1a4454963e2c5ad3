//! `aifo-coder serve`: its output, its files, and its cleanup.
//!
//! Proves `spec/cli.md#serve`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aifo_tests::{
    Address, Listen, Outcome, Scratch, Session, SessionSetup, Signal, fd_count, files_below,
    is_alive,
};

fn socket(session: &Session) -> PathBuf {
    match session.address() {
        Address::Unix(path) => path.clone(),
        Address::Tcp(address) => panic!("{address} is no socket"),
    }
}

#[track_caller]
fn check_nothing_left(runtime: &Path) {
    let left = files_below(runtime);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn it_prints_exactly_its_three_lines() {
    let mut session = Session::start();
    session.answer(&session.exec("make", ["say"]));
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    let expected = format!(
        "AIFO_TOOLEEXEC_URL={}\nAIFO_TOOLEEXEC_TOKEN={}\nAIFO_WORKSPACE={}\n",
        session.url(),
        session.token(),
        session.workspace().display()
    );
    assert_eq!(session.stdout(), expected);
}

#[test]
fn each_session_has_a_token_of_its_own() {
    let (one, other) = (Session::start(), Session::start());
    assert_ne!(one.token(), other.token());
    assert!(one.token().len() >= 32, "128 random bits in hex");
    let call = one.exec("make", ["say"]);
    assert_eq!(other.answer(&call).status(), 401, "a token is no good elsewhere");
}

#[test]
fn the_socket_is_the_owners_alone_and_goes_with_the_session() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut session = Session::start();
        let socket = socket(&session);
        let dir = socket.parent().expect("a socket lies in a directory").to_path_buf();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&socket), mode(&dir)), (0o600, 0o700));

        assert_eq!(session.end(signal).code(), Some(0));
        assert!(!socket.exists() && !dir.exists(), "{} is left", dir.display());
        check_nothing_left(&session.scratch().join("run"));
    }
}

#[test]
fn a_socket_path_may_be_chosen() {
    let scratch = Scratch::new();
    let path = scratch.path().join("front.sock");
    let url = format!("unix://{}", path.display());
    let mut session = SessionSetup::new().listen(Listen::On(url.clone())).start();
    assert_eq!(session.url(), url);
    assert_eq!(session.answer(&session.exec("make", ["say", "hi"])).text(), "hi\n");
    session.end(Signal::SIGTERM);
    assert!(!path.exists());
}

#[test]
fn tcp_is_loopback_and_names_its_port() {
    let session = SessionSetup::new().listen(Listen::Tcp).start();
    let Address::Tcp(address) = session.address() else { panic!("{}", session.url()) };
    assert!(address.ip().is_loopback() && address.port() != 0, "{address}");
    assert_eq!(session.answer(&session.exec("make", ["say", "hi"])).text(), "hi\n");
}

#[test]
fn the_environment_may_choose_tcp_but_a_flag_wins() {
    let tcp = SessionSetup::new().env("AIFO_TOOLEEXEC_USE_UNIX", "0").start();
    assert!(matches!(tcp.address(), Address::Tcp(_)), "{}", tcp.url());
    let scratch = Scratch::new();
    let url = format!("unix://{}/front.sock", scratch.path().display());
    let setup =
        SessionSetup::new().env("AIFO_TOOLEEXEC_USE_UNIX", "0").listen(Listen::On(url.clone()));
    assert_eq!(setup.start().url(), url);
}

#[test]
fn a_socket_may_lie_deeper_than_an_address_holds() {
    let scratch = Scratch::new();
    let url = format!("unix://{}/{}/front.sock", scratch.path().display(), "x".repeat(200));
    let session = SessionSetup::new().listen(Listen::On(url)).start();
    let outcome = Outcome::of(session.shim("make").args(["say", "hello"]));
    assert_eq!(outcome.exited(0).text(), "hello\n");
}

#[test]
fn starts_that_fail_say_why_and_leave_nothing() {
    let rows: [(&[&str], &str); 3] = [
        (&["--toolchain", "cobol"], "cobol"),
        (&["--toolchain", "rust", "--workspace", "/no/such/place"], "/no/such/place"),
        (&["--toolchain", "rust", "--listen", "ftp://x"], "ftp://x"),
    ];
    for (args, named) in rows {
        let setup = SessionSetup::new();
        let outcome = Outcome::of(setup.coder().args(["serve", "--backend", "local"]).args(args));
        assert!(outcome.code().is_some_and(|code| code != 0), "{outcome:?}");
        assert_eq!(outcome.text(), "", "nothing that looks like a session");
        assert!(outcome.stderr.contains(named), "{}", outcome.stderr);
        check_nothing_left(&setup.runtime());
    }
}

#[test]
fn a_cause_is_reported_once() {
    let setup = SessionSetup::new();
    let mut serve = setup.coder();
    serve.args(["serve", "--toolchain", "rust", "--workspace", "/no/such/place"]);
    let outcome = Outcome::of(&mut serve);
    let line = outcome.exited(86).only_line();
    assert_eq!(line.matches("No such file or directory").count(), 1, "{line}");
}

#[test]
fn a_missing_shim_fails_the_start_by_name() {
    let setup = SessionSetup::new().env("AIFO_SHIM_BIN", "/no/such/shim");
    let outcome =
        Outcome::of(setup.coder().args(["serve", "--backend", "local", "--toolchain", "rust"]));
    assert!(outcome.code().is_some_and(|code| code != 0), "{outcome:?}");
    assert!(outcome.stderr.contains("/no/such/shim"), "{}", outcome.stderr);
}

#[test]
fn it_has_two_processes_per_kind_and_they_end_with_it() {
    let mut session = SessionSetup::new().kinds(&["rust", "c-cpp", "python"]).start();
    let sidecars = session.sidecars();
    assert_eq!(sidecars.len(), 3);
    for sidecar in &sidecars {
        assert!(fd_count(sidecar.runner) < 16, "a runner inherits nothing of its host");
    }
    session.end(Signal::SIGTERM);
    for sidecar in sidecars {
        assert!(!is_alive(sidecar.guard) && !is_alive(sidecar.runner));
    }
}

#[test]
fn the_environment_may_choose_the_address_of_tcp() {
    let setup = SessionSetup::new().env("AIFO_TOOLEEXEC_USE_UNIX", "no");
    let session = setup.env("AIFO_TOOLEEXEC_BIND_HOST", "127.0.0.2").start();
    let Address::Tcp(address) = session.address() else { panic!("{}", session.url()) };
    assert_eq!(address.ip().to_string(), "127.0.0.2");
    assert_eq!(session.answer(&session.exec("make", ["say", "hi"])).text(), "hi\n");
}
