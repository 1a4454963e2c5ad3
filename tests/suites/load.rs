//! Many concurrent calls, slow clients, and too many calls.
//!
//! Proves `spec/toolexec.md#limits`.

use std::fs;

use aifo_tests::{Connection, Listen, Session, SessionSetup, eventually, fresh_id};

#[test]
fn two_hundred_at_once_are_all_right() {
    for listen in [Listen::Default, Listen::Tcp] {
        let session = SessionSetup::new().listen(listen).start();
        let go = session.file("go");
        let start = |_| session.send(&session.exec("make", ["hold", &go]));
        let mut calls: Vec<Connection> = (0..200).map(start).collect();
        for call in &mut calls {
            call.read_until(b"first\n");
        }
        // Each has printed its first line and not its last: all of them run.
        fs::write(&go, "").unwrap();
        for call in calls {
            let answer = call.answer();
            assert_eq!(
                (answer.text().as_str(), answer.exit_code()),
                ("first\nsecond\n", Some("0"))
            );
        }
    }
}

#[test]
fn two_hundred_shims_each_get_their_own_output() {
    let session = Session::start();
    let start = |number: usize| {
        let mut command = session.shim("make");
        aifo_tests::Running::start(command.args(["say", "number", &number.to_string()]))
    };
    let shims: Vec<_> = (0..200).map(start).collect();
    for (number, shim) in shims.into_iter().enumerate() {
        let outcome = shim.finish();
        assert_eq!(outcome.exited(0).text(), format!("number {number}\n"));
        assert_eq!(outcome.stderr, "");
    }
}

#[test]
fn clients_that_dribble_their_head_do_not_stop_others() {
    for listen in [Listen::Default, Listen::Tcp] {
        let session = SessionSetup::new().listen(listen).start();
        let dribble = |_| {
            let mut connection = session.connect();
            let _ = connection.try_send("POST /exec HTTP/1.1\r\nX-Slow: ");
            connection
        };
        let mut dribbling: Vec<Connection> = (0..300).map(dribble).collect();
        for _ in 0..20 {
            let answer = session.answer(&session.exec("make", ["say", "through"]));
            assert_eq!(answer.text(), "through\n");
            for connection in &mut dribbling {
                let _ = connection.try_send("x");
            }
        }
    }
}

#[test]
fn clients_that_stall_in_their_body_do_not_stop_others() {
    let session = Session::start();
    let whole = session.exec("make", ["say"]).encode();
    let stall = |_| {
        let mut connection = session.connect();
        let _ = connection.try_send(&whole[..whole.len() - 1]);
        connection
    };
    let stalled: Vec<Connection> = (0..300).map(stall).collect();
    check_serves(&session);
    drop(stalled);
}

/// A client that does not read blocks its own tool, not the proxy.
#[test]
fn clients_that_do_not_read_do_not_stop_others() {
    let session = Session::start();
    let unread = session.unread_calls(20);
    check_serves(&session);
    drop(unread);
}

#[track_caller]
fn check_serves(session: &Session) {
    for _ in 0..20 {
        let answer = session.answer(&session.exec("make", ["say", "through"]));
        assert_eq!(answer.text(), "through\n");
    }
}

#[test]
fn more_executions_than_allowed_are_refused() {
    let session = SessionSetup::new().env("AIFO_TOOLEEXEC_MAX_CONNECTIONS", "2").start();
    let (first, second) = (fresh_id(), fresh_id());
    let wait = |id: &str| session.send_ready(&session.exec("make", ["wait"]).id(id));
    let (first_call, second_call) = (wait(&first), wait(&second));

    let third = session.answer(&session.exec("make", ["say"]));
    assert_eq!(third.status_line, "HTTP/1.1 429 Too Many Requests");
    assert_eq!(third.exit_code(), Some("86"));
    assert_eq!(third.text(), "too many concurrent executions: the limit is 2\n");
    aifo_tests::Outcome::of(session.shim("make").arg("say")).exited(86);

    assert_eq!(session.signal(&first, "TERM").status(), 204, "signals always pass");
    assert_eq!(first_call.answer().exit_code(), Some("143"));
    assert_eq!(session.answer(&session.exec("make", ["say", "room"])).text(), "room\n");
    assert_eq!(session.signal(&second, "TERM").status(), 204);
    second_call.answer();
}

/// Also a signal whose client does not wait for the response.
#[test]
fn a_signal_is_carried_out_though_its_client_has_left() {
    let session = Session::start();
    let id = fresh_id();
    let call = session.send_ready(&session.exec("make", ["wait"]).id(&id));
    drop(session.send(&session.post("/signal").field("exec_id", &id).field("signal", "KILL")));
    assert_eq!(call.answer().exit_code(), Some("137"));
    eventually("nothing is left", || aifo_tests::tagged_processes(&id).is_empty());
}

/// 256 connections may have incomplete requests. One more closes the oldest.
#[test]
fn the_longest_waiting_connection_makes_room() {
    for listen in [Listen::Default, Listen::Tcp] {
        let session = SessionSetup::new().listen(listen).start();
        let call = session.exec("make", ["say", "waited"]).encode();
        let (start, rest) = call.split_at(call.len() - 1);
        let wait = |_| {
            let mut connection = session.connect();
            connection.send(start);
            connection
        };
        let mut waiting: Vec<Connection> = (0..256).map(wait).collect();
        let late = session.answer(&session.exec("make", ["say", "served"]));
        assert_eq!(late.text(), "served\n");

        let first = waiting.remove(0).answer();
        assert_eq!(first.status_line, "HTTP/1.1 408 Request Timeout");
        assert_eq!((first.exit_code(), first.text().as_str()), (Some("86"), "request timeout\n"));
        for mut connection in waiting {
            connection.send(rest);
            assert_eq!(connection.answer().text(), "waited\n");
        }
    }
}
