//! A session does not grow over thousands of calls.
//!
//! `AIFO_TEST_CALLS` is the number of calls (default 10,000); a tenth of them is a warm-up.

use aifo_tests::{ResourceUsage, Session, SessionSetup, Tool, eventually};

const MAX_GAIN_KIB: u64 = 1024;

#[test]
fn no_fd_process_or_memory_is_gained() {
    let calls = std::env::var("AIFO_TEST_CALLS").ok();
    let calls: usize = calls.map_or(10_000, |n| n.parse().expect("AIFO_TEST_CALLS is a number"));
    let session = SessionSetup::new().tool("cc", Tool::Link("/bin/true".into())).start();
    run(&session, 0..calls / 10);
    let before = ResourceUsage::of(&session);
    run(&session, calls / 10..calls);

    eventually("no fd and no process is gained", || {
        let now = ResourceUsage::of(&session);
        now.processes <= before.processes
            && now.fds.iter().zip(&before.fds).all(|(now, before)| now <= before)
    });
    let after = ResourceUsage::of(&session);
    for (after_kib, before_kib) in after.anonymous_kib.iter().zip(&before.anonymous_kib) {
        assert!(*after_kib <= before_kib + MAX_GAIN_KIB, "{before:?} became {after:?}");
    }
}

/// Calls with every ending: versions 1 and 2, refused, missing, unknown.
fn run(session: &Session, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let call = session.exec("cc", ["x"]);
        let (request, status) = match number % 20 {
            0 => (call.proto("1"), 200),
            1 => (session.exec("ls", ["x"]), 403),
            2 => (call.line("POST /signal HTTP/1.1").field("exec_id", "gone"), 404),
            3 => (call.without("Authorization"), 401),
            4 => (session.exec("cmake", ["x"]), 409),
            _ => (call, 200),
        };
        assert_eq!(session.answer(&request).status(), status, "call {number}");
    }
}
