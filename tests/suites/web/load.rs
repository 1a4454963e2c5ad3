//! Many browsers on a busy session.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use aifo_tests::{Step, WebBrowser, WebServer, processor_time, status_kib};

use super::{WebTest, turn};

const CLIENTS: usize = 50;
/// The most times that a turn with them is longer than one alone.
const SLOWER: u32 = 10;

/// Runs a turn and returns its time, and the server's processor time.
fn run_turn(
    server: &WebServer,
    browser: &WebBrowser,
    session: &str,
    number: usize,
) -> [Duration; 2] {
    let (begin, before) = (Instant::now(), processor_time(server.pid()));
    browser.prompt(session, "hello");
    browser.page_when(session, "the turn ends", |page| {
        page.is_idle() && page.region("log").matches("turn-end").count() == number
    });
    [begin.elapsed(), processor_time(server.pid()) - before]
}

fn rss_kib(server: &WebServer) -> u64 {
    status_kib(server.pid(), "VmRSS")
}

#[test]
fn fifty_browsers_cost_bounded_memory_and_a_stalled_one_resumes() {
    let steps = [
        Step::Repeat {
            times: 2000,
            steps: vec![Step::say(&format!("{}\n\n", "some words ".repeat(20)))],
        },
        Step::stop("end_turn"),
    ];
    let test = WebTest::with(&turn(steps));
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    let alone = run_turn(&server, &browser, &session, 1);
    let before = rss_kib(&server);

    let readers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (browser, session) = (browser.clone(), session.clone());
            std::thread::spawn(move || {
                let ended = |page: &aifo_tests::WebPage| {
                    page.is_idle() && page.region("log").matches("turn-end").count() == 2
                };
                browser.page_when(&session, "the second turn ends", ended)
            })
        })
        .collect();
    // A browser that never reads.
    let mut stalled = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let mut head = format!("GET /api/stream?session={session} HTTP/1.1\r\n");
    for (name, value) in browser.headers() {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stalled.write_all(format!("{head}\r\n").as_bytes()).unwrap();

    let crowded = run_turn(&server, &browser, &session, 2);
    let whole = browser.snapshot(&session);
    for reader in readers {
        let page = reader.join().expect("a reader's page");
        assert_eq!(page.shown, whole.shown);
    }
    let after = rss_kib(&server);
    println!(
        "turn: {alone:?} alone, {crowded:?} with {CLIENTS} browsers, of this the server's processor; \
         memory {before} to {after} KiB"
    );
    // The browsers share the machine with the server, and with other load.
    assert!(crowded[0] < alone[0] * SLOWER + Duration::from_secs(2), "{crowded:?} after {alone:?}");
    // The second turn's content, and a chunk for each browser.
    assert!(after < before + 64 * 1024, "{before} KiB grew to {after} KiB");

    // The stalled one is no obstacle: it may resume at any time.
    drop(stalled);
    let page = browser.snapshot(&session);
    assert_eq!(page.shown, whole.shown);
}
