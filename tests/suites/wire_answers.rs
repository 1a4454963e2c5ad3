//! Every response byte for byte, and the order of checks.
//!
//! Proves `spec/toolexec.md#order-of-checks`, `spec/toolexec.md#credentials`,
//! `spec/toolexec.md#versions`, `spec/toolexec.md#exec-id`.

use aifo_tests::{Answer, Listen, Request, Session, SessionSetup, Tool, eventually, fresh_id};

const WRONG_VERSION: &str = "Unsupported shim protocol; expected 1 or 2\n";
const TRANSPORTS: [Listen; 2] = [Listen::Default, Listen::Tcp];

fn rust_session(listen: Listen) -> Session {
    SessionSetup::new().kinds(&["rust"]).listen(listen).start()
}

/// Expects status line, ordered headers, and body.
#[track_caller]
fn check_plain(answer: &Answer, status: &str, exit_code: u8, body: &str) {
    let expected = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nX-Exit-Code: {exit_code}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(String::from_utf8_lossy(&answer.raw), expected);
}

#[test]
fn v1_is_one_plain_answer() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        let call = session.exec("make", ["say", "hello"]).proto("1");
        check_plain(&session.answer(&call), "200 OK", 0, "hello\n");
        let call = session.exec("make", ["exit", "7"]).proto("1");
        check_plain(&session.answer(&call), "200 OK", 7, "");
    }
}

#[test]
fn v1_echoes_the_exec_id() {
    let session = rust_session(Listen::Default);
    let answer = session.answer(&session.exec("make", ["say"]).proto("1").id("e-1.x_Y"));
    assert_eq!(answer.header("X-Exec-Id"), Some("e-1.x_Y"));
    assert_eq!(answer.text(), "\n");
}

#[test]
fn v2_is_a_stream_with_a_trailer() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        let answer = session.answer(&session.exec("make", ["say", "hello"]).id("e1"));
        let expected = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\
            Transfer-Encoding: chunked\r\nTrailer: X-Exit-Code\r\nConnection: close\r\n\
            X-Exec-Id: e1\r\n\r\n6\r\nhello\n\r\n0\r\nX-Exit-Code: 0\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&answer.raw), expected);

        let answer = session.answer(&session.exec("make", ["exit", "7"]));
        assert_eq!((answer.text().as_str(), answer.trailer("X-Exit-Code")), ("", Some("7")));
        assert_eq!(answer.header("X-Exec-Id"), None, "no id in the response to a call without one");
    }
}

#[test]
fn refusals_with_a_fixed_text() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        let call = || session.exec("make", ["say"]);
        let rows = [
            (call().line("POST /nowhere HTTP/1.1"), "404 Not Found", "not found\n"),
            (call().line("POST / HTTP/1.1"), "404 Not Found", "not found\n"),
            (call().line("GET /exec HTTP/1.1"), "405 Method Not Allowed", "method not allowed\n"),
            (call().line("PUT /signal HTTP/1.1"), "405 Method Not Allowed", "method not allowed\n"),
            (call().without("Authorization"), "401 Unauthorized", "unauthorized\n"),
            (call().without("X-Aifo-Proto"), "426 Upgrade Required", WRONG_VERSION),
            (
                call().body("tool=make&cwd=relative"),
                "400 Bad Request",
                "bad request: cwd must be absolute\n",
            ),
            (
                session.exec("ls", ["-l"]),
                "403 Forbidden",
                "forbidden: tool 'ls' is not allowed in the rust sidecar\n",
            ),
            (
                call().with("Content-Length", "1048577"),
                "413 Content Too Large",
                "request body exceeds 1 MiB\n",
            ),
        ];
        for (request, status, body) in rows {
            check_plain(&session.answer(&request), status, 86, body);
        }
    }
}

#[test]
fn malformed_heads_are_bad_requests() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        for head in ["GARBAGE\r\n\r\n", "POST\r\n\r\n", "POST /exec HTTP/1.1\r\nno colon\r\n\r\n"] {
            let mut connection = session.connect();
            connection.send(head);
            let answer = connection.answer();
            assert_eq!((answer.status(), answer.exit_code()), (400, Some("86")), "{head:?}");
            let text = answer.text();
            let one_reason = text.starts_with("bad request: ") && text.lines().count() == 1;
            assert!(one_reason && text.ends_with('\n'), "{text:?}");
        }
    }
}

