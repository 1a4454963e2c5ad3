//! The limits of `[web]` in the configuration.

use std::time::{Duration, Instant};

use aifo_tests::{Script, Step, WebPage, fd_count, files_below};

use super::{WebTest, turn};

#[test]
fn a_browser_that_takes_nothing_is_disconnected_after_the_configured_time() {
    const STALLED: Duration = Duration::from_secs(2);
    let text = format!("{}\n\n", "x".repeat(4000));
    let steps =
        [Step::Repeat { times: 1500, steps: vec![Step::say(&text)] }, Step::stop("end_turn")];
    let test = WebTest::with(&turn(steps));
    test.configure(&format!("stalled_secs = {}", STALLED.as_secs()));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    browser.prompt(&session, "hello");
    browser.page_when(&session, "the turn ends", |page| {
        page.is_idle() && page.region("log").contains("turn-end")
    });
    let begin = Instant::now();
    let stream = browser.stream(&format!("/api/stream?session={session}"), "");
    let open = fd_count(server.pid());
    aifo_tests::eventually("it is disconnected", || fd_count(server.pid()) < open);
    assert!(begin.elapsed() >= STALLED, "{:?}", begin.elapsed());
    // It resumes.
    let mut page = WebPage::default();
    stream.for_each(|event| page.apply(&event));
    assert!(!page.is_synced, "it was cut off");
    let mut stream = browser.page_stream(&session, &page);
    while !page.is_synced {
        page.apply(&stream.next().expect("it resumes"));
    }
    assert_eq!(page.shown, browser.snapshot(&session).shown);
}

#[test]
fn images_reports_and_removals_are_bounded_as_configured() {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let steps = [
        Step::say(&format!("![p](data:image/png;base64,{png})\n")),
        Step::Repeat { times: 20, steps: vec![Step::say("word ")] },
        Step::stop("end_turn"),
    ];
    let run = |limits: &str| {
        let test = WebTest::with(&turn(steps.clone()));
        test.configure(limits);
        let server = test.start();
        let browser = server.sign_in();
        let session = browser.new_session();
        browser.prompt(&session, "hello");
        let page = browser.page_when(&session, "the turn ends", |page| {
            page.is_idle() && page.region("log").contains("turn-end")
        });
        let past = format!("/api/sessions/{session}/events?past=1");
        let mut reports = 0;
        for event in browser.stream(&past, "") {
            reports += 1;
            if event.data.contains("\"final\"") {
                break;
            }
        }
        let images = page.region("log").matches("/media/").count();
        let stored = files_below(&test.setup.scratch().join("home"));
        let stored = stored.iter().filter(|path| path.parent().unwrap().ends_with("media"));
        (images, stored.count(), reports)
    };
    let (images, stored, reports) = run("");
    assert_eq!((images, stored), (1, 1));
    assert!(reports > 20, "{reports}");
    let (images, stored, reports) = run("media_bytes = 10\nreports = 3\nremovals = 1");
    assert_eq!((images, stored, reports), (0, 0, 3));
}

#[test]
fn a_limit_of_nothing_is_refused() {
    for key in ["media_bytes", "reports", "report_bytes", "removals", "stalled_secs"] {
        let test = WebTest::with(&Script::conforming());
        test.configure(&format!("{key} = 0"));
        let outcome = aifo_tests::Outcome::of(&mut test.command());
        outcome.exited(86);
        assert!(outcome.stderr.contains(&format!("web.{key} must be at least 1")), "{outcome:?}");
    }
}
