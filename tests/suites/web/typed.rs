//! The typed stream, for programs.

use aifo_tests::{Step, WebBrowser, WebEvent, WebStream, eventually};
use serde_json::{Value, json};

use super::{WebTest, turn, waiting_turn};

/// Opens a session's typed stream after an event, or at the first kept report.
fn typed(browser: &WebBrowser, session: &str, last: &str) -> WebStream {
    let past = if last.is_empty() { "?past=1" } else { "" };
    browser.stream(&format!("/api/sessions/{session}/events{past}"), last)
}

/// Reads up to the report of a type.
#[track_caller]
fn read_to(stream: &mut WebStream, kind: &str) -> Vec<WebEvent> {
    let mut events = Vec::new();
    loop {
        let event = stream.next().expect("the stream is open");
        let is_last = report(&event)["type"] == kind;
        events.push(event);
        if is_last {
            return events;
        }
    }
}

fn report(event: &WebEvent) -> Value {
    serde_json::from_str(&event.data).expect("a report is JSON")
}

#[test]
fn it_resumes_after_any_event() {
    let steps = [Step::say("one "), Step::say("two "), Step::say("three"), Step::stop("end_turn")];
    let test = WebTest::with(&turn(steps));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    browser.prompt(&session, "hello");
    let whole = read_to(&mut typed(&browser, &session, ""), "final");
    for (index, event) in whole.iter().enumerate().take(whole.len() - 1) {
        let rest = read_to(&mut typed(&browser, &session, &event.id), "final");
        assert_eq!(rest, whole[index + 1..], "after {index}");
    }
    // An unknown number has a gap before it.
    let all = read_to(&mut typed(&browser, &session, "1"), "final");
    assert_eq!(report(&all[0]), json!({"type": "gap"}));
    assert_eq!(all[1..], whole);
}

#[test]
fn it_resumes_over_a_restart() {
    let test = WebTest::with(&turn([Step::say("before"), Step::stop("end_turn")]));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    browser.prompt(&session, "hello");
    let whole = read_to(&mut typed(&browser, &session, ""), "final");
    drop(server);

    test.agent.plays(&turn([Step::say("after"), Step::stop("end_turn")]));
    let _server = test.start();
    browser.prompt(&session, "again");
    let mut stream = typed(&browser, &session, &whole[0].id);
    assert_eq!(read_to(&mut stream, "final"), whole[1..], "nothing is lost");
    let next = read_to(&mut stream, "final");
    let last = next.last().expect("a report");
    assert_eq!(report(last)["text"], "after");
    let number = |event: &WebEvent| event.id.parse::<u64>().expect("a number");
    assert!(number(&next[0]) > number(whole.last().expect("a report")), "numbers never repeat");
}

#[test]
fn a_turn_of_a_killed_server_has_an_end() {
    let test = WebTest::with(&waiting_turn());
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    browser.prompt(&session, "hello");
    let read = read_to(&mut typed(&browser, &session, ""), "permission");
    let stored = || {
        let files = aifo_tests::files_below(&test.setup.scratch().join("home"));
        let reports = files.iter().find(|path| path.extension().is_some_and(|it| it == "reports"));
        reports.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    };
    eventually("it is in the file", || stored().contains("\"permission\""));
    server.kill();
    let _server = test.start();
    let rest = read_to(&mut typed(&browser, &session, &read[0].id), "final");
    assert_eq!(rest[..rest.len() - 1], read[1..]);
    let end = report(rest.last().expect("a report"));
    let why = "the turn was interrupted: aifo-coder web was stopped";
    assert_eq!(end["error"]["message"], why, "{end}");
}

#[test]
fn a_turn_that_cannot_begin_has_an_end() {
    let test = WebTest::with(&turn([Step::stop("end_turn")]));
    let server = WebTest::start_with_agent(&test, "/nowhere/agent");
    let browser = server.sign_in();
    let session = browser.new_session();
    browser.prompt(&session, "hello");
    let end = read_to(&mut typed(&browser, &session, ""), "final");
    let error = report(&end[0])["error"]["message"].to_string();
    assert!(error.contains("/nowhere/agent"), "{error}");
}
