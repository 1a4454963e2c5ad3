//! Turns on a page: prompts, permission requests, cancelling.
//!
//! Proves `spec/web.md#requests`.

use aifo_tests::{Script, Step, eventually};
use serde_json::{Value, json};

use super::{WebTest, call, turn};

#[test]
fn a_turn_reaches_the_page_and_the_typed_stream() {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let plan =
        json!({"sessionUpdate": "plan", "entries": [{"content": "first", "status": "pending"}]});
    let usage = json!({"sessionUpdate": "usage_update", "used": 50, "size": 100});
    let (half, rest) = png.split_at(40);
    let test = WebTest::with(&turn([
        Step::think("thinking"),
        Step::update(plan),
        Step::say("# An"),
        Step::say("swer\n\n![p](data:image/png;base64,"),
        Step::say(half),
        Step::say(rest),
        Step::say(") after\n"),
        Step::tool_call("t", "ls", "in_progress"),
        Step::tool_update("t", "completed"),
        Step::update(usage),
        Step::stop("end_turn"),
    ]));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    let mut typed = browser.stream(&format!("/api/sessions/{session}/events?past=1"), "");
    browser.prompt(&session, "do <it>");
    let page = browser.page_when(&session, "the turn ends", |page| {
        page.is_idle() && page.region("log").contains("turn-end")
    });
    let log = page.region("log");
    for words in ["do &lt;it&gt;", "<h1>Answer</h1>", "thinking", "class=\"tool done\"", "end turn"]
    {
        assert!(log.contains(words), "no {words:?} in {log}");
    }
    assert!(page.region("plan").contains("first") && page.region("usage").contains("(50%)"));
    let (_, image) = log.split_once("src=\"/media/").unwrap_or_else(|| panic!("no image: {log}"));
    assert!(log.contains(" after</p>") && !log.contains("base64"), "{log}");
    let image = browser.get(&format!("/media/{}", &image[..64]));
    assert_eq!((image.status, image.headers["content-type"].as_str()), (200, "image/png"));
    assert!(image.headers["cache-control"].contains("immutable"));
    assert!(image.body.starts_with(b"\x89PNG"));

    let mut kinds = Vec::new();
    loop {
        let event = typed.next().expect("the stream is open");
        let report: Value = serde_json::from_str(&event.data).unwrap();
        let kind = report["type"].as_str().unwrap().to_owned();
        kinds.push(kind.clone());
        if kind == "final" {
            assert!(report["text"].as_str().unwrap().starts_with("# Answer"));
            break;
        }
    }
    kinds.dedup();
    assert_eq!(
        kinds,
        ["agent", "session", "thought", "plan", "draft", "tool_call", "usage", "final"]
    );
}

/// Starts a turn that asks for permission and returns the question id.
pub(crate) fn ask(test: &WebTest, browser: &aifo_tests::WebBrowser, session: &str) -> String {
    browser.prompt(session, "hello");
    let page = browser.page_when(session, "a question", |page| !page.region("asks").is_empty());
    let asks = page.region("asks");
    assert!(page.region("status").contains("waiting"), "{page:?}");
    assert!(test.agent.answers(7).is_empty());
    let (_, id) = asks.split_once("data-question=\"").unwrap();
    id.split('"').next().unwrap().to_owned()
}

pub(crate) fn asking() -> Script {
    turn([
        Step::ask(7, "session/request_permission", Step::permission(call("make 'a b'"))),
        Step::say("went on"),
        Step::stop("end_turn"),
    ])
}

#[test]
fn the_first_of_two_browsers_answers_a_permission_request() {
    let test = WebTest::with(&asking());
    let server = test.start();
    let browser = server.sign_in();
    let link = browser.post("/api/link", &Value::Null);
    let secret = link["link"].as_str().unwrap().split_once("/#").unwrap().1.to_owned();
    let phone = aifo_tests::WebBrowser::sign_in(server.port, &server.host, &secret);
    let session = browser.new_session();
    let question = ask(&test, &browser, &session);
    let asks = phone.snapshot(&session).region("asks");
    for words in ["make &#39;a b&#39;", "/workspace/sub", ">once<", ">always<", ">no<"] {
        assert!(asks.contains(words), "no {words:?} in {asks}");
    }
    assert_eq!(asks.matches("<button").count(), 3, "exactly the agent's options");
    let path = format!("/api/questions/{question}");
    let answer = |by: &aifo_tests::WebBrowser, option: &str| {
        by.post_as("any-key-1", &path, &json!({"option": option})).status
    };
    assert_eq!(answer(&phone, "yes"), 400, "not offered");
    assert_eq!(answer(&phone, "once"), 200);
    assert_eq!(answer(&browser, "once"), 200, "the same answer again");
    assert_eq!(answer(&browser, "no"), 409, "another answer is too late");
    let page = browser.page_when(&session, "the turn ends", |page| page.is_idle());
    assert!(page.region("asks").is_empty(), "{page:?}");
    assert!(page.region("log").contains("once (you)") && page.region("log").contains("went on"));
    let answers = test.agent.answers(7);
    assert_eq!(answers.len(), 1);
    let expected = json!({"outcome": "selected", "optionId": "once"});
    assert_eq!(answers[0]["result"]["outcome"], expected);
}

