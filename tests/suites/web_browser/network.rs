//! A browser whose network fails: the time until it shows that, and until it is up to date again.

use aifo_tests::{Step, TestNetwork, eventually_within, files_below};
use serde_json::Value;

use super::{BrowserTest, shown, turn};

/// Updates that a browser misses.
const UPDATES: u64 = 10_000;
/// The longest time from the new connection to the page as it is on the server.
const RESUME_MS: f64 = 300.0;
/// The longest task meanwhile.
const TASK_MS: f64 = 100.0;
/// The factor by which both may be longer on a machine with other load.
const LOAD: f64 = 6.0;

/// Notes the times of streams, changes and long tasks in the page.
const OBSERVE: &str = "
    window.times = { streams: [], last: 0, longest: 0 };
    const { fetch } = window;
    window.fetch = (path, ...rest) => {
        if (String(path).startsWith('/api/stream')) window.times.streams.push(performance.now());
        return fetch(path, ...rest);
    };
    new MutationObserver(() => { window.times.last = performance.now(); })
        .observe(document.querySelector('#log'), { childList: true, subtree: true });
    new PerformanceObserver((list) => {
        const longest = Math.max(...list.getEntries().map((entry) => entry.duration));
        window.times.longest = Math.max(window.times.longest, longest);
    }).observe({ type: 'longtask' });";

#[test]
fn ten_thousand_missed_updates_are_shown_at_once() {
    let name = "network::ten_thousand_missed_updates_are_shown_at_once";
    let many = Step::Repeat {
        times: UPDATES,
        steps: vec![Step::say("A *paragraph* of some words, as agents write.\n\n")],
    };
    let steps = [Step::WaitForWord("go".to_owned()), many, Step::stop("end_turn")];
    let Some((test, network)) = BrowserTest::start_behind_network(name, &turn(steps)) else {
        return;
    };
    let page = &test.browser;
    test.prompt("hello");
    page.wait_text("#status", "working");
    page.run(OBSERVE);
    network.cut();
    page.wait_text("#banner", "Offline");
    test.test.agent.release("go");
    eventually_within(PATIENCE, "the turn ends", || history(&test).contains("turn_end"));
    let before = page.processor_ms();
    network.heal();
    page.wait(
        "the page is up to date",
        "window.times.last > 0 && document.querySelector('.turn-end')",
    );
    let busy = page.processor_ms() - before;
    test.wait_end(1);
    let times = page.run("return window.times");
    let began = times["streams"].as_array().and_then(|all| all.last()).and_then(Value::as_f64);
    let taken = times["last"].as_f64().expect("a time") - began.expect("a stream");
    let longest = times["longest"].as_f64().expect("a time");
    println!(
        "{UPDATES} updates resumed in {taken:.0} ms, the longest task took {longest:.0} ms, busy {busy:.0} ms"
    );
    let resumed = shown(page);
    assert!(taken < RESUME_MS * LOAD, "{taken} ms");
    assert!(longest < TASK_MS * LOAD, "{longest} ms");
    page.reload();
    test.wait_end(1);
    assert!(shown(page) == resumed, "the page is equal to a new one");
}

/// The longest time from the failure of the network until the page shows it.
const OFFLINE_MS: f64 = 1000.0;
/// What a machine with other load may add.
const LATE_MS: f64 = 1000.0;

#[test]
fn the_page_shows_within_a_second_that_it_is_offline() {
    let name = "network::the_page_shows_within_a_second_that_it_is_offline";
    let steps = [Step::say("still here"), Step::Hang];
    let Some((test, network)) = BrowserTest::start_behind_network(name, &turn(steps)) else {
        return;
    };
    let page = &test.browser;
    test.prompt("hello");
    page.wait_text("#log", "still here");
    page.run(
        "window.banner = document.querySelector('#banner');\
         new MutationObserver(() => {\
         if (!banner.hidden) window.offlineAt ??= performance.now();\
         }).observe(banner, { attributes: true });",
    );
    for fail in [TestNetwork::silence, TestNetwork::cut] {
        page.wait("the page is online", "banner.hidden");
        page.run("window.failedAt = performance.now(); window.offlineAt = undefined;");
        fail(&network);
        page.wait_text("#banner", "Offline");
        let taken = page.run("return offlineAt - failedAt").as_f64().expect("a time");
        println!("offline after {taken:.0} ms");
        assert!(taken < OFFLINE_MS + LATE_MS, "{taken} ms");
        network.heal();
    }
    page.wait("the page is online again", "banner.hidden");
    page.wait_text("#status", "working");
}

/// The history of the sessions on the server.
fn history(test: &BrowserTest) -> String {
    let files = files_below(&test.test.setup.scratch().join("home"));
    let files = files.iter().filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

/// The agent writes its updates.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
