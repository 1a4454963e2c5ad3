//! Bulk output: 256 MiB arrive unchanged, and the proxy's memory stays small.

use std::io::Read;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use aifo_tests::{BLOCK, Connection, Listen, RandomBytes, Session, SessionSetup, status_kib};

const SIZE: u64 = 256 << 20;
const SEED: &str = "42";
/// By how much the proxy's peak resident memory may grow. Before the call it is mostly the program
/// itself, which is larger in a debug build.
const GROWTH_KIB: u64 = 4 * 1024;

#[test]
fn v2_with_a_reader_that_falls_asleep() {
    let session = Session::start();
    let before = peak(&session);
    let mut command = session.shim("make");
    command.args(["emit", &SIZE.to_string(), SEED]).stdout(Stdio::piped());
    let mut shim = command.spawn().expect("the shim starts");
    let mut stdout = shim.stdout.take().expect("stdout is a pipe");

    let mut noise = RandomBytes::new(42);
    let mut buffer = vec![0; BLOCK];
    let mut slept = false;
    loop {
        let count = stdout.read(&mut buffer).expect("the pipe can be read");
        if count == 0 {
            break;
        }
        noise.check(&buffer[..count]);
        if !slept && noise.position() > SIZE / 2 {
            // Not a wait for a condition: the test is about a reader that does not read.
            sleep(Duration::from_secs(5));
            slept = true;
        }
    }
    assert_eq!(noise.position(), SIZE);
    assert_eq!(shim.wait().expect("wait works on a child").code(), Some(0));
    check_growth(&session, before);
}

#[test]
fn v1_over_both_transports() {
    for listen in [Listen::Default, Listen::Tcp] {
        let session = SessionSetup::new().listen(listen).start();
        let before = peak(&session);
        let call = session.exec("make", ["emit", &SIZE.to_string(), SEED]).proto("1");
        let mut connection = session.send(&call);
        connection.set_deadline(Duration::from_secs(120));
        let (head, start) = head_and_start_of_body(&mut connection);
        assert!(head.contains(&format!("\r\nContent-Length: {SIZE}\r\n")), "{head}");
        assert!(head.contains("\r\nX-Exit-Code: 0\r\n"), "{head}");

        let mut noise = RandomBytes::new(42);
        noise.check(&start);
        let mut buffer = vec![0; BLOCK];
        loop {
            let count = connection.read(&mut buffer);
            if count == 0 {
                break;
            }
            noise.check(&buffer[..count]);
        }
        assert_eq!(noise.position(), SIZE);
        check_growth(&session, before);
    }
}

fn head_and_start_of_body(connection: &mut Connection) -> (String, Vec<u8>) {
    let received = connection.read_until(b"\r\n\r\n");
    let end = received.windows(4).position(|four| four == b"\r\n\r\n").expect("it was found") + 4;
    let (head, body) = received.split_at(end);
    (String::from_utf8_lossy(head).into_owned(), body.to_vec())
}

/// The proxy's peak resident memory, in KiB.
fn peak(session: &Session) -> u64 {
    status_kib(session.pid(), "VmHWM")
}

#[track_caller]
fn check_growth(session: &Session, before: u64) {
    let growth = peak(session).saturating_sub(before);
    assert!(growth < GROWTH_KIB, "the proxy grew by {growth} KiB, more than {GROWTH_KIB}");
}
