//! A browser whose network fails: the time until it shows that, and until it is up to date again.

use std::time::Duration;

use aifo_tests::{Chromium, Step, TestNetwork, eventually_within, files_below};
use serde_json::{Value, json};

use super::{BrowserTest, END_IS_IN_VIEW, ended, shown, turn};
use crate::web::Random;

/// Updates that a browser misses.
const UPDATES: u64 = 10_000;
/// The longest time from the new connection to the page as it is on the server.
const RESUME_MS: f64 = 300.0;
/// The longest task meanwhile.
const TASK_MS: f64 = 100.0;
/// The factor by which the page's processor time, and a task, may be longer on a machine with other
/// load: caches and cores are shared.
const LOAD: f64 = 5.0;
/// The same for the time on the clock, when many processes wait for a processor.
const CROWD: f64 = 20.0;

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
    assert!(busy < RESUME_MS * LOAD, "{busy} ms of a processor");
    assert!(taken < RESUME_MS * CROWD, "{taken} ms");
    assert!(longest < TASK_MS * LOAD, "{longest} ms");
    page.wait("the end is in view", END_IS_IN_VIEW);
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

/// Reads words and calls of the agent, by the number of their part, as a page shows them.
const COUNTS: &str = "
    const text = document.querySelector('#log').textContent;
    const titles = [...document.querySelectorAll('#log .tool .title')].map((it) => it.textContent);
    return Array.from({ length: arguments_parts }, (_, part) => [
        text.split(`word${part}.`).length - 1,
        titles.filter((title) => title === `call ${part}`).length,
    ]);";

/// `AIFO_TEST_CUTS` sets the number of cuts; 1000 take about five minutes.
#[test]
fn cuts_lose_and_double_nothing_in_two_browsers() {
    let cuts = std::env::var("AIFO_TEST_CUTS").ok().and_then(|cuts| cuts.parse().ok());
    let cuts: u64 = cuts.unwrap_or(50);
    let parts = cuts / 5;
    let name = "network::cuts_lose_and_double_nothing_in_two_browsers";
    let mut steps = Vec::new();
    for part in 0..parts {
        steps.push(Step::WaitForWord(part.to_string()));
        steps.push(Step::Repeat { times: 5, steps: vec![Step::say(&format!("word{part}. "))] });
        steps.push(Step::say("\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"));
        let id = format!("t{part}");
        steps.push(Step::tool_call(&id, &format!("call {part}"), "in_progress"));
        steps.push(Step::tool_update(&id, "completed"));
    }
    steps.push(Step::stop("end_turn"));
    let Some((test, network)) = BrowserTest::start_behind_network(name, &turn(steps)) else {
        return;
    };
    let Some(second) = Chromium::start_behind_network(name) else { return };
    test.browser.click("#link");
    test.browser.wait_text("#link-text", "http");
    let link = test.browser.run("return document.querySelector('#link-text').textContent");
    test.prompt("hello");
    test.browser.wait_text("#status", "working");
    second.open(link.as_str().expect("a link"));
    second.wait_text("a.session .name", "hello");
    second.click("a.session");
    second.wait_text("#status", "working");
    let pages = [&test.browser, &second];
    pages.iter().for_each(|page| _ = page.run(OBSERVE));

    let mut random = Random::new(11);
    for cut in 0..cuts {
        if cut % 5 == 0 {
            test.test.agent.release(&(cut / 5).to_string());
        }
        std::thread::sleep(Duration::from_millis(random.below(400)));
        network.cut();
        std::thread::sleep(Duration::from_millis(random.below(20)));
        network.heal();
    }
    let mut all = Vec::new();
    for page in pages {
        page.wait_for(PATIENCE, "the turn ends", &ended(1));
        let counts = COUNTS.replace("arguments_parts", &parts.to_string());
        for (part, counts) in page.run(&counts).as_array().expect("a list").iter().enumerate() {
            assert_eq!(*counts, json!([5, 1]), "part {part}");
        }
        let streams = page.run("return window.times.streams.length").as_u64();
        println!("{cuts} cuts: {streams:?} connections");
        assert!(streams > Some(cuts / 4), "the cuts have hit it");
        all.push(shown(page));
    }
    assert!(all[0] == all[1], "both show the same");
    second.reload();
    second.wait("the turn's end", &ended(1));
    assert!(shown(&second) == all[0], "a new page shows the same");
}

/// The history of the sessions on the server.
fn history(test: &BrowserTest) -> String {
    let files = files_below(&test.test.setup.scratch().join("home"));
    let files = files.iter().filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

/// The agent writes its updates.
const PATIENCE: Duration = Duration::from_secs(120);
