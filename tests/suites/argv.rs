//! Arguments arrive byte for byte.
//!
//! Proves `spec/toolexec.md#parameters`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use aifo_tests::{Outcome, Session};

/// Through the shim and through raw versions 1 and 2: the tool prints each argument and a NUL.
#[track_caller]
fn check(session: &Session, args: &[&[u8]]) {
    let expected: Vec<u8> = args.iter().flat_map(|arg| [*arg, b"\0"].concat()).collect();
    let args: Vec<&OsStr> = args.iter().map(|arg| OsStr::from_bytes(arg)).collect();
    let with_verb = || [OsStr::new("args")].into_iter().chain(args.iter().copied());

    let shim = Outcome::of(session.shim("make").args(with_verb()));
    assert!(shim.exited(0).stdout == expected, "through the shim");
    for version in ["1", "2"] {
        let answer = session.answer(&session.exec("make", with_verb()).proto(version));
        assert!(answer.body == expected, "through raw v{version}: {}", answer.status_line);
        assert_eq!(answer.exit_code(), Some("0"));
    }
}

#[test]
fn plain_odd_and_empty() {
    let session = Session::start();
    let rows: [&[&[u8]]; 9] = [
        &[],
        &[b""],
        &[b"", b"", b"x", b""],
        &[b"a b", b" ", b"\t", b"\n", b"\r\n", b"a\nb\n"],
        &[b"'", b"\"", b"\\", b"`id`", b"$(id)", b"$HOME", b"*", b"~", b";", b"|", b">x"],
        &[b"%", b"%41", b"%zz", b"+", b"a+b", b"&", b"a&b", b"=", b"a=b", b"arg=x", b"tool=ls"],
        &[b"\xff", b"\xc3", b"\xf0\x9f", "\u{e9}\u{1f980}".as_bytes(), b"\x01\x7f"],
        &[b"--", b"-", b"--version", b"--help", b"-c"],
        &[b"--token", b"s3cret", b"--password=x"],
    ];
    for args in rows {
        check(&session, args);
    }
}

#[test]
fn every_byte_but_nul() {
    let session = Session::start();
    let all: Vec<u8> = (1..=255).collect();
    let each: Vec<Vec<u8>> = (1..=255).map(|byte| vec![byte]).collect();
    check(&session, &[&all]);
    check(&session, &each.iter().map(|arg| &arg[..]).collect::<Vec<_>>());
}

#[test]
fn one_hundred_kib_in_one_argument() {
    check(&Session::start(), &[&[b'x'; 100 * 1024]]);
}

#[test]
fn nine_hundred_kib_in_all() {
    let session = Session::start();
    let large = vec![b'x'; 100 * 1024];
    check(&session, &[&large[..]; 9]);
    let small = [b'y'; 89];
    check(&session, &[&small[..]; 9 * 1024]);
}

#[test]
fn many_empty_arguments() {
    check(&Session::start(), &[&b""[..]; 10_000]);
}

/// The kernel limits one argument to 128 KiB.
#[test]
fn arguments_that_the_kernel_refuses_are_126_and_a_clear_line() {
    let session = Session::start();
    let large = OsString::from_vec(vec![b'x'; 130 * 1024]);
    for version in ["1", "2"] {
        let args = [OsStr::new("args"), &large];
        let answer = session.answer(&session.exec("make", args).proto(version));
        assert_eq!((answer.status(), answer.exit_code()), (500, Some("126")));
        let text = answer.text();
        assert!(text.starts_with("aifo-coder mailbox error: "), "{text}");
        assert!(text.to_lowercase().contains("argument list too long"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
