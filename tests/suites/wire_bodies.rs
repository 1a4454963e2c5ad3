//! A truncated, oversize or malformed body never runs a tool.

use std::fs;
use std::path::Path;
use std::time::Duration;

use aifo_tests::{Listen, Request, Session, SessionSetup, form};

const TRANSPORTS: [Listen; 2] = [Listen::Default, Listen::Tcp];
const MIB: usize = 1024 * 1024;

/// A call that would create `ran` in the workspace, without body framing.
fn unframed(session: &Session) -> Request {
    session.exec("make", ["count", &session.file("ran")]).proto("1")
}

/// The same, with the body as one chunk.
fn chunked(session: &Session) -> Request {
    let call = unframed(session);
    let body = [&chunk(call.encode_body())[..], b"0\r\n\r\n"].concat();
    call.header("Transfer-Encoding", "chunked").body(body)
}

fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// A form body of exactly `size` bytes, padded by an unknown key.
fn padded(session: &Session, size: usize) -> Vec<u8> {
    let mut body = unframed(session).encode_body().to_vec();
    body.extend_from_slice(b"&pad=");
    body.resize(size, b'x');
    body
}

/// Asserts that nothing ran, also after a later call has completed.
#[track_caller]
fn check_nothing_ran(session: &Session) {
    let later = session.answer(&session.exec("make", ["count", &session.file("later")]));
    assert_eq!(later.exit_code(), Some("0"));
    assert!(!Path::new(&session.file("ran")).exists(), "a bad request was executed");
}

#[test]
fn the_call_that_the_others_spoil_is_good() {
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        assert_eq!(session.answer(&unframed(&session)).status(), 200);
        assert_eq!(session.answer(&chunked(&session)).status(), 200);
        let ran = fs::read_to_string(session.file("ran")).expect("it ran");
        assert_eq!(ran, "ran\nran\n");
    }
}

#[test]
fn declared_lengths_that_mean_nothing() {
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        for length in ["abc", "+5", "-1", "", "5, 5", "5 5", "0x5", "5.0", "18446744073709551616"] {
            let request = unframed(&session).header("Content-Length", length);
            let mut connection = session.send(&request);
            connection.half_close();
            let answer = connection.answer();
            // A number that is too large is refused as malformed or as oversize.
            assert!(matches!(answer.status(), 400 | 413), "{length:?}: {}", answer.status_line);
            assert_eq!(answer.exit_code(), Some("86"));
        }
        let length = unframed(&session).encode_body().len();
        let two = unframed(&session)
            .header("Content-Length", length.to_string())
            .header("Content-Length", (length + 1).to_string());
        assert_eq!(session.answer(&two).status(), 400, "two different lengths");
        check_nothing_ran(&session);

        let twice = unframed(&session)
            .header("Content-Length", length.to_string())
            .header("Content-Length", length.to_string());
        assert_eq!(session.answer(&twice).status(), 200, "the same length twice says one thing");
    }
}

#[test]
fn transfer_codings() {
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        let with = |codings: &[&str]| {
            let request = chunked(&session).without("Transfer-Encoding");
            codings.iter().fold(request, |r, coding| r.header("Transfer-Encoding", *coding))
        };
        let refused: [&[&str]; 5] = [
            &["gzip"],
            &["gzip, chunked"],
            &["chunked, gzip"],
            &["chunked", "gzip"],
            &["identity"],
        ];
        for codings in refused {
            let mut connection = session.send(&with(codings));
            connection.half_close();
            assert_eq!(connection.answer().status(), 400, "{codings:?}");
        }
        check_nothing_ran(&session);
        let taken: [&[&str]; 3] = [&["chunked"], &["Chunked"], &["gzip", "chunked"]];
        for codings in taken {
            assert_eq!(session.answer(&with(codings)).status(), 200, "{codings:?}");
        }
        let both = chunked(&session).header("Content-Length", "3");
        assert_eq!(session.answer(&both).status(), 200, "chunked wins over a length");
    }
}

