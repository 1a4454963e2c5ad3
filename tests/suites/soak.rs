//! A session does not grow over thousands of calls.
//!
//! `AIFO_TEST_CALLS` is the number of calls (default 10,000); a tenth of them is a warm-up.

use aifo_tests::{ResourceUsage, Session, SessionSetup, Tool, number_from};

#[test]
fn no_fd_process_or_memory_is_gained() {
    let calls = number_from("AIFO_TEST_CALLS", 10_000);
    let session = SessionSetup::new().tool("cc", Tool::Link("/bin/true".into())).start();
    run(&session, 0..calls / 10);
    let before = ResourceUsage::of(&session);
    run(&session, calls / 10..calls);
    ResourceUsage::check_no_gain(&session, &before);
}

/// Calls with every ending: versions 1 and 2, refused, missing, unknown.
fn run(session: &Session, numbers: std::ops::Range<u64>) {
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
