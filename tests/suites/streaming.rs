//! Output streams: ordered, timely, and independent of other holders of the pipe.
//!
//! Proves `spec/toolexec.md#v2-streaming`, `spec/shim.md#output`.

use std::fs;
use std::io::Read;

use aifo_tests::{
    Listen, Outcome, Running, Session, SessionSetup, Tool, eventually, fresh_id, is_alive,
    tagged_processes,
};

const TRANSPORTS: [Listen; 2] = [Listen::Default, Listen::Tcp];

fn in_turns(rounds: u32) -> String {
    (0..rounds).map(|round| format!("out {round}\nerr {round}\n")).collect()
}

#[test]
fn stdout_and_stderr_are_merged_in_written_order() {
    let session = Session::start();
    for version in ["1", "2"] {
        let answer = session.answer(&session.exec("make", ["both", "200"]).proto(version));
        assert_eq!(answer.text(), in_turns(200), "v{version}");
    }
    let mut shim = session.shim("make");
    let shim = Outcome::of(shim.args(["both", "200"]).env("AIFO_SHIM_PROTO", "2"));
    assert_eq!((shim.text(), shim.stderr.as_str()), (in_turns(200), ""));
}

/// The shim's stdout and stderr stay separate, or shared, as its caller set them up.
#[test]
fn stdout_and_stderr_are_as_the_caller_has_them() {
    let lines = |name: &str| (0..200).map(|round| format!("{name} {round}\n")).collect::<String>();
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        for relays in ["0", "1"] {
            let mut shim = session.shim("make");
            shim.args(["both", "200"]).env("AIFO_SHIM_RELAY", relays);
            let apart = Outcome::of(&mut shim);
            assert_eq!((apart.text(), &apart.stderr), (lines("out"), &lines("err")), "{relays}");

            let (mut reader, writer) = std::io::pipe().expect("a pipe can be made");
            shim.stdout(writer.try_clone().expect("an fd can be cloned")).stderr(writer);
            let mut child = shim.spawn().expect("the shim starts");
            // The command holds the pipe open, too.
            drop(shim);
            let mut together = String::new();
            reader.read_to_string(&mut together).expect("the output is text");
            assert_eq!(together, in_turns(200), "{relays}");
            assert!(child.wait().expect("try_wait works on a child").success());
        }
    }
}

/// The tool continues only after its first line was read, so buffering fails the test.
#[test]
fn v2_output_arrives_while_the_tool_runs() {
    for listen in TRANSPORTS {
        let session = SessionSetup::new().listen(listen).start();
        let go = session.file("go");
        let mut call = session.send(&session.exec("make", ["hold", &go]));
        let so_far = call.read_until(b"first\n").to_vec();
        assert!(!so_far.windows(6).any(|window| window == b"second"));
        fs::write(&go, "").unwrap();
        let answer = call.answer();
        assert_eq!((answer.text().as_str(), answer.exit_code()), ("first\nsecond\n", Some("0")));
    }
}

#[test]
fn the_shim_passes_output_on_at_once() {
    let session = Session::start();
    let go = session.file("go");
    let shim = Running::start(session.shim("make").args(["hold", &go]));
    shim.expect("first\n");
    fs::write(&go, "").unwrap();
    let outcome = shim.finish();
    assert_eq!(outcome.exited(0).text(), "first\nsecond\n");
}

#[test]
fn the_head_comes_before_any_output() {
    let session = Session::start();
    let (id, ready) = (fresh_id(), session.file("ready"));
    let mut call = session.send(&session.exec("make", ["quiet", &ready]).id(&id));
    call.read_until(b"\r\n\r\n");
    assert_eq!(session.signal(&id, "KILL").status(), 204, "it runs, so it can be signalled");
    assert_eq!(call.answer().exit_code(), Some("137"));
}

/// The child writes only after the response is complete, and more than any pipe holds.
#[test]
fn a_background_child_neither_holds_the_answer_nor_breaks_on_it() {
    for version in ["1", "2"] {
        let session = Session::start();
        let (id, printed) = (fresh_id(), session.file("told"));
        let call = session.exec("make", ["background", &printed]).id(&id).proto(version);
        let answer = session.answer(&call);
        assert_eq!((answer.text().as_str(), answer.exit_code()), ("parent\n", Some("0")));

        let left = tagged_processes(&id);
        assert_eq!(left.len(), 1, "the child lives on");
        assert!(is_alive(left[0]));
        fs::write(session.file("told.go"), "").unwrap();
        eventually("the child has reported its writes", || fs::exists(&printed).unwrap());
        assert_eq!(fs::read_to_string(&printed).unwrap(), "survived");
    }
}

#[test]
fn empty_output_is_no_chunk() {
    let session = Session::start();
    let answer = session.answer(&session.exec("make", ["exit", "0"]));
    assert!(answer.raw.ends_with(b"\r\n\r\n0\r\nX-Exit-Code: 0\r\n\r\n"));
    assert_eq!(answer.body, b"");
}

#[test]
fn bytes_are_not_looked_at() {
    let session = SessionSetup::new().tool("cc", Tool::Link("/bin/cat".into())).start();
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let file = session.file("bytes");
    fs::write(&file, &bytes).unwrap();
    for version in ["1", "2"] {
        let answer = session.answer(&session.exec("cc", [&file]).proto(version));
        assert_eq!(answer.body, bytes, "v{version}");
    }
    let shim = Outcome::of(session.shim("cc").arg(&file));
    assert_eq!(shim.exited(0).stdout, bytes);
}