/// Each row also has the faults of all later rows; the first is reported.
#[test]
fn the_first_fault_in_order_is_reported() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        let request = |line: &str, token: &str, version: &str, body: &str| {
            Request::new(line)
                .header("Authorization", format!("Bearer {token}"))
                .header("X-Aifo-Proto", version)
                .header("Transfer-Encoding", "chunked")
                .body(body)
        };
        let (post, get) = ("POST /exec HTTP/1.1", "GET /exec HTTP/1.1");
        let token = session.token();
        let malformed = "zz\r\n";
        let relative = "13\r\ntool=ls&cwd=rel&a=b\r\n0\r\n\r\n";
        let forbidden = "7\r\ntool=ls\r\n0\r\n\r\n";
        let absent = "a\r\ntool=rustc\r\n0\r\n\r\n";
        let rows = [
            (request("GET /nowhere HTTP/1.1", "wrong", "9", malformed), 404),
            (request(get, "wrong", "9", malformed), 405),
            (request(post, "wrong", "9", malformed), 401),
            (request(post, token, "9", malformed), 426),
            (request(post, token, "2", malformed), 400),
            (request(post, token, "2", relative), 400),
            (request(post, token, "2", forbidden), 403),
            (request(post, token, "2", absent), 409),
        ];
        for (request, status) in rows {
            let mut connection = session.send(&request);
            connection.half_close();
            assert_eq!(connection.answer().status(), status, "{request:?}");
        }
        let mut many = request("GET /nowhere HTTP/1.1", "wrong", "9", malformed);
        for _ in 0..1025 {
            many = many.header("X", "y");
        }
        assert_eq!(session.answer(&many).status(), 431, "the head is judged before its path");
    }
}

#[test]
fn credentials_are_the_last_word() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        let token = session.token().to_owned();
        let call =
            |value: String| session.exec("make", ["say"]).proto("1").with("Authorization", value);
        for prefix in ["", "Bearer ", "bearer ", "BEARER   ", "Token ", "Bearer=", "a b=c "] {
            let answer = session.answer(&call(format!("{prefix}{token}")));
            assert_eq!(answer.status(), 200, "{prefix:?} before the token");
        }
        let cut = &token[..token.len() - 1];
        let wrong = [
            String::new(),
            "Bearer".to_owned(),
            format!("Bearer {cut}"),
            format!("Bearer {token}x"),
            format!("Bearer x{token}"),
            format!("{token} Bearer"),
            format!("Bearer {token}{token}"),
        ];
        for value in wrong {
            let answer = session.answer(&call(value.clone()));
            check_plain(&answer, "401 Unauthorized", 86, "unauthorized\n");
        }
        let lower = call(String::new()).without("Authorization");
        let lower = lower.header("authorization", format!("Bearer {token}"));
        assert_eq!(session.answer(&lower).status(), 200, "header names have no case");
    }
}

#[test]
fn versions_other_than_1_and_2_are_told_to_upgrade() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        for version in ["", "0", "4", "10", "12", "2.0", "v2", "two", "1 2", "+2", "02"] {
            for path in ["/exec", "/signal"] {
                let request = session.exec("make", ["say"]).line(format!("POST {path} HTTP/1.1"));
                let answer = session.answer(&request.proto(version));
                check_plain(&answer, "426 Upgrade Required", 86, WRONG_VERSION);
            }
        }
    }
}

#[test]
fn an_unknown_exec_cannot_be_signalled() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        check_plain(&session.signal("nobody", "INT"), "404 Not Found", 86, "not found\n");
    }
}

#[test]
fn a_delivered_signal_has_no_content() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        let id = fresh_id();
        let call = session.send_ready(&session.exec("make", ["wait"]).id(&id));
        let answer = session.signal(&id, "TERM");
        assert_eq!(answer.status_line, "HTTP/1.1 204 No Content");
        assert_eq!((answer.exit_code(), answer.header("Content-Length")), (None, Some("0")));
        assert_eq!(call.answer().exit_code(), Some("143"));
    }
}

#[test]
fn an_exec_id_in_use_is_a_conflict() {
    for listen in TRANSPORTS {
        let session = rust_session(listen);
        let id = fresh_id();
        let first = session.send_ready(&session.exec("make", ["wait"]).id(&id));
        let second = session.answer(&session.exec("make", ["say"]).id(&id));
        assert_eq!((second.status(), second.exit_code()), (409, Some("86")));
        assert_eq!(second.text(), format!("exec id '{id}' is in use\n"));
        assert_eq!(session.signal(&id, "KILL").status(), 204, "the first still runs");
        first.answer();
    }
}

#[test]
fn a_tool_that_cannot_be_started_is_an_error_with_its_cause() {
    let absent_interpreter = Tool::File(b"#!/no/such/interpreter\n".to_vec(), 0o755);
    for listen in TRANSPORTS {
        let setup = SessionSetup::new().tool("gcc", absent_interpreter.clone()).listen(listen);
        let session = setup.start();
        for version in ["1", "2"] {
            let answer = session.answer(&session.exec("gcc", ["say"]).proto(version));
            assert_eq!(answer.status_line, "HTTP/1.1 500 Internal Server Error");
            assert_eq!(answer.exit_code(), Some("127"));
            let text = answer.text();
            assert!(text.starts_with("aifo-coder mailbox error: "), "{text:?}");
            assert!(text.ends_with('\n') && text.lines().count() == 1, "{text:?}");
        }
    }
}

#[test]
fn many_requests_leave_no_connection_open() {
    let session = rust_session(Listen::Default);
    let idle = aifo_tests::fd_count(session.pid());
    for version in ["1", "2", "9"] {
        for _ in 0..20 {
            session.answer(&session.exec("make", ["say"]).proto(version));
        }
    }
    eventually("all fds of the proxy are closed", || aifo_tests::fd_count(session.pid()) <= idle);
}
