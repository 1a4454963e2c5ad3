//! A mailbox under load: many requests, several daemons, and daemons that start late or are killed.

use std::collections::BTreeMap;
use std::fs;
use std::thread;

use aifo_tests::{Mailbox, Running, SessionSetup, Signal, eventually, host, is_alive};

/// The number of runs of each request, from the counting tool's file.
fn counted(setup: &SessionSetup, file: &str) -> BTreeMap<String, usize> {
    let ran = fs::read_to_string(setup.workspace().join(file)).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in ran.lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

/// A command that records and prints its name and first argument, and exits with the second.
const COUNTING: &str = r#"echo "${0##*/} $1" >>ran; echo "${0##*/} $1"; exit "$2""#;

#[track_caller]
fn every_number_ran_once(setup: &SessionSetup, command: &str, count: usize) {
    let ran = counted(setup, "ran");
    let of_command = |(word, _): &(&String, &usize)| word.starts_with(&format!("{command} "));
    let ran: Vec<_> = ran.iter().filter(of_command).collect();
    assert_eq!(ran.len(), count);
    assert!(ran.iter().all(|(_, times)| **times == 1), "{ran:?}");
}

#[test]
fn two_thousand_requests_fifty_at_a_time_none_lost_or_doubled() {
    let mailbox = Mailbox::of(host().script("count", COUNTING), &["count"]);
    thread::scope(|scope| {
        for lane in 0..50 {
            let mailbox = &mailbox;
            scope.spawn(move || {
                for number in (lane..2000).step_by(50) {
                    let code = number % 256;
                    let request = format!("{number}\0{code}\0");
                    let answer = mailbox.request(&format!("count.{number}"), request.as_bytes());
                    assert_eq!(answer.exit, code.to_string());
                    assert_eq!(answer.stdout, format!("count {number}\n").into_bytes());
                }
            });
        }
    });
    every_number_ran_once(mailbox.setup(), "count", 2000);
    mailbox.assert_clean();
}

#[test]
fn the_script_fifty_at_a_time() {
    let mailbox = Mailbox::of(host().script("count", COUNTING), &["count"]);
    thread::scope(|scope| {
        for number in 0..50 {
            let mailbox = &mailbox;
            scope.spawn(move || {
                let outcome = mailbox.run("count", &[&number.to_string(), "3"]);
                assert_eq!(outcome.exited(3).text(), format!("count {number}\n"));
            });
        }
    });
    every_number_ran_once(mailbox.setup(), "count", 50);
    mailbox.assert_clean();
}

#[test]
fn requests_placed_before_the_start_are_served() {
    let setup = host().script("count", COUNTING);
    let directory = setup.workspace().join(".swe-swe/proxy");
    fs::create_dir_all(&directory).unwrap();
    // More than may run at once.
    for number in 0..200 {
        fs::write(directory.join(format!("count.{number}.req")), format!("{number}\x007\0"))
            .unwrap();
    }
    fs::write(directory.join("plain-1.req"), "200\x007\0").unwrap();
    let mailbox = Mailbox::of(setup, &["count"]);
    for number in 0..200 {
        let answer = mailbox.answer(&format!("count.{number}"));
        assert_eq!(
            (answer.exit.as_str(), answer.stdout),
            ("7", format!("count {number}\n").into())
        );
    }
    assert_eq!(mailbox.answer("plain-1").stdout, b"count 200\n");
    every_number_ran_once(mailbox.setup(), "count", 201);
}

#[test]
fn two_daemons_in_one_directory_take_no_others_requests() {
    let mailbox = Mailbox::of(host().script("one", COUNTING).script("two", COUNTING), &["one"]);
    let second = Mailbox::daemon(mailbox.setup(), &["two"]);
    thread::scope(|scope| {
        for lane in 0..10 {
            let mailbox = &mailbox;
            scope.spawn(move || {
                for number in (lane..500).step_by(10) {
                    let command = if number % 2 == 0 { "one" } else { "two" };
                    let stem = format!("{command}.{number}");
                    mailbox.place(&stem, format!("{number}\0{}\0", number % 100).as_bytes());
                    let answer = mailbox.answer(&stem);
                    assert_eq!(answer.exit, (number % 100).to_string());
                    assert_eq!(answer.stdout, format!("{command} {number}\n").into_bytes());
                }
            });
        }
    });
    for command in ["one", "two"] {
        every_number_ran_once(mailbox.setup(), command, 250);
    }
    // One without a command is ignored.
    mailbox.place("plain-1", b"501\x000\0");
    let answer = mailbox.answer("plain-1");
    assert_eq!((answer.exit.as_str(), answer.reason.as_deref()), ("125", Some("refused")));
    let line = "proxy: the request names no command, and 2 are served here\n";
    assert_eq!(answer.stderr, line);
    second.signal(Signal::SIGTERM);
    second.finish().exited(0);
    mailbox.place("plain-2", b"502\x000\0");
    assert_eq!(mailbox.answer("plain-2").stdout, b"one 502\n");
}

#[test]
fn one_daemon_serves_several_commands() {
    let mailbox =
        Mailbox::of(host().script("one", COUNTING).script("two", COUNTING), &["one", "two"]);
    for command in ["one", "two"] {
        assert_eq!(mailbox.run(command, &["1", "0"]).exited(0).text(), format!("{command} 1\n"));
    }
    mailbox.place("plain-1", b"2\x000\0");
    assert_eq!(mailbox.answer("plain-1").exit, "125");
    let (_setup, ended) = mailbox.stop();
    let lines = [
        "[proxy] Listening for 'one' commands...",
        "[proxy] Container script: .swe-swe/proxy/one",
        "[proxy] Listening for 'two' commands...",
        "[proxy] Container script: .swe-swe/proxy/two",
    ];
    assert_eq!(ended.exited(0).text().lines().collect::<Vec<_>>(), lines);
}

#[test]
fn an_id_is_free_again_once_its_answer_has_been_read() {
    let mailbox = Mailbox::start(&["make"]);
    for round in ["first", "second"] {
        mailbox.place("make.same", format!("say\0{round}\0").as_bytes());
        assert_eq!(mailbox.answer("make.same").stdout, format!("{round}\n").into_bytes());
        for name in mailbox.leftovers() {
            fs::remove_file(mailbox.file(&name)).unwrap();
        }
    }
    // The first answer still exists: the second request is not run, and the answer stays.
    mailbox.place("make.same", b"say\0third\0");
    mailbox.answer("make.same");
    mailbox.place("make.same", b"say\0fourth\0");
    eventually("the request is gone", || !mailbox.file("make.same.req").exists());
    mailbox.place("make.other", b"say\0fifth\0");
    assert_eq!(mailbox.answer("make.other").stdout, b"fifth\n");
    assert_eq!(mailbox.answer("make.same").stdout, b"third\n");
}

#[test]
fn a_daemon_that_was_killed_is_replaced_and_nothing_runs_twice() {
    let mailbox = Mailbox::start(&["fake"]);
    let ran = mailbox.setup().workspace().join("ran");
    let script = format!("count\0{}\0", ran.display());
    mailbox.place("fake.before", script.as_bytes());
    mailbox.answer("fake.before");
    let mut client = mailbox.client("fake");
    let client = Running::start(client.arg("wait"));
    client.expect("ready\n");
    let running = mailbox.leftovers().into_iter().filter(|name| name.ends_with(".run"));
    assert_eq!(running.count(), 1);
    let tools = aifo_tests::descendants(mailbox.running().pid());
    let pid = mailbox.running().pid();

    let setup = mailbox.kill();
    let directory = setup.workspace().join(".swe-swe/proxy");
    fs::write(directory.join("fake.between.req"), &script).unwrap();
    let mailbox = Mailbox::of(setup, &["fake"]);
    mailbox.answer("fake.between");
    assert_eq!(fs::read_to_string(&ran).unwrap(), "ran\nran\n");
    let outcome = client.finish();
    assert_eq!(outcome.exited(125).text(), "ready\n", "the ending is unknown");
    eventually("the killed daemon's command has ended", || tools.iter().all(|pid| !is_alive(*pid)));
    let (_setup, ended) = mailbox.stop();
    let warned = format!("aifo-coder: the PID file of 'fake' was stale (PID {pid}), replaced");
    assert_eq!(ended.exited(0).only_line(), warned);
}

#[test]
fn invalid_commands_are_refused_at_the_start() {
    let setup = host();
    let proxy = |args: &[&str]| Running::start(setup.coder().arg("proxy").args(args)).finish();
    let missing = proxy(&["make", "foo-that-is-not-there"]);
    let expected = "aifo-coder: command 'foo-that-is-not-there' not found in PATH";
    assert_eq!(missing.exited(86).only_line(), expected);
    assert!(proxy(&[]).exited(2).stderr.contains("COMMAND"));
    for name in ["bin/make", "make.pid", ".."] {
        let wrong = proxy(&[name]);
        assert!(wrong.exited(2).stderr.contains("cannot be a command"), "{wrong:?}");
    }
    assert!(proxy(&["--env", "A=B", "make"]).exited(2).stderr.contains("letters, digits and _"));
}

#[test]
fn the_directory_is_where_it_was_asked_for() {
    let setup = host();
    let home = setup.scratch().join("home/.swe-swe/proxy");
    let other = setup.scratch().join("other/deep");
    let global = Mailbox::daemon(&setup, &["--global", "fake"]);
    let named = Mailbox::daemon(&setup, &["--dir", other.to_str().unwrap(), "fake"]);
    for (daemon, directory) in [(global, home), (named, other)] {
        let client = directory.join("fake");
        daemon.expect(&format!("[proxy] Container script: {}\n", client.display()));
        let mut call = std::process::Command::new(&client);
        let outcome = Running::start(call.arg("cwd").current_dir("/").env_clear()).finish();
        let workspace = format!("{}\n", setup.workspace().display());
        assert_eq!(outcome.exited(0).text(), workspace, "a directory that is not the host's");
        daemon.signal(Signal::SIGTERM);
        daemon.finish().exited(0);
        assert!(!client.exists());
    }
}
