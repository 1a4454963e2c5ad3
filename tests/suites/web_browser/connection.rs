//! A browser whose server stops or ends.

use aifo_tests::{Signal, send_signal};

use super::{BrowserTest, asking, ended, rich, shown};

#[test]
fn the_page_shows_that_it_is_offline_and_resumes() {
    let name = "connection::the_page_shows_that_it_is_offline_and_resumes";
    let Some(test) = BrowserTest::start(name, &rich()) else { return };
    test.prompt("hello");
    test.browser.wait_text(".tool.open .title", "cargo test");
    let online = "document.querySelector('#banner').hidden";
    test.browser.wait("the page is online", online);
    // The connection stays open and is silent.
    send_signal(test.server.pid(), Signal::SIGSTOP);
    test.browser.wait_text("#banner", "Offline");
    test.test.agent.release("go");
    send_signal(test.server.pid(), Signal::SIGCONT);
    test.browser.wait("the page is online again", online);
    test.wait_end(1);
    let before = shown(&test.browser);
    let BrowserTest { browser, server, test } = test;
    server.kill();
    browser.wait_text("#banner", "Offline");
    let server = test.start();
    browser.wait("the page is online after the restart", online);
    browser.wait("the turn is there", &ended(1));
    assert_eq!(shown(&browser), before);
    drop(server);
}

#[test]
fn a_server_that_is_killed_in_mid_turn_cancels_its_question_visibly() {
    let name = "connection::a_server_that_is_killed_in_mid_turn_cancels_its_question_visibly";
    let Some(test) = BrowserTest::start(name, &asking()) else { return };
    test.prompt("hello");
    test.browser.wait_text("#asks .command", "make 'a b'");
    let BrowserTest { browser, server, test } = test;
    server.kill();
    browser.wait_text("#banner", "Offline");
    let server = test.start();
    browser.wait_text(".decision.withdrawn", "cancelled");
    let questions = "return document.querySelector('#asks').childElementCount";
    assert_eq!(browser.run(questions), 0);
    browser.wait_text("#log .prompt-text", "hello");
    drop(server);
}
