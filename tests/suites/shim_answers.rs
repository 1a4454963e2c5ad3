//! The shim's handling of responses from a scripted proxy. This file has those of version 2.
//!
//! Proves `spec/shim.md#exit-codes-and-messages`.

mod frames;
mod played;
mod versions;

use aifo_tests::Outcome;

use played::{PlayedProxy, Request};

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Transfer-Encoding: chunked\r\nTrailer: X-Exit-Code\r\nConnection: close\r\nX-Exec-Id: e1\r\n\
    \r\n6\r\nhello\n\r\n0\r\nX-Exit-Code: 0\r\n\r\n";

/// Runs a version 2 call against one response.
#[track_caller]
fn play(answer: &[u8]) -> (Outcome, Request) {
    let proxy = PlayedProxy::new();
    let (outcome, requests) = proxy.play(proxy.shim().env("AIFO_SHIM_PROTO", "2"), &[answer]);
    let [request] = <[Request; 1]>::try_from(requests).expect("one answer, one request");
    (outcome, request)
}

#[test]
fn the_request_is_the_one_that_proxies_know() {
    let (_, request) = play(STREAM.as_bytes());
    let expected = [
        "POST /exec HTTP/1.1",
        "Host: localhost",
        "Authorization: Bearer s3cret",
        "X-Aifo-Proto: 2",
        "TE: trailers",
        "Content-Type: application/x-www-form-urlencoded",
    ];
    assert_eq!(request.head.lines().take(expected.len()).collect::<Vec<_>>(), expected);
    for line in ["X-Aifo-Exec-Id: e1", "Connection: close"] {
        assert!(request.has(line), "{line} is not in {}", request.head);
    }
    let body = String::from_utf8(request.body).expect("a form is text");
    let mut pairs: Vec<&str> = body.split('&').collect();
    pairs.retain(|pair| !pair.starts_with("cwd="));
    assert_eq!(pairs, ["tool=make", "arg=a", "arg=b+c"]);
}

#[test]
fn answers_in_every_accepted_spelling() {
    let lf_only = STREAM.replace("\r\n", "\n");
    let lower_case = STREAM
        .replace("Transfer-Encoding: chunked", "transfer-encoding: chunked")
        .replace("X-Exit-Code: 0", "x-exit-code: 0");
    let extended = STREAM.replace("\r\n6\r\n", "\r\n6;ext=\"a b\"\r\n");
    let invited = format!("HTTP/1.1 100 Continue\r\n\r\n{STREAM}");
    let plain = "HTTP/1.1 200 OK\r\nX-Exit-Code: 0\r\nContent-Length: 6\r\n\r\nhello\n".to_owned();
    let rows = [STREAM.to_owned(), lf_only, lower_case, extended, invited, plain];
    for answer in rows {
        let (outcome, _) = play(answer.as_bytes());
        assert_eq!(outcome.exited(0).text(), "hello\n", "{answer:?}");
        assert_eq!(outcome.stderr, "", "{answer:?}");
    }
}

#[test]
fn exit_codes_of_head_and_trailer() {
    for code in [0, 1, 86, 124, 125, 255] {
        let trailer = STREAM.replace("X-Exit-Code: 0", &format!("X-Exit-Code: {code}"));
        play(trailer.as_bytes()).0.exited(code);
        let head = format!("HTTP/1.1 200 OK\r\nX-Exit-Code: {code}\r\nContent-Length: 0\r\n\r\n");
        play(head.as_bytes()).0.exited(code);
    }
}

#[test]
fn a_refusal_goes_to_stderr() {
    let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\n\
        X-Exit-Code: 86\r\nContent-Length: 10\r\nConnection: close\r\n\r\nforbidden\n";
    let (outcome, _) = play(refusal.as_bytes());
    assert_eq!(outcome.exited(86).text(), "");
    assert!(outcome.only_line().contains("forbidden"), "{}", outcome.stderr);
}

#[test]
fn a_stream_cut_anywhere_is_125_and_one_line() {
    for end in 0..STREAM.len() {
        let (outcome, _) = play(&STREAM.as_bytes()[..end]);
        assert_eq!(outcome.code(), Some(125), "cut at {end}: {outcome:?}");
        assert!("hello\n".starts_with(&outcome.text()), "cut at {end}: {outcome:?}");
        assert!(outcome.only_line().starts_with("aifo-shim: "), "cut at {end}: {outcome:?}");
    }
}

#[test]
fn an_end_without_an_exit_code_is_125() {
    let rows = ["", "X-Other: 0\r\n", "X-Exit-Code: \r\n", "X-Exit-Code: ok\r\n"];
    let numbers = ["X-Exit-Code: 256\r\n", "X-Exit-Code: -1\r\n", "X-Exit-Code: 0x0\r\n"];
    for trailer in rows.into_iter().chain(numbers) {
        let (outcome, _) = play(STREAM.replace("X-Exit-Code: 0\r\n", trailer).as_bytes());
        assert_eq!(outcome.exited(125).text(), "hello\n", "{trailer:?}");
        outcome.only_line();
    }
}

#[test]
fn bytes_that_are_no_answer_are_125() {
    let rows = [
        "garbage\r\n\r\n",
        "HTTP/1.1 banana\r\n\r\n",
        "\u{0}\u{1}\u{2}",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n",
    ];
    for answer in rows {
        let (outcome, _) = play(answer.as_bytes());
        assert_eq!(outcome.exited(125).text(), "", "{answer:?}");
        outcome.only_line();
    }
}