#[test]
fn malformed_chunks() {
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        let data = unframed(&session).encode_body().to_vec();
        let good = chunk(&data);
        let size = format!("{:x}", data.len());
        let respelled = |line: &str| [line.as_bytes(), b"\r\n", &data, b"\r\n0\r\n\r\n"].concat();
        let rows = [
            ("no hex", respelled("zz")),
            ("an empty size line", respelled("")),
            ("only an extension", respelled(";ext")),
            ("a plus", respelled(&format!("+{size}"))),
            ("a minus", respelled("-1")),
            ("a prefix", respelled(&format!("0x{size}"))),
            ("too large to count", respelled("fffffffffffffffff")),
            ("larger than a body can be", respelled("ffffffffffffffff")),
            ("an endless size line", respelled(&"0".repeat(100_000))),
            ("data longer than its size", [b"5\r\n", &data[..], b"\r\n0\r\n\r\n"].concat()),
            ("an empty line in place of the last chunk", [&good[..], b"\r\n\r\n"].concat()),
            ("junk in place of the last chunk", [&good[..], b"x\r\n\r\n"].concat()),
        ];
        for (what, body) in rows {
            let mut connection = session.connect();
            let _ = connection.try_send(chunked(&session).body(body).encode());
            connection.half_close();
            let answer = connection.answer();
            assert!(matches!(answer.status(), 400 | 413), "{what}: {}", answer.status_line);
            assert_eq!(answer.exit_code(), Some("86"), "{what}");
        }
        check_nothing_ran(&session);
    }
}

/// Truncated at every point, by a half-close or a disconnect.
#[test]
fn bodies_that_are_cut_off() {
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        for whole in [unframed(&session), chunked(&session)] {
            let head = whole.encode_head().len();
            let bytes = whole.encode();
            for end in [head, head + 1, head + 10, bytes.len() - 3, bytes.len() - 1] {
                let mut connection = session.connect();
                connection.send(&bytes[..end]).half_close();
                assert_eq!(connection.answer().status(), 400, "cut at {end} of {}", bytes.len());
                session.connect().send(&bytes[..end]);
            }
        }
        check_nothing_ran(&session);
    }
}

#[test]
fn the_largest_body_and_one_byte_more() {
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        let body = padded(&session, MIB + 1);
        let too_large = unframed(&session).body(&body);
        let mut connection = session.connect();
        // The response may arrive before all of the body is sent.
        let _ = connection.try_send(too_large.encode());
        assert_eq!(connection.answer().text(), "request body exceeds 1 MiB\n");

        let pieces: Vec<u8> = body.chunks(8 * 1024).flat_map(chunk).collect();
        let pieces = [&pieces[..], b"0\r\n\r\n"].concat();
        let too_large = unframed(&session).header("Transfer-Encoding", "chunked").body(pieces);
        let answer = session.answer(&too_large);
        assert_eq!(answer.status_line, "HTTP/1.1 413 Content Too Large", "drained, then refused");
        check_nothing_ran(&session);

        let body = padded(&session, MIB);
        assert_eq!(session.answer(&unframed(&session).body(&body)).status(), 200);
        let pieces: Vec<u8> = body.chunks(8 * 1024).flat_map(chunk).collect();
        let pieces = [&pieces[..], b"0\r\n\r\n"].concat();
        let largest = unframed(&session).header("Transfer-Encoding", "chunked").body(pieces);
        assert_eq!(session.answer(&largest).status(), 200);
    }
}

#[test]
fn a_declared_oversize_is_refused_before_the_body_arrives() {
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        let request = unframed(&session).header("Content-Length", "1048577");
        let mut connection = session.connect();
        connection.send(request.encode_head());
        assert_eq!(connection.answer().status(), 413);
    }
}

#[test]
fn a_refused_client_may_still_send_its_body() {
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        let body = form([("tool", &b"make"[..]), ("arg", &vec![b'x'; 256 * 1024])]);
        let request = session.post("/exec").with("Authorization", "Bearer wrong").body(body);
        assert_eq!(session.answer(&request).text(), "unauthorized\n");
    }
}

/// Waits for the 30 s timeout of a body.
#[test]
fn a_body_that_stalls_times_out() {
    let session = Session::start();
    let bytes = unframed(&session).encode();
    let mut connection = session.connect();
    connection.set_deadline(Duration::from_secs(90)).send(&bytes[..bytes.len() - 1]);
    let answer = connection.answer();
    assert_eq!(answer.status_line, "HTTP/1.1 408 Request Timeout");
    assert_eq!((answer.exit_code(), answer.text().as_str()), (Some("86"), "request timeout\n"));
    check_nothing_ran(&session);
}

/// Waits for the 10 s timeout of a head. The response is unspecified.
#[test]
fn a_head_that_stalls_loses_its_connection() {
    let session = Session::start();
    let mut connection = session.connect();
    connection.set_deadline(Duration::from_secs(90)).send("POST /exec HTTP/1.1\r\nX: ");
    let said = connection.rest();
    assert!(!said.starts_with(b"HTTP/1.1 2"), "{:?}", said.escape_ascii());
}
