//! Tolerated input: every spelling that existing clients use.

use aifo_tests::{Listen, Request, Session, SessionSetup};

const TRANSPORTS: [Listen; 2] = [Listen::Default, Listen::Tcp];
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn hello(session: &Session) -> Request {
    session.exec("make", ["say", "hello"]).proto("1")
}

#[track_caller]
fn check_hello(session: &Session, bytes: &[u8]) {
    let mut connection = session.connect();
    connection.send(bytes);
    let answer = connection.answer();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "hello\n"));
}

fn on_both(test: impl Fn(&Session)) {
    for listen in TRANSPORTS {
        test(&SessionSetup::new().listen(listen).start());
    }
}

#[test]
fn lines_may_end_in_lf() {
    on_both(|session| {
        let request = hello(session);
        let (head, body) = (request.encode_head(), request.encode_body());
        let lf_only = head.replace("\r\n", "\n");
        check_hello(session, &[lf_only.as_bytes(), body].concat());
        let mixed = head.replacen("\r\n", "\n", 2);
        check_hello(session, &[mixed.as_bytes(), body].concat());
        let chunks = format!("{:x}\n{}\n0\n\n", body.len(), String::from_utf8_lossy(body));
        let chunked = hello(session).header("Transfer-Encoding", "chunked").body(chunks);
        check_hello(session, &chunked.encode());
    });
}

#[test]
fn bytes_may_come_one_by_one() {
    on_both(|session| {
        let mut connection = session.connect();
        for byte in hello(session).encode() {
            connection.send([byte]);
        }
        assert_eq!(connection.answer().text(), "hello\n");
    });
}

#[test]
fn an_empty_line_may_stand_before_the_request() {
    on_both(|session| check_hello(session, &[b"\r\n", &hello(session).encode()[..]].concat()));
}

#[test]
fn chunks_may_have_extensions_and_trailers() {
    on_both(|session| {
        let request = hello(session);
        let body = String::from_utf8_lossy(request.encode_body()).into_owned();
        let (first, second) = body.split_at(20);
        let rows = [
            format!("14;ext=foo=bar\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n", second.len()),
            format!("14;a=\"b c\";d\r\n{first}\r\n{:X}\r\n{second}\r\n0\r\n\r\n", second.len()),
            format!("00014\r\n{first}\r\n{:04x}\r\n{second}\r\n000\r\n\r\n", second.len()),
            format!("14\r\n{first}\r\n{:x}\r\n{second}\r\n0;last\r\n\r\n", second.len()),
            format!("14\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\nX-T: 1\r\n\r\n", second.len()),
        ];
        for chunks in rows {
            let chunked = hello(session).header("Transfer-Encoding", "chunked").body(chunks);
            check_hello(session, &chunked.encode());
        }
    });
}

#[test]
fn the_query_is_ignored() {
    on_both(|session| {
        for target in ["/exec?x=1", "/exec?tool=ls", "/exec?"] {
            let request = hello(session).line(format!("POST {target} HTTP/1.1"));
            check_hello(session, &request.encode());
        }
    });
}

#[test]
fn bytes_behind_the_body_are_discarded() {
    on_both(|session| {
        let counted = session.exec("make", ["count", &session.file("ran")]);
        let pipelined = [hello(session).encode(), counted.encode()].concat();
        check_hello(session, &pipelined);
        check_hello(session, &[hello(session).encode(), vec![b'x'; 32 * 1024]].concat());
        let chunked = b"0\r\n\r\ntrailing".to_vec();
        let body = hello(session).encode_body().to_vec();
        let body = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n", &chunked].concat();
        let chunked = hello(session).header("Transfer-Encoding", "chunked").body(body);
        check_hello(session, &chunked.encode());
        assert!(!std::path::Path::new(&session.file("ran")).exists(), "one request a connection");
    });
}

#[test]
fn http_1_0_is_answered_without_chunks() {
    on_both(|session| {
        let request = hello(session).line("POST /exec HTTP/1.0");
        check_hello(session, &request.encode());
        let answer = session.answer(&request.proto("2"));
        assert_eq!(answer.status(), 426);
        assert_eq!(answer.text(), "Unsupported shim protocol; expected 1 or 2\n");
    });
}

#[test]
fn a_client_may_ask_before_it_sends_its_body() {
    on_both(|session| {
        let length = hello(session).encode_body().len().to_string();
        let asking =
            hello(session).header("Expect", "100-continue").header("Content-Length", length);
        let mut connection = session.connect();
        connection.send(asking.encode_head());
        assert_eq!(connection.read_until(CONTINUE), CONTINUE);
        connection.forget().send(asking.encode_body());
        assert_eq!(connection.answer().text(), "hello\n");

        let refused = [
            (asking.clone().with("Authorization", "Bearer wrong"), 401),
            (asking.clone().proto("9"), 426),
            (asking.clone().with("Content-Length", "1048577"), 413),
        ];
        for (request, status) in refused {
            let mut connection = session.connect();
            connection.send(request.encode_head()).half_close();
            assert_eq!(
                connection.answer().status(),
                status,
                "refused at once, without 100 Continue"
            );
        }
    });
}

#[test]
fn up_to_1024_headers() {
    on_both(|session| {
        let mut request = hello(session);
        // Five of its own, and the length that `encode` adds.
        let own = request.encode_head().lines().count() - 2;
        for _ in own..1024 {
            request = request.header("X", "y");
        }
        assert_eq!(request.encode_head().lines().count(), 1024 + 2);
        check_hello(session, &request.encode());
        let answer = session.answer(&request.header("X", "y"));
        assert_eq!(answer.status_line, "HTTP/1.1 431 Request Header Fields Too Large");
        assert_eq!(answer.text(), "request headers too large\n");
        assert_eq!(answer.exit_code(), Some("86"));
    });
}

#[test]
fn a_head_of_up_to_64_kib() {
    on_both(|session| {
        let large = hello(session).header("X-Large", "x".repeat(60 * 1024));
        check_hello(session, &large.encode());

        let too_large = hello(session).header("X-Large", "x".repeat(64 * 1024));
        assert_eq!(session.answer(&too_large).status(), 431);

        // A head without end is detected while it arrives.
        let mut connection = session.connect();
        connection.send("POST /exec HTTP/1.1\r\nX-Endless: ");
        let _ = connection.try_send("x".repeat(128 * 1024));
        assert_eq!(connection.answer().status(), 431);
    });
}
