//! Running sessions of other commands.

use aifo_tests::{Running, Script, WebServer};
use serde_json::Value;

use super::WebTest;

#[test]
fn running_sessions_are_listed_with_their_calls() {
    let test = WebTest::with(&Script::conforming());
    let server = WebServer::start(&mut test.watch_command());
    let browser = server.sign_in();
    let create = browser.post_as("create-none", "/api/sessions", &Value::Null);
    assert_eq!(create.status, 409, "it only watches: {}", create.text());

    let mut run = test.setup.coder();
    run.args(["run", "--backend", "local", "--quiet", "--", "/bin/sleep", "1000"]);
    let running = Running::start(&mut run);
    let page = browser.page_of("/api/stream", "the session is listed", |page| {
        page.region("running").contains("data-calls")
    });
    let list = page.region("running");
    let (_, id) = list.split_once("data-calls=\"").unwrap();
    let id = id.split('"').next().unwrap();
    let calls = browser.page_of(&format!("/api/stream?calls={id}"), "its timeline", |_| true);
    assert_eq!(calls.region("calls"), "", "it has called no tool");
    running.signal(aifo_tests::Signal::SIGTERM);
    drop(running);
    browser
        .page_of("/api/stream", "the session is gone", |page| !page.region("running").contains(id));
}
