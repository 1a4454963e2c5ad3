//! The timeline of running sessions, also of other commands.

use std::fs;
use std::path::Path;

use aifo_tests::{Chromium, Running, Script, Signal, WebServer};
use serde_json::Value;

use crate::web::WebTest;

/// Runs a shell command with sidecars, as `aifo-coder run` does an agent.
fn run(test: &WebTest, script: &str) -> Running {
    let mut run = test.setup.coder();
    run.args(["run", "--backend", "local", "--quiet", "--toolchain", "c-cpp"]);
    Running::start(run.args(["--toolchain", "rust", "--", "/bin/sh", "-c", script]))
}

/// The ids of the listed sessions.
fn listed(page: &Chromium) -> Vec<String> {
    let ids = page.run(
        "return [...document.querySelectorAll('[data-calls]')].map((link) => link.dataset.calls)",
    );
    let ids = ids.as_array().into_iter().flatten();
    ids.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn width(page: &Chromium, bar: &str) -> f64 {
    let script = format!("return document.querySelector('{bar}').getBoundingClientRect().width");
    page.run(&script).as_f64().expect("a width")
}

#[test]
fn a_running_call_of_another_command_is_a_bar_that_grows() {
    let name = "timeline::a_running_call_of_another_command_is_a_bar_that_grows";
    let Some(page) = Chromium::start(&format!("web_browser::{name}")) else { return };
    let test = WebTest::with(&Script::conforming());
    let server = WebServer::start(&mut test.watch_command());
    page.open(&format!("http://{}/#{}", server.host, server.secret));
    page.wait_text("#empty", "Choose a running session");
    let is_shown = "return document.querySelector('#composer').checkVisibility()";
    assert_eq!(page.run(is_shown), false, "there is no agent to prompt");

    let go = |name: &str| test.setup.workspace().join(name);
    let hold = |tool: &str, file: &Path| format!("{tool} hold {}", file.display());
    let first = run(&test, &format!("make say; {}; make exit 3", hold("make", &go("one"))));
    page.wait("the first session", "document.querySelectorAll('[data-calls]').length === 1");
    let id = listed(&page).remove(0);
    let second = run(&test, &hold("cargo", &go("two")));
    page.wait("both sessions", "document.querySelectorAll('[data-calls]').length === 2");
    let other = listed(&page).into_iter().find(|other| *other != id).expect("the second one");

    page.click(&format!("[data-calls='{id}']"));
    page.wait_text("#lanes .lane-name", "c-cpp");
    page.wait("a running bar", "document.querySelectorAll('#lanes .bar.running').length === 1");
    page.wait_text("#live .call.running", "make");
    page.wait("the call before", "document.querySelectorAll('#lanes .bar.done').length === 1");
    let before = width(&page, ".bar.running");
    page.wait(
        "it grows",
        &format!("document.querySelector('.bar.running').getBoundingClientRect().width > {before}"),
    );
    page.screenshot("timeline-running");
    fs::write(go("one"), "").unwrap();
    page.wait("it has ended", "document.querySelectorAll('#lanes .bar.running').length === 0");
    page.wait("its ending", "document.querySelectorAll('#lanes .bar.done').length === 2");
    page.wait(
        "the next one failed",
        "document.querySelectorAll('#lanes .bar.failed').length === 1",
    );
    assert_eq!(first.finish().code(), Some(3));
    page.wait(
        "it is no longer listed",
        &format!("!document.querySelector(\"[data-calls='{id}']\")"),
    );

    page.click(&format!("[data-calls='{other}']"));
    page.wait_text("#lanes .lane-name", "rust");
    page.wait("its running bar", "document.querySelectorAll('#lanes .bar.running').length === 1");
    second.signal(Signal::SIGTERM);
    page.wait("it has ended", "document.querySelectorAll('#lanes .bar.running').length === 0");
    drop(second);
}
