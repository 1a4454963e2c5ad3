//! The shim's handling of frames.

use aifo_tests::frames::{data, frame, kind, stream};
use aifo_tests::{Outcome, Signal};

use crate::shim_answers::played::PlayedProxy;

const HEAD: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
    Upgrade: aifo-exec\r\nX-Exec-Id: e1\r\n\r\n";

/// The frames after the head if everything is relayed and stdin is null.
fn started() -> Vec<u8> {
    frame(kind::STARTED, [0, 0, 0, 1, 0, 0, 0, 9, 0, 2, 2])
}

/// An `Exit`: signal or code, its number, and the cause of a cancel.
fn exit(how: u8, status: u8, cancelled: u8) -> Vec<u8> {
    let ending = [0, 0, 0, 1, how, status, cancelled, 0];
    frame(kind::EXIT, [&ending[..], &[0; 8 + 32]].concat())
}

/// Runs a call against these frames after a head.
#[track_caller]
fn play(frames: &[&[u8]]) -> Outcome {
    play_bytes(&[&[HEAD], frames].concat().concat())
}

#[track_caller]
fn play_bytes(answer: &[u8]) -> Outcome {
    let proxy = PlayedProxy::new();
    proxy.play(proxy.shim().env("AIFO_SHIM_RELAY", "1"), &[answer]).0
}

#[test]
fn each_stream_goes_to_its_own() {
    let (hello, oops) = (data(stream::STDOUT, b"hello\n"), data(stream::STDERR, b"oops\n"));
    let outcome = play(&[&started(), &oops, &hello, &exit(0, 3, 0)]);
    assert_eq!((outcome.exited(3).text().as_str(), outcome.stderr.as_str()), ("hello\n", "oops\n"));
}

#[test]
fn the_shim_ends_as_the_exit_frame_says() {
    for code in [0, 1, 86, 124, 125, 130, 255] {
        let outcome = play(&[&started(), &exit(0, code, 0)]);
        assert_eq!(outcome.exited(code.into()).stderr, "");
    }
    for signal in [Signal::SIGINT, Signal::SIGKILL, Signal::SIGSEGV] {
        let outcome = play(&[&started(), &exit(1, signal as u8, 0)]);
        assert_eq!(outcome.died_of(signal).stderr, "");
    }
}

#[test]
fn frames_cut_anywhere_are_125_and_one_line() {
    let hello = data(stream::STDOUT, b"hello\n");
    let whole = [HEAD, &started(), &hello, &exit(0, 0, 0)].concat();
    assert_eq!(play_bytes(&whole).exited(0).text(), "hello\n");
    for end in 0..whole.len() {
        let outcome = play_bytes(&whole[..end]);
        assert_eq!(outcome.code(), Some(125), "cut at {end}: {outcome:?}");
        assert!("hello\n".starts_with(&outcome.text()), "cut at {end}: {outcome:?}");
        assert!(outcome.only_line().starts_with("aifo-shim: "), "cut at {end}: {outcome:?}");
    }
}

#[test]
fn an_invalid_response_is_125() {
    let started = started();
    let rows = [
        frame(0x7f, []),
        frame(kind::DATA, []),
        frame(kind::DATA, [9, b'x']),
        frame(kind::SIGNAL, [2]),
        frame(kind::EXIT, [0; 3]),
        data(stream::TERMINAL, b"shown where there is no terminal"),
        vec![kind::DATA, 0xff, 0xff, 0xff, 0xff],
        started.clone(),
    ];
    for odd in rows {
        let outcome = play(&[&started, &odd, &exit(0, 0, 0)]);
        assert_eq!(outcome.code(), Some(125), "{odd:?}: {outcome:?}");
        assert!(outcome.only_line().contains("invalid response"), "{odd:?}: {outcome:?}");
    }
}
