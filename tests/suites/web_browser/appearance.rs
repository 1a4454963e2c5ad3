//! The page's appearance: phone, dark mode, accessibility.

use aifo_tests::{Chromium, Script, Step};
use serde_json::Value;

use super::axe::{assert_accessible, axe};
use super::{BrowserTest, asking, rich};

/// Elements that are wider than the page, unless a scrolling element holds them.
const OVERFLOWING: &str = "
    const width = document.documentElement.clientWidth;
    const scrolls = (element) => element && element !== document.body
        && (['auto', 'hidden', 'scroll'].includes(getComputedStyle(element).overflowX)
            || scrolls(element.parentElement));
    return [...document.querySelectorAll('main, main *, #banner')]
        .filter((element) => element.checkVisibility())
        .filter((element) => element.getBoundingClientRect().right > width + 0.5
            || element.scrollWidth > element.clientWidth + 1 && element.id === 'scroll')
        .filter((element) => element.id === 'scroll' || !scrolls(element.parentElement))
        .map((element) => element.outerHTML.slice(0, 200));";

#[track_caller]
pub(super) fn assert_fits(page: &Chromium, state: &str) {
    let found = page.run(OVERFLOWING);
    assert_eq!(found, Value::Array(Vec::new()), "{state}");
    let width = page.run("return document.documentElement.scrollWidth");
    assert_eq!(width, 360, "{state}");
}

#[test]
fn a_phone_shows_no_horizontal_overflow() {
    let row = |cell: &str| format!("|{}\n", format!(" {cell} |").repeat(30));
    let wide = format!("# {}\n\n{}{}{}\n", "wide".repeat(50), row("head"), row("---"), row("cell"));
    let code = format!("```\n{}\n```\n\n", "code ".repeat(80));
    let mut script = rich();
    let steps = script.on.get_mut("session/prompt").and_then(|all| all.first_mut());
    let steps = steps.expect("the turn's steps");
    steps.insert(0, Step::say(&code));
    steps.insert(0, Step::say(&wide));
    let question = script.then("session/prompt", asking().on["session/prompt"][0].clone());
    let name = "appearance::a_phone_shows_no_horizontal_overflow";
    let Some(test) = BrowserTest::start(name, &question) else { return };
    let page = &test.browser;
    page.be_a_phone(360, 740);
    page.reload();
    page.wait_text("#empty", "Describe a task");
    assert_fits(page, "the first page");
    page.screenshot("phone-home");
    page.write("#text", "hello");
    page.click("#send");
    page.wait_text(".tool.open .title", "cargo test");
    assert_fits(page, "in mid-turn");
    page.screenshot("phone-turn");
    test.test.agent.release("go");
    test.wait_end(1);
    assert_fits(page, "after the turn");
    page.write("#text", "again");
    page.click("#send");
    page.wait_text("#asks .command", "make");
    assert_fits(page, "with a question");
    page.screenshot("phone-question");
    // The keyboard takes half of the page.
    page.be_a_phone(360, 400);
    page.wait("the page shrinks", "document.body.clientHeight === 400");
    assert_fits(page, "above the keyboard");
    page.screenshot("phone-keyboard");
    for element in ["#asks .options button:last-child", "#text", "#cancel"] {
        let rect = page.run(&format!(
            "const found = document.querySelector('{element}');\
             found.scrollIntoView({{ block: 'nearest' }});\
             const {{ top, bottom }} = found.getBoundingClientRect();\
             return top >= 0 && bottom <= innerHeight && found.contains(document.elementFromPoint(\
             found.getBoundingClientRect().left + 20, (top + bottom) / 2))"
        ));
        assert_eq!(rect, true, "{element} is reached above the keyboard");
    }
    page.be_a_phone(360, 740);
    page.click("#menu");
    page.wait_text("#side .name", "hello");
    page.wait(
        "the list is open",
        "document.querySelector('#side')\
        .getBoundingClientRect().left === 0",
    );
    assert_fits(page, "with the list of sessions");
    page.screenshot("phone-menu");
}

#[test]
fn dark_mode_follows_the_system() {
    let name = "appearance::dark_mode_follows_the_system";
    let Some(test) = BrowserTest::start(name, &Script::conforming()) else { return };
    let background = "return getComputedStyle(document.body).backgroundColor";
    test.browser.prefer("light");
    assert_eq!(test.browser.run(background), "rgb(255, 255, 255)");
    test.browser.prefer("dark");
    assert_eq!(test.browser.run(background), "rgb(20, 22, 26)");
}

#[test]
fn axe_finds_no_violation() {
    let name = "appearance::axe_finds_no_violation";
    let script = rich().then("session/prompt", asking().on["session/prompt"][0].clone());
    let Some(test) = BrowserTest::start(name, &script) else { return };
    let Some(axe) = axe(&format!("web_browser::{name}")) else { return };
    let check = |state: &str| {
        for scheme in ["light", "dark"] {
            test.browser.prefer(scheme);
            assert_accessible(&test.browser, &axe, &format!("{state}, {scheme}"));
        }
    };
    let page = &test.browser;
    check("the first page");
    test.prompt("Why does the parser fail?");
    page.wait_text(".tool.open .title", "cargo test");
    check("in mid-turn");
    test.test.agent.release("go");
    test.wait_end(1);
    // A folded thought is part of the page.
    page.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })");
    check("after the turn");
    test.prompt("Then build it");
    page.wait_text("#asks .command", "make");
    check("with a question");
    page.click("#show-timeline");
    page.wait_text("#timeline", "No tool call");
    check("the timeline");
    page.click("#show-timeline");
    page.wait_text("#asks .command", "make");
    page.be_a_phone(360, 740);
    check("a phone");
    page.click("#menu");
    page.wait(
        "the list is open",
        "document.querySelector('#side')\
        .getBoundingClientRect().left === 0",
    );
    check("the list on a phone");
}
