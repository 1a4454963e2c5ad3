//! The front socket: permitted peers, and existing files at its path.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aifo_tests::{
    Listen, Outcome, Running, Scratch, Session, SessionSetup, Signal, binaries, can_run,
    copy_executable, eventually, send_signal,
};

/// Runs a program as a user who is neither root nor the session's.
const AS_ANOTHER: [&str; 5] =
    ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];

/// A session whose socket is in this suite's directory.
fn listening_at(socket: &Path) -> Session {
    SessionSetup::new().listen(Listen::On(url(socket))).start()
}

fn url(socket: &Path) -> String {
    format!("unix://{}", socket.display())
}

/// Runs `serve` with that path, which must fail.
#[track_caller]
fn refused(socket: &Path) -> Outcome {
    let setup = SessionSetup::new();
    let outcome = Outcome::of(setup.coder().args(["serve", "--listen", &url(socket)]));
    assert_eq!(outcome.exited(86).text(), "", "nothing that looks like a session");
    assert!(outcome.stderr.contains(socket.to_str().unwrap()), "{}", outcome.stderr);
    outcome
}

fn opened_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The socket's mode prevents this as well; this test relaxes the mode.
#[test]
fn another_user_is_disconnected_without_a_response() {
    let trial = [&AS_ANOTHER[..], &["/bin/true"]].concat();
    if !can_run("front_socket::another_user_is_disconnected_without_a_response", &trial) {
        return;
    }
    let scratch = Scratch::new();
    let (socket, tool) = (scratch.path().join("front.sock"), scratch.path().join("tool"));
    copy_executable(&binaries().tool, &tool);
    let session = listening_at(&socket);
    opened_to_all(scratch.path(), 0o755);
    opened_to_all(&tool, 0o755);
    opened_to_all(&socket, 0o666);

    let request = scratch.path().join("request");
    fs::write(&request, session.exec("make", ["count", &session.file("ran")]).encode()).unwrap();
    let connect = |program: &[&str]| {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg("connect").arg(&socket);
        command.stdin(fs::File::open(&request).unwrap());
        Running::start(&mut command).finish()
    };
    let tool = tool.to_str().unwrap();
    let stranger = connect(&[&AS_ANOTHER[..], &[tool]].concat());
    assert_eq!(stranger.exited(0).text(), "", "not even a refusal: {}", stranger.stderr);
    assert!(!Path::new(&session.file("ran")).exists());
    let warnings = session.log_lines(&["another user", "uid=65534"]);
    let [warning] = &warnings[..] else { panic!("one line: {}", session.log()) };
    assert!(warning.starts_with("aifo-coder: "), "{warning}");

    let owner = connect(&[tool]);
    assert!(owner.exited(0).text().starts_with("HTTP/1.1 200 OK\r\n"), "{owner:?}");
    assert_eq!(session.log_lines(&["another user"]).len(), 1, "the owner is none");
}

#[test]
fn a_socket_that_a_killed_proxy_left_is_replaced() {
    let scratch = Scratch::new();
    let socket = scratch.path().join("front.sock");
    let mut first = listening_at(&socket);
    first.end(Signal::SIGKILL);
    assert!(socket.exists(), "a killed proxy does not remove it");
    let second = listening_at(&socket);
    assert_eq!(second.answer(&second.exec("make", ["say", "hi"])).text(), "hi\n");
}

#[test]
fn a_socket_in_use_is_left_to_its_owner() {
    let scratch = Scratch::new();
    let socket = scratch.path().join("front.sock");
    let first = listening_at(&socket);
    refused(&socket);
    assert_eq!(first.answer(&first.exec("make", ["say", "mine"])).text(), "mine\n");
}

#[test]
fn a_file_that_is_no_socket_is_not_removed() {
    let scratch = Scratch::new();
    let file = scratch.path().join("precious");
    fs::write(&file, "content").unwrap();
    refused(&file);
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    refused(&link);
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");
    assert!(link.is_symlink());
}

/// A directory created for the socket is private, and is removed.
#[test]
fn a_directory_that_was_missing_is_made_private() {
    let scratch = Scratch::new();
    let dir: PathBuf = scratch.path().join("new");
    let mut session = listening_at(&dir.join("front.sock"));
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o7777, 0o700);
    session.end(Signal::SIGTERM);
    assert!(!dir.exists());
}

/// The kernel's queue is longer than the proxy limit: no connection is refused.
#[test]
fn connections_queue_while_the_proxy_cannot_accept() {
    let session = Session::start();
    send_signal(session.pid(), Signal::SIGSTOP);
    eventually("the proxy is stopped", || aifo_tests::is_stopped(session.pid()));
    let mut shims = Vec::new();
    for number in 0..100 {
        let mut command = session.shim("make");
        let command = command.args(["say", &number.to_string()]).stdin(Stdio::null());
        shims.push(Running::start(command));
    }
    send_signal(session.pid(), Signal::SIGCONT);
    for (number, shim) in shims.into_iter().enumerate() {
        assert_eq!(shim.finish().exited(0).text(), format!("{number}\n"));
    }
}
