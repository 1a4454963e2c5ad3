//! A server that is killed or ended, and the next one.

use aifo_tests::{Script, Signal, Step, WebPage, eventually};
use serde_json::Value;

use super::{WebTest, turn, waiting_turn};

#[test]
fn a_killed_server_leaves_its_history_no_agent_and_no_question() {
    let test = WebTest::with(&waiting_turn());
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    browser.prompt(&session, "hello");
    let mut page =
        browser.page_when(&session, "a question", |page| !page.region("asks").is_empty());
    server.kill();
    eventually("no agent is left", || test.agent.alive().is_empty());

    // The browser still has access, and its page resumes.
    test.agent.plays(&Script::conforming());
    let server = test.start();
    assert_eq!(server.host, browser.host, "the name stays");
    let mut stream = browser.page_stream(&session, &page);
    page.is_synced = false;
    // Nothing of before is left, once the other sessions are listed too.
    while !page.is_synced || page.shown != browser.snapshot(&session).shown {
        let event = stream.next().expect("the stream is open");
        page.apply(&event);
    }
    let log = page.region("log");
    for words in
        ["hello", "half of a sentence", "cancelled: aifo-coder web was stopped", "interrupted"]
    {
        assert!(log.contains(words), "no {words:?} in {log}");
    }
    assert!(page.region("asks").is_empty() && page.is_idle(), "{page:?}");

    browser.prompt(&session, "again");
    let page = browser.page_when(&session, "an answer", |page| {
        page.is_idle() && page.region("log").contains("Hello World")
    });
    assert_eq!(test.agent.received_of("session/load").len(), 1);
    assert!(page.region("log").contains("half of a sentence"));
    drop(server);
}

#[test]
fn a_signal_ends_the_server_with_its_agent() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let test = WebTest::with(&turn([Step::say("running"), Step::Hang]));
        let server = test.start();
        let browser = server.sign_in();
        let session = browser.new_session();
        browser.prompt(&session, "hello");
        browser.page_when(&session, "a text", |page| page.region("log").contains("running"));
        let status = server.end_by(signal);
        assert_eq!(status.code(), Some(0), "{signal}");
        assert_eq!(test.agent.alive(), [0; 0], "{signal}");
        let server = test.start();
        let page = browser.page_when(&session, "the end", |page| page.is_idle());
        assert!(page.region("log").contains("aifo-coder web was stopped"), "{page:?}");
        drop(server);
    }
}

#[test]
fn a_disconnecting_browser_does_not_interrupt_the_turn() {
    let test = WebTest::with(&turn([
        Step::say("one"),
        Step::WaitForWord("go".to_owned()),
        Step::say(" two"),
        Step::stop("end_turn"),
    ]));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    browser.prompt(&session, "hello");
    browser.page_when(&session, "a text", |page| page.region("log").contains("one"));
    let mut other = WebPage::default();
    browser.page_stream(&session, &other).cut_after(100, &mut other);
    test.agent.release("go");
    let page = browser.page_when(&session, "the turn ends", |page| page.is_idle());
    assert!(page.region("log").contains("one two"), "{page:?}");
    assert_eq!(test.agent.received_of("session/cancel"), [Value::Null; 0]);
    drop(server);
}

#[test]
fn sessions_are_closed_and_deleted() {
    let test = WebTest::with(&Script::conforming());
    let server = test.start();
    let browser = server.sign_in();
    let (one, two) = (browser.new_session(), browser.new_session());
    browser.post(&format!("/api/sessions/{one}/close"), &Value::Null);
    browser.page_when(&one, "closed", |page| page.region("status").contains("closed"));
    browser.post(&format!("/api/sessions/{two}/delete"), &Value::Null);
    assert_eq!(browser.get(&format!("/api/stream?session={two}")).status, 404);
    drop(server);
    let server = test.start();
    let left = browser.get("/api/sessions").json();
    let left: Vec<&str> =
        left.as_array().unwrap().iter().map(|facts| facts["id"].as_str().unwrap()).collect();
    assert_eq!(left, [one.as_str()]);
    browser.prompt(&one, "a prompt opens it again");
    browser.page_when(&one, "an answer", |page| page.region("log").contains("Hello World"));
    drop(server);
}

#[test]
fn a_second_server_for_the_directory_is_refused() {
    let test = WebTest::with(&Script::conforming());
    let _server = test.start();
    let mut command = test.setup.coder();
    command.args(["web", "--backend", "local", "--listen", "127.0.0.1:0"]);
    command.args(["--agent-command", &test.agent.command_line()]);
    let outcome = aifo_tests::Outcome::of(&mut command);
    outcome.exited(86);
    assert!(outcome.stderr.contains("another 'aifo-coder web' serves"), "{outcome:?}");
}

#[test]
fn a_restarted_agent_does_not_interrupt_connected_clients() {
    let test = WebTest::with(&turn([Step::say("dying"), Step::Exit(3)]));
    let server = test.start();
    let browser = server.sign_in();
    let (dying, other) = (browser.new_session(), browser.new_session());
    // Connected before the agent exits, and never again.
    let mut page = WebPage::default();
    let mut stream = browser.page_stream(&other, &page);
    let mut typed = browser.stream(&format!("/api/sessions/{other}/events"), "");
    let mut leaving = WebPage::default();
    browser.prompt(&dying, "hello");
    browser.page_stream(&dying, &leaving).cut_after(100, &mut leaving);
    browser.page_when(&dying, "the turn fails", |page| {
        page.is_idle() && page.region("log").contains("turn-end failed")
    });

    test.agent.plays(&Script::conforming());
    browser.prompt(&other, "again");
    let mut resets = 0;
    while !(page.is_synced && page.is_idle() && page.region("log").contains("turn-end")) {
        let event = stream.next().expect("the page's stream is open");
        resets += usize::from(event.name == "reset");
        page.apply(&event);
    }
    assert_eq!(resets, 1, "the first one");
    assert!(page.region("log").contains("Hello World"), "{page:?}");
    assert_eq!(page.shown, browser.snapshot(&other).shown);
    let last = typed.find(|event| event.data.contains("\"final\"")).expect("its stream is open");
    assert!(last.data.contains("Hello World"), "{last:?}");
    drop(server);
}
