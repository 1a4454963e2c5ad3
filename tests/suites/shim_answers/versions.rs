//! A call starts with version 3 and falls back to version 2 if the proxy does not support it.

use std::io::{Read, Write};

use aifo_tests::{Running, Signal, frames};

use crate::shim_answers::STREAM;
use crate::shim_answers::played::{PlayedProxy, Request};

const TOO_NEW: &[u8] = b"HTTP/1.1 426 Upgrade Required\r\n\
    Content-Type: text/plain; charset=utf-8\r\nX-Exit-Code: 86\r\nContent-Length: 43\r\n\
    Connection: close\r\n\r\nUnsupported shim protocol; expected 1 or 2\n";

#[track_caller]
fn check_version_3(request: &Request) {
    let expected = [
        "POST /exec HTTP/1.1",
        "Authorization: Bearer s3cret",
        "X-Aifo-Proto: 3",
        "Connection: Upgrade",
        "Upgrade: aifo-exec",
        "X-Aifo-Exec-Id: e1",
    ];
    for line in expected {
        assert!(request.has(line), "{line} is not in {}", request.head);
    }
    assert!(request.body.starts_with(b"\0\0\0\x03\0\0\0\x04make\0\0\0\x01a\0\0\0\x03b c"));
}

#[test]
fn a_proxy_that_is_older_is_asked_by_version_2() {
    let proxy = PlayedProxy::new();
    let stream = STREAM.as_bytes();
    let (alone, only) = proxy.play(proxy.shim().env("AIFO_SHIM_PROTO", "2"), &[stream]);
    for relays in ["0", "1"] {
        let mut shim = proxy.shim();
        let (outcome, requests) =
            proxy.play(shim.env("AIFO_SHIM_RELAY", relays), &[TOO_NEW, stream]);
        check_version_3(&requests[0]);
        assert_eq!(requests[1..], only, "as if it had begun with version 2");
        assert_eq!((outcome.status, &outcome.stdout), (alone.status, &alone.stdout));
        assert_eq!((outcome.exited(0).text().as_str(), outcome.stderr.as_str()), ("hello\n", ""));
    }
}

#[test]
fn a_proxy_that_knows_neither_is_not_asked_again() {
    let proxy = PlayedProxy::new();
    let printed = "aifo-shim: Unsupported shim protocol; expected 1 or 2";
    let (outcome, requests) = proxy.play(&mut proxy.shim(), &[TOO_NEW, TOO_NEW]);
    check_version_3(&requests[0]);
    assert!(requests[1].has("X-Aifo-Proto: 2"));
    assert_eq!((outcome.exited(86).only_line(), outcome.text().as_str()), (printed, ""));

    let (outcome, _) = proxy.play(proxy.shim().env("AIFO_SHIM_PROTO", "2"), &[TOO_NEW]);
    assert_eq!((outcome.exited(86).only_line(), outcome.text().as_str()), (printed, ""));
}

/// No other response causes a retry: the tool may have run, or must not run.
#[test]
fn nothing_else_is_a_reason_to_ask_again() {
    let proxy = PlayedProxy::new();
    let refusal = |status: &str, code: u8| {
        format!("HTTP/1.1 {status}\r\nX-Exit-Code: {code}\r\nContent-Length: 3\r\n\r\nno\n")
    };
    let rows = [("400 Bad Request", 86), ("403 Forbidden", 86), ("404 Not Found", 127)];
    for (status, code) in rows.into_iter().chain([("500 Internal Server Error", 125)]) {
        let (outcome, requests) =
            proxy.play(&mut proxy.shim(), &[refusal(status, code).as_bytes()]);
        check_version_3(&requests[0]);
        let left = (outcome.exited(code.into()).only_line(), outcome.text());
        assert_eq!(left, ("aifo-shim: no", String::new()));
    }
    for cut in ["", "HTTP/1.1 426 Upgrade Required\r\nX-Exit-Code: 86\r\n"] {
        let (outcome, _) = proxy.play(&mut proxy.shim(), &[cut.as_bytes()]);
        assert_eq!(outcome.exited(125).text(), "");
        outcome.only_line();
    }
}

/// It was caught during the version 3 attempt and is forwarded to the tool.
#[test]
fn a_signal_in_between_is_not_lost() {
    let proxy = PlayedProxy::new();
    let shim = Running::start(&mut proxy.shim());
    let (_, mut first) = proxy.accept();
    shim.signal(Signal::SIGINT);
    let forwarded = frames::frame(frames::kind::SIGNAL, [2]);
    let mut frame = vec![0; forwarded.len()];
    first.read_exact(&mut frame).expect("the shim forwards it");
    assert_eq!(frame, forwarded);
    first.write_all(TOO_NEW).expect("the shim waits for an answer");

    let (_, mut second) = proxy.accept();
    let (signal, _) = proxy.accept();
    assert!(signal.head.starts_with("POST /signal "), "{}", signal.head);
    let mut pairs: Vec<&[u8]> = signal.body.split(|&byte| byte == b'&').collect();
    pairs.sort();
    assert_eq!(pairs, [&b"exec_id=e1"[..], b"signal=INT"]);
    second.write_all(STREAM.as_bytes()).expect("the shim waits for an answer");
    drop(second);
    assert_eq!(shim.finish().exited(0).text(), "hello\n");
}
