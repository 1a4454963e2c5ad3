//! Half-close and disconnect.

use std::fs;
use std::path::Path;

use aifo_tests::{Listen, Session, SessionSetup, eventually, fresh_id, tagged_processes};

/// socat and `nc -N` half-close a unix socket and still expect the response.
#[test]
fn a_half_closing_client_on_a_unix_socket_keeps_its_tool() {
    let session = Session::start();
    for version in ["1", "2"] {
        let (id, go) = (fresh_id(), session.file(&format!("go{version}")));
        let mut call = session.send(&session.exec("make", ["hold", &go]).id(&id).proto(version));
        call.half_close();
        eventually("the tool runs", || !tagged_processes(&id).is_empty());
        // A later call has completed, so the proxy has seen the half-close.
        assert_eq!(session.answer(&session.exec("make", ["say"])).status(), 200);
        fs::write(&go, "").unwrap();
        let answer = call.answer();
        assert_eq!((answer.text().as_str(), answer.exit_code()), ("first\nsecond\n", Some("0")));
        assert!(session.log_lines(&["disconnect", &id]).is_empty());
    }
}

#[test]
fn on_tcp_a_half_close_looks_like_a_disconnect() {
    let session = SessionSetup::new().listen(Listen::Tcp).start();
    for version in ["1", "2"] {
        let (id, ready) = (fresh_id(), session.file(&format!("ready{version}")));
        let mut call =
            session.send(&session.exec("make", ["quiet", &ready]).id(&id).proto(version));
        eventually("the tool runs", || Path::new(&ready).exists());
        call.half_close();
        eventually("nothing of the exec is left", || tagged_processes(&id).is_empty());
        assert_eq!(session.log_lines(&[&format!("aifo-coder: disconnect exec_id={id}")]).len(), 1);
    }
}
