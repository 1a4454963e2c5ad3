//! The user's command for what waits while no browser shows the page.

use std::time::{Duration, Instant};

use aifo_tests::{Outcome, Step, eventually, write_script};
use serde_json::{Value, json};

use super::WebTest;
use super::turns::{ask, asking};

/// Configures a command that appends its input to a file, and returns a reader of that.
fn recorded(test: &WebTest, unseen_secs: u64) -> impl Fn() -> Vec<Value> + use<> {
    let seen = test.setup.scratch().join("seen");
    let command = format!("['/bin/sh', '-c', '/bin/cat >> {}']", seen.display());
    test.configure(&format!("on_attention = {command}\nunseen_secs = {unseen_secs}"));
    move || {
        let text = std::fs::read_to_string(&seen).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

#[test]
fn a_command_of_the_user_gets_what_waits_unseen() {
    let test = WebTest::with(&asking());
    let events = recorded(&test, UNSEEN.as_secs());
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    // No browser has ever shown the page.
    let question = ask(&test, &browser, &session);
    eventually("the question is reported", || events().len() == 1);
    let event = &events()[0];
    assert_eq!((&event["event"], &event["question"]), (&json!("permission"), &json!(question)));
    assert_eq!((&event["text"], &event["title"]), (&json!("make 'a b'"), &json!("hello")));

    drop(server);
}

#[test]
fn a_question_that_was_seen_is_reported_while_it_waits() {
    let test = WebTest::with(&asking());
    let events = recorded(&test, UNSEEN.as_secs());
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    let visible = browser.stream(&format!("/api/stream?session={session}&visible=1"), "");
    let question = ask(&test, &browser, &session);
    let hidden = Instant::now();
    drop(visible);
    eventually("the question is reported", || events().len() == 1);
    assert!(hidden.elapsed() >= UNSEEN, "{:?}", hidden.elapsed());
    assert_eq!(events()[0]["question"], json!(question));
    drop(server);
}

#[test]
fn what_a_browser_has_shown_is_not_reported() {
    let script = asking().then("session/prompt", [Step::say("unseen"), Step::stop("end_turn")]);
    let test = WebTest::with(&script);
    let events = recorded(&test, UNSEEN.as_secs());
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    let mut visible = browser.stream(&format!("/api/stream?session={session}&visible=1"), "");
    let question = ask(&test, &browser, &session);
    browser.post(&format!("/api/questions/{question}"), &json!({"option": "no"}));
    browser.page_when(&session, "the turn ends", |page| page.is_idle());
    let hello: Value = serde_json::from_str(&visible.next().expect("hello").data).unwrap();
    browser.post("/api/visible", &json!({"viewer": hello["viewer"], "visible": false}));
    browser.prompt(&session, "again");
    eventually("the second turn's end is reported", || !events().is_empty());
    let seen: Vec<Value> = events().iter().map(|event| event["text"].clone()).collect();
    assert_eq!(seen, ["unseen"], "neither the answered question nor the first turn");
    drop(server);
}

#[test]
fn the_program_starts_away_from_the_workspace_and_cannot_be_the_agents() {
    let test = WebTest::with(&asking());
    let seen = test.setup.scratch().join("seen");
    let script = format!("pwd > {}", seen.display());
    test.configure(&format!("on_attention = ['/bin/sh', '-c', '{script}']\nunseen_secs = 0"));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    ask(&test, &browser, &session);
    let read = || std::fs::read_to_string(&seen).unwrap_or_default();
    eventually("the program has run", || !read().is_empty());
    assert_eq!(read(), "/\n");
    drop(server);

    let program = test.setup.workspace().join("notify");
    write_script(&program, "exit");
    test.configure(&format!("on_attention = [{program:?}]"));
    let outcome = Outcome::of(&mut test.command());
    let why = "of web.on_attention: an agent can write to its directory";
    assert!(outcome.exited(86).stderr.contains(why), "{outcome:?}");
}

/// How long no browser has shown the page.
const UNSEEN: Duration = Duration::from_secs(2);
