//! Turns in a browser: prompt, draft and final answer, cancelling, reload, two browsers.
//!
//! Proves `spec/web.md#in-the-browser`.

use aifo_tests::{Chromium, Step};

use super::{BrowserTest, END_IS_IN_VIEW, ended, rich, shown, turn};

#[test]
fn a_turn_shows_its_draft_plan_tool_calls_and_answer() {
    let name = "turns::a_turn_shows_its_draft_plan_tool_calls_and_answer";
    let Some(test) = BrowserTest::start(name, &rich()) else { return };
    test.prompt("Why does it <fail>?");
    let page = &test.browser;
    page.wait_text(".prompt-text", "Why does it <fail>?");
    page.wait_text("#log .md", "The draft of an answer");
    page.wait_text("#log .thought summary", "thought");
    page.wait_text("#plan", "Correct the parser");
    page.wait_text(".tool.open .title", "cargo test --workspace");
    page.wait_text("#status", "working");
    page.wait("cancel replaces send", "document.querySelector('#send').hidden");
    assert_eq!(page.run("return document.querySelector('#text').value"), "", "the prompt is sent");
    test.test.agent.release("go");
    test.wait_end(1);
    page.wait_text("#log h1", "The parser");
    page.wait_text("#log .md", "The final words.");
    page.wait_text(".tool.done .title", "cargo test --workspace");
    page.wait_text(".diff .added", "number()");
    page.wait_text(".diff .removed", "todo!()");
    page.wait_text("#usage", "50%");
    page.wait("the end is in view", END_IS_IN_VIEW);
    assert_eq!(test.test.agent.received_of("session/prompt").len(), 1);
    let words = &test.test.agent.received_of("session/prompt")[0]["params"]["prompt"][0]["text"];
    assert_eq!(words, "Why does it <fail>?");
}

#[test]
fn the_cancel_button_ends_the_turn() {
    let script =
        turn([Step::say("working"), Step::wait_for("session/cancel"), Step::stop("cancelled")]);
    let Some(test) = BrowserTest::start("turns::the_cancel_button_ends_the_turn", &script) else {
        return;
    };
    test.prompt("hello");
    test.browser.wait_text("#log", "working");
    test.browser.wait_text("#cancel", "Cancel");
    test.browser.click("#cancel");
    test.wait_end(1);
    test.browser.wait_text(".turn-end", "cancelled");
    assert_eq!(test.test.agent.received_of("session/cancel").len(), 1);
    assert_eq!(test.browser.run("return document.querySelector('#send').hidden"), false);
}

#[test]
fn a_reload_in_mid_turn_shows_the_same_page() {
    let name = "turns::a_reload_in_mid_turn_shows_the_same_page";
    let Some(test) = BrowserTest::start(name, &rich()) else { return };
    test.prompt("hello");
    test.browser.wait_text(".tool.open .title", "cargo test");
    let before = shown(&test.browser);
    test.browser.reload();
    test.browser.wait_text(".tool.open .title", "cargo test");
    test.browser.wait_text("#status", "working");
    assert_eq!(shown(&test.browser), before);
    test.test.agent.release("go");
    test.wait_end(1);
    test.browser.wait_text("#log .md", "The final words.");
    let after = shown(&test.browser);
    test.browser.reload();
    test.wait_end(1);
    assert_eq!(shown(&test.browser), after);
}

#[test]
fn two_browsers_show_the_same_page() {
    let name = "turns::two_browsers_show_the_same_page";
    let Some(test) = BrowserTest::start(name, &rich()) else { return };
    let Some(second) = Chromium::start(name) else { return };
    test.browser.click("#link");
    test.browser.wait_text("#link-text", "http");
    let link = test.browser.run("return document.querySelector('#link-text').textContent");
    assert!(link.as_str().is_some_and(|link| link.contains(&test.server.host)), "{link}");
    test.prompt("hello");
    test.browser.wait_text(".tool.open .title", "cargo test");
    second.open(link.as_str().expect("a link"));
    second.wait_text("a.session .name", "hello");
    second.click("a.session");
    second.wait_text(".tool.open .title", "cargo test");
    assert_eq!(shown(&second), shown(&test.browser), "in mid-turn");
    test.test.agent.release("go");
    test.wait_end(1);
    second.wait("the turn ends", &ended(1));
    assert_eq!(shown(&second), shown(&test.browser), "after the turn");
}
