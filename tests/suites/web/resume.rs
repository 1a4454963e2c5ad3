//! Pages that are cut off resume without loss.

use std::time::Instant;

use aifo_tests::{Step, WebPage};

use super::{Random, WebTest, turn};

#[test]
fn a_thousand_cuts_with_two_browsers_lose_and_double_nothing() {
    const CUTS: u64 = 1000;
    const PARTS: u64 = 100;
    let mut steps = Vec::new();
    for part in 0..PARTS {
        steps.push(Step::Repeat { times: 5, steps: vec![Step::say(&format!("word{part}. "))] });
        steps.push(Step::say("\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"));
        let id = format!("t{part}");
        steps.push(Step::tool_call(&id, &format!("call {part}"), "in_progress"));
        steps.push(Step::WaitForWord(part.to_string()));
        steps.push(Step::tool_update(&id, "completed"));
    }
    steps.push(Step::stop("end_turn"));
    let test = WebTest::with(&turn(steps));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    browser.prompt(&session, "hello");
    let mut random = Random::new(7);
    let mut pages = [WebPage::default(), WebPage::default()];
    for cut in 0..CUTS {
        if cut % (CUTS / PARTS) == 5 {
            test.agent.release(&(cut / (CUTS / PARTS)).to_string());
        }
        let page = &mut pages[usize::try_from(cut % 2).unwrap()];
        let bytes = usize::try_from(random.below(3000)).unwrap();
        browser.page_stream(&session, page).cut_after(bytes, page);
    }
    let whole = browser.page_when(&session, "the turn ends", |page| page.is_idle());
    for mut page in pages {
        let mut stream = browser.page_stream(&session, &page);
        page.is_synced = false;
        while !page.is_synced || page.shown != whole.shown {
            let event = stream.next().expect("the page becomes equal");
            page.apply(&event);
        }
    }
    let log = whole.region("log");
    for part in 0..PARTS {
        assert_eq!(log.matches(&format!("word{part}.")).count(), 5, "{part}");
        assert_eq!(log.matches(&format!(">call {part}<")).count(), 1, "call {part}");
    }
}

#[test]
fn ten_thousand_updates_resume_at_once() {
    let steps = [
        Step::Repeat {
            times: 10_000,
            steps: vec![Step::say("A paragraph of some words, as agents write.\n\n")],
        },
        Step::stop("end_turn"),
    ];
    let test = WebTest::with(&turn(steps));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    let mut page = browser.snapshot(&session);
    browser.prompt(&session, "hello");
    let whole = browser.page_when(&session, "the turn ends", |page| {
        page.is_idle() && page.region("log").contains("turn-end")
    });
    assert_eq!(whole.region("log").matches("as agents write").count(), 10_000);
    let begin = Instant::now();
    let mut stream = browser.page_stream(&session, &page);
    page.is_synced = false;
    while !page.is_synced {
        let event = stream.next().expect("the stream is open");
        page.apply(&event);
    }
    let taken = begin.elapsed();
    println!("10000 updates resumed in {taken:?}");
    assert_eq!(page.shown, whole.shown);
    // Unoptimised, and the machine may be busy.
    assert!(taken.as_millis() < 3000, "{taken:?}");
}
