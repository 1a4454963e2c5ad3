//! Permission requests that are answered in a browser.

use aifo_tests::{Chromium, keys};
use serde_json::json;

use super::{BrowserTest, asking};

/// Sends a prompt and waits until its question takes answers.
fn ask(test: &BrowserTest) -> &Chromium {
    test.prompt("hello");
    let page = &test.browser;
    page.wait_text("#asks .command", "make 'a b'");
    page.wait_text("#asks dd", "/workspace/sub");
    page.wait_text("#status", "waiting");
    let options = "return [...document.querySelectorAll('#asks button')]\
                   .map((button) => button.dataset.option)";
    assert_eq!(page.run(options), json!(["once", "always", "no"]), "exactly the agent's options");
    assert!(test.test.agent.answers(7).is_empty());
    // An answer in the first moments is ignored: it was meant for the page before.
    page.wait(
        "it takes answers",
        "performance.now() - document.querySelector('#asks .block').dataset.since > 400",
    );
    page
}

#[track_caller]
fn assert_answered(test: &BrowserTest, option: &str) {
    test.wait_end(1);
    test.browser.wait_text(".decision summary", &format!("{option} (you)"));
    test.browser.wait_text("#log .md", "went on");
    let is_empty = "return document.querySelector('#asks').childElementCount";
    assert_eq!(test.browser.run(is_empty), 0);
    let answers = test.test.agent.answers(7);
    assert_eq!(answers.len(), 1);
    let expected = json!({"outcome": "selected", "optionId": option});
    assert_eq!(answers[0]["result"]["outcome"], expected);
}

#[test]
fn a_click_answers() {
    let Some(test) = BrowserTest::start("permissions::a_click_answers", &asking()) else { return };
    ask(&test).click("#asks button[data-option=once]");
    assert_answered(&test, "once");
}

#[test]
fn a_key_answers_from_anywhere() {
    let name = "permissions::a_key_answers_from_anywhere";
    let Some(test) = BrowserTest::start(name, &asking()) else { return };
    // The focus is in the prompt.
    ask(&test).press(&[keys::ALT, '3']);
    assert_answered(&test, "no");
}

#[test]
fn the_keyboard_reaches_the_options_from_the_prompt() {
    let name = "permissions::the_keyboard_reaches_the_options_from_the_prompt";
    let Some(test) = BrowserTest::start(name, &asking()) else { return };
    let page = ask(&test);
    let is_focused = "return document.activeElement.dataset.option === 'always'";
    for _ in 0..10 {
        if page.run(is_focused) == true {
            break;
        }
        page.press(&[keys::SHIFT, keys::TAB]);
    }
    assert_eq!(page.run(is_focused), true, "Shift+Tab leads to the options");
    page.press(&[keys::ENTER]);
    assert_answered(&test, "always");
}