#[test]
fn a_cancelled_turn_withdraws_its_question() {
    let test = WebTest::with(&turn([
        Step::ask(7, "session/request_permission", Step::permission(call("make"))),
        Step::wait_for("session/cancel"),
        Step::stop("cancelled"),
    ]));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    let question = ask(&test, &browser, &session);
    browser.post(&format!("/api/sessions/{session}/cancel"), &Value::Null);
    let page = browser.page_when(&session, "the turn ends", |page| page.is_idle());
    assert!(page.region("asks").is_empty());
    assert!(page.region("log").contains("cancelled: turn cancelled"), "{page:?}");
    assert_eq!(test.agent.answers(7)[0]["result"]["outcome"]["outcome"], "cancelled");
    let late = browser.post_as(
        "any-key-1",
        &format!("/api/questions/{question}"),
        &json!({"option": "once"}),
    );
    assert_eq!(late.status, 409, "{}", late.text());
}

#[test]
fn a_repeated_command_runs_once() {
    let test = WebTest::with(&Script::conforming());
    let server = test.start();
    let browser = server.sign_in();
    let create = || browser.post_as("create-once", "/api/sessions", &Value::Null).json();
    let session = create()["session"].as_str().unwrap().to_owned();
    assert_eq!(create()["session"], session.as_str());
    let path = format!("/api/sessions/{session}/prompt");
    for _ in 0..3 {
        let sent = browser.post_as("prompt-once", &path, &json!({"text": "hello"}));
        assert_eq!(sent.status, 200, "{}", sent.text());
    }
    browser.page_when(&session, "the turn ends", |page| {
        page.is_idle() && page.region("log").contains("turn-end")
    });
    assert_eq!(browser.post_as("prompt-once", &path, &json!({"text": "hello"})).status, 200);
    assert_eq!(test.agent.received_of("session/prompt").len(), 1);
    let without = aifo_tests::web_request(server.port, "POST", &path, &browser.headers(), b"{}");
    assert_eq!(without.status, 400, "a command has an idempotency key");
}

#[test]
fn an_agent_that_exits_fails_the_turn_and_starts_again() {
    let script = turn([Step::say("dying"), Step::Stderr(50), Step::Exit(3)]);
    let test = WebTest::with(&script);
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    browser.prompt(&session, "hello");
    let page = browser.page_when(&session, "the turn fails", |page| {
        page.is_idle() && page.region("log").contains("turn-end failed")
    });
    assert!(page.region("log").contains("exit status: 3"), "{page:?}");
    test.agent.plays(&Script::conforming());
    browser.prompt(&session, "again");
    let page = browser.page_when(&session, "an answer", |page| {
        page.is_idle() && page.region("log").contains("Hello World")
    });
    assert!(page.region("log").contains("dying"), "the history stays");
    eventually("the first agent is gone", || test.agent.alive().len() <= 1);
    assert_eq!(test.agent.received_of("session/load").len(), 1, "the agent's session is resumed");
}

/// The markdown of a page.
fn markdown(page: &aifo_tests::WebPage) -> Vec<&str> {
    let shown = page.shown.values().map(String::as_str);
    shown.filter(|html| html.starts_with("<div class=\"md\">")).collect()
}

#[test]
fn a_table_code_and_an_image_in_single_characters_are_shown_as_in_one() {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let rows: String =
        (0..60).map(|row| format!("| {row} | **b** | `c|d` | a < b && c |\n")).collect();
    let text = format!(
        "# All\n\n| n | x | y | z |\n|---:|---|:---:|---|\n{rows}\n\
         before ![p](data:image/png;base64,{png}) after, and <img src=\"data:image/png;base64,{png}\">\n\n\
         ```text\ndata:image/png;base64,{png}\n<b>&amp;</b>\n```\n\nThe end \u{1f980}.\n"
    );
    let page_of = |steps: Vec<Step>| {
        let test = WebTest::with(&turn(steps));
        let server = test.start();
        let browser = server.sign_in();
        let session = browser.new_session();
        browser.prompt(&session, "hello");
        let ended =
            |page: &aifo_tests::WebPage| page.is_idle() && page.region("log").contains("turn-end");
        browser.page_when(&session, "the turn ends", ended)
    };
    let mut single: Vec<Step> =
        text.chars().map(|char| Step::say(char.encode_utf8(&mut [0; 4]))).collect();
    single.push(Step::stop("end_turn"));
    let (single, whole) =
        (page_of(single), page_of(vec![Step::say(&text), Step::stop("end_turn")]));
    assert_eq!(markdown(&single), markdown(&whole));
    let html = markdown(&whole).concat();
    assert_eq!(html.matches("<tr>").count(), 61, "{html}");
    assert_eq!(html.matches("<img src=\"/media/").count(), 2, "{html}");
    assert!(html.contains(&format!("data:image/png;base64,{png}\n&lt;b&gt;&amp;amp;")), "{html}");
    assert!(html.contains("after, and") && html.contains("The end \u{1f980}."), "{html}");
}
