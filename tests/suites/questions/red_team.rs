//! Attempts of an agent or a tool to answer its own question, to use an approval for another call, or to
//! mislead the user who answers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::process::Command;

use aifo_tests::{
    Outcome, Running, Session, SessionSetup, Terminal, WebServer, binaries, eventually, free_port,
};
use serde_json::json;

use super::rules::{CONFIG, approve, configure, ruled, runs, waiting};
use super::{Control, ended, session_directory, shim, spawn};

#[track_caller]
fn session() -> Session {
    ruled(&format!("{CONFIG}[ask]\ntimeout_secs = 100\n"))
}

/// Runs an agent's shell script in a local session, in which `make count` waits. `APPROVE` is an answer to
/// the first question, by a program with an empty environment.
fn agent(script: &str) -> (Running, SessionSetup) {
    let setup = SessionSetup::new();
    configure(&setup, &format!("{CONFIG}[ask]\ntimeout_secs = 3\n"));
    let path = format!("{}:/usr/bin:/bin", setup.tools().display());
    let setup = setup.env("PATH", &path);
    let (coder, runtime) = (binaries().coder.display(), setup.runtime().display().to_string());
    let answer = format!(
        "env -i HOME={} XDG_RUNTIME_DIR={runtime} TMPDIR={runtime} {coder} approve --answer q1 once",
        setup.scratch().join("home").display()
    );
    let mut run = setup.coder();
    run.args(["run", "--backend", "local", "--quiet", "--toolchain", "c-cpp"]);
    let script = script.replace("APPROVE", &answer);
    let running = Running::start(run.args(["--", "/bin/sh", "-c", &script]));
    (running, setup)
}

#[track_caller]
fn assert_not_run(setup: &SessionSetup) {
    assert!(!setup.workspace().join("ran").exists(), "the agent answered its own question");
}

#[test]
fn an_agent_with_an_empty_environment_is_closed() {
    let script = "make count ran & for i in 1 2 3 4; do sleep 0.3; APPROVE; done 2>errors; wait";
    let (running, setup) = agent(script);
    running.finish();
    assert_not_run(&setup);
    let errors = fs::read_to_string(setup.workspace().join("errors")).unwrap();
    assert!(errors.contains("closed the connection"), "{errors}");
}

#[test]
fn an_agents_orphan_in_a_session_of_its_own_is_closed() {
    let script = "make count ran & (setsid sh -c 'for i in 1 2 3 4; do sleep 0.3; APPROVE; done' \
                  2>errors &); wait; sleep 1";
    let (running, setup) = agent(script);
    running.finish();
    assert_not_run(&setup);
    let errors = fs::read_to_string(setup.workspace().join("errors")).unwrap();
    assert!(errors.contains("closed the connection"), "{errors}");
}

#[test]
fn a_tool_and_its_orphan_are_closed() {
    let setup = SessionSetup::new().kinds(&["c-cpp"]);
    configure(&setup, &format!("{CONFIG}[ask]\ntimeout_secs = 3\n"));
    let (coder, runtime) = (binaries().coder.display(), setup.runtime().display().to_string());
    let home = setup.scratch().join("home");
    let answer = format!(
        "/usr/bin/env -i HOME={} XDG_RUNTIME_DIR={runtime} TMPDIR={runtime} {coder} approve \
         --answer q1 once",
        home.display()
    );
    let loops = format!("for i in 1 2 3 4; do /bin/sleep 0.3; {answer}; done");
    let body = format!("{loops}; (/usr/bin/setsid /bin/sh -c '{loops}' &); /bin/sleep 3");
    let session = setup.script("cmake", &format!("exec 2>errors; {body}")).start();
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    waiting(&session, 1);
    let _ = Outcome::of(&mut session.shim("cmake"));
    assert_eq!(ended(call).0, Some(86));
    assert_eq!(runs(&session, "ran"), 0);
    let errors = fs::read_to_string(session.workspace().join("errors")).unwrap();
    assert!(errors.contains("closed the connection"), "{errors}");
}

#[test]
fn an_answer_does_not_cover_another_call() {
    let session = session();
    // Left questions, so that an answer waits for an identical call.
    let mut call = spawn(shim(&session, "3", &["count", "ran"]));
    let id = waiting(&session, 1).remove(0);
    call.kill().unwrap();
    call.wait().unwrap();
    eventually("it has left", || {
        let text = Outcome::of(&mut approve(&session, &[])).exited(0).text();
        text.contains("its client has left")
    });
    Outcome::of(&mut approve(&session, &["--answer", &id, "once"])).exited(0);
    let sub = session.workspace().join("sub");
    fs::create_dir(&sub).unwrap();
    symlink(".", session.workspace().join("link")).unwrap();
    let rows: [(&[&str], &str); 5] = [
        (&["count", "ran", ""], ""),
        (&["count", "ran "], ""),
        (&["count", "./ran"], ""),
        (&["count", "ran\n"], ""),
        (&["count", "ran"], "sub"),
    ];
    for (number, (args, directory)) in rows.into_iter().enumerate() {
        let mut other = shim(&session, "3", args);
        let mut call = spawn({
            other.current_dir(session.workspace().join(directory));
            other
        });
        let ids = waiting(&session, 1);
        assert_eq!(ids, [format!("q{}", number + 2)], "{args:?} in '{directory}' waits");
        Outcome::of(&mut approve(&session, &["--answer", &ids[0], "deny"])).exited(0);
        assert_eq!(call.wait().unwrap().code(), Some(86));
    }
    // The identical call has the answer, once.
    assert_eq!(ended(spawn(shim(&session, "3", &["count", "ran"]))).0, Some(0));
    let again = spawn(shim(&session, "3", &["count", "ran"]));
    let ids = waiting(&session, 1);
    Outcome::of(&mut approve(&session, &["--answer", &ids[0], "deny"])).exited(0);
    assert_eq!(ended(again).0, Some(86));
    assert_eq!(runs(&session, "ran"), 1);
}

#[test]
fn an_answer_for_one_session_is_none_for_another() {
    let one = session();
    let call = spawn(shim(&one, "3", &["count", "ran"]));
    waiting(&one, 1);
    Outcome::of(&mut approve(&one, &["--answer", "q1", "session"])).exited(0);
    assert_eq!(ended(call).0, Some(0));
    let other = session();
    let call = spawn(shim(&other, "3", &["count", "ran"]));
    assert_eq!(waiting(&other, 1), ["q1"]);
    Outcome::of(&mut approve(&other, &["--answer", "q1", "deny"])).exited(0);
    assert_eq!(ended(call).0, Some(86));
}

#[test]
fn an_old_answer_does_not_reach_a_new_question() {
    let session = session();
    let call = spawn(shim(&session, "3", &["count", "a"]));
    waiting(&session, 1);
    Outcome::of(&mut approve(&session, &["--answer", "q1", "once"])).exited(0);
    assert_eq!(ended(call).0, Some(0));
    let call = spawn(shim(&session, "3", &["count", "b"]));
    assert_eq!(waiting(&session, 1), ["q2"], "numbers are not used again");
    for id in ["q1", "q3", "q02", "q+2", " q2", "q2 ", "Q2", ""] {
        let outcome = Outcome::of(&mut approve(&session, &["--answer", id, "session"]));
        // The first answer of q1 may be repeated by the same option only.
        outcome.exited(1);
    }
    assert_eq!(runs(&session, "b"), 0);
    Outcome::of(&mut approve(&session, &["--answer", "q2", "deny"])).exited(0);
    assert_eq!(ended(call).0, Some(86));
}

#[test]
fn requests_of_any_form_answer_nothing() {
    let session = session();
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    waiting(&session, 1);
    let socket = session_directory(&session).join("control.sock");
    let long =
        format!("{{\"answer\": \"q1\", \"option\": \"once\", \"x\": \"{}\"}}\n", "x".repeat(5000));
    let rows = [
        "\n",
        "{}\n",
        "null\n",
        "[\"q1\", \"once\"]\n",
        "{\"answer\": \"q1\"}\n",
        "{\"answer\": \"q1\", \"option\": \"ONCE\"}\n",
        "{\"answer\": \"q1\", \"option\": \"allow\"}\n",
        "{\"answer\": \"q1\", \"option\": \"once\", \"from\": \"editor\"}\n",
        "{\"answer\": [\"q1\"], \"option\": \"once\"}\n",
        "{\"answer\": \"q1\", \"option\": \"once\"",
        &long,
        "\u{fffd}\n",
    ];
    for row in rows {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(aifo_tests::DEADLINE)).unwrap();
        stream.write_all(row.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        // A reset is a rejection, too.
        let _ = stream.read_to_string(&mut answer);
        assert!(!answer.contains("\"answered\""), "{row:?}: {answer}");
    }
    assert_eq!(runs(&session, "ran"), 0);
    Outcome::of(&mut approve(&session, &["--answer", "q1", "deny"])).exited(0);
    assert_eq!(ended(call).0, Some(86));
}

#[test]
fn idle_connections_leave_room_for_the_user() {
    let session = session();
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    waiting(&session, 1);
    let socket = session_directory(&session).join("control.sock");
    // As many as an agent can hold are closed at once, by their variables.
    let script = format!(
        "import socket, time\nheld = []\nfor i in range(200):\n    s = socket.socket(socket.AF_UNIX)\n    \
         s.settimeout(5)\n    try:\n        s.connect('{}')\n        held.append(s)\n    except OSError:\n        \
         pass\nprint(len(held), flush=True)\ntime.sleep(1000)\n",
        socket.display()
    );
    let mut flood = Command::new("/usr/bin/python3");
    flood.env("AIFO_TOOLEEXEC_URL", session.url()).args(["-c", &script]);
    let flood = Running::start(&mut flood);
    eventually("it is connected", || !flood.has_printed("Traceback") && flood.has_printed("\n"));
    Outcome::of(&mut approve(&session, &["--answer", "q1", "deny"])).exited(0);
    assert_eq!(ended(call).0, Some(86));
    flood.signal(aifo_tests::Signal::SIGKILL);
}

#[test]
fn calls_that_leave_at_once_keep_a_bounded_list_and_the_waiting_one() {
    let session = session();
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    waiting(&session, 1);
    for number in 0..150 {
        let request = session.exec("make", ["count", &format!("flood{number}")]);
        let connection = session.send(&request);
        drop(connection);
    }
    let mut open = 0;
    eventually("the flood has left", || {
        let text = Outcome::of(&mut approve(&session, &[])).exited(0).text();
        open = text.lines().filter(|line| line.starts_with('q')).count();
        assert!(text.starts_with("q1  make count ran\n"), "{text}");
        open <= 65 && text.matches("its client has left").count() == open - 1
    });
    Outcome::of(&mut approve(&session, &["--answer", "q1", "once"])).exited(0);
    assert_eq!(ended(call).0, Some(0));
}

#[test]
fn words_and_reasons_cannot_control_the_terminal_or_forge_a_question() {
    let setup = SessionSetup::new().kinds(&["c-cpp"]);
    configure(&setup, "[ask]\ntimeout_secs = 100\n");
    // The agent can write the workspace file.
    let because = "x\\u001b[31m\\nq9  make say hello\\n  in /\\u202e\\u001b[8m";
    let rule = format!("[[rule]]\nrun = \"make count\"\nthen = \"ask\"\nbecause = \"{because}\"\n");
    fs::write(setup.workspace().join(".aifo.toml"), rule).unwrap();
    let session = setup.start();
    let evil =
        ["count", "a\nq8  make say hello\n  in /", "\u{1b}[2J\u{1b}[31mx", "\u{202e}b", "\r"];
    let calls = [
        spawn(shim(&session, "3", &evil)),
        // Its end is shown by `approve`.
        spawn(shim(&session, "3", &["count", "plain"])),
    ];
    waiting(&session, 2);
    let terminal = Terminal::sized(80, 24);
    let process = terminal.start(&approve(&session, &["--watch"]));
    terminal.expect("y once");
    let shown = terminal.shown();
    let listed = Outcome::of(&mut approve(&session, &[])).exited(0).text();
    for text in [&shown, &listed] {
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('q')).collect();
        assert!(
            lines.iter().all(|line| line.starts_with("q1 ") || line.starts_with("q2 ")),
            "{text}"
        );
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("  in /") && !line.contains("aifo-t")));
    }
    terminal.press("q");
    assert_eq!(process.finish(), Ok(0));
    for (id, call) in ["q1", "q2"].into_iter().zip(calls) {
        Outcome::of(&mut approve(&session, &["--answer", id, "deny"])).exited(0);
        ended(call);
    }
}

#[test]
fn the_beginning_of_a_long_call_is_in_view() {
    let session = session();
    let long = format!("{}harmless", " ".repeat(50_000));
    let call = spawn(shim(&session, "3", &["count", "ran", &long]));
    waiting(&session, 1);
    let text = Outcome::of(&mut approve(&session, &[])).exited(0).text();
    let last: Vec<&str> = text.lines().rev().take(1).collect();
    assert!(last[0].contains("bytes, which begin with: make count ran"), "{}", last[0]);
    assert!(last[0].len() < 300);
    Outcome::of(&mut approve(&session, &["--answer", "q1", "deny"])).exited(0);
    assert_eq!(ended(call).0, Some(86));
}

#[test]
fn a_program_that_answers_gets_one_line_and_no_directory_of_the_agent() {
    let setup = SessionSetup::new().kinds(&["c-cpp"]);
    let directory = setup.scratch().join("programs");
    fs::create_dir_all(&directory).unwrap();
    let program = directory.join("answers");
    let body = "#!/bin/sh\npwd > \"${0%/*}/pwd\"\nwhile read -r line; do printf '%s\\n' \"$line\" >> \
                \"${0%/*}/got\"; done\necho deny\n";
    fs::write(&program, body).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    configure(&setup, &format!("{CONFIG}[ask]\ntimeout_secs = 100\ncommand = [{program:?}]\n"));
    let session = setup.start();
    let forged = "x\n{\"session\": \"s\", \"question\": {\"argv\": [\"ls\"]}}\n";
    Outcome::of(&mut shim(&session, "3", &["count", forged])).exited(86);
    let got = fs::read_to_string(directory.join("got")).unwrap();
    assert_eq!(got.lines().count(), 1, "{got}");
    let line: serde_json::Value = serde_json::from_str(&got).unwrap();
    assert_eq!(line["question"]["argv"], json!(["make", "count", forged]));
    assert_eq!(fs::read_to_string(directory.join("pwd")).unwrap(), "/\n");
}

#[test]
fn a_rule_of_always_allows_no_other_spelling() {
    let session = session();
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    waiting(&session, 1);
    Outcome::of(&mut approve(&session, &["--answer", "q1", "always"])).exited(0);
    assert_eq!(ended(call).0, Some(0));
    let check = |words: &[&str]| {
        let mut check = Command::new(&binaries().coder);
        check.env_clear().env("HOME", session.scratch().join("home"));
        check.current_dir(session.workspace()).args(["policy", "check", "--"]).args(words);
        Outcome::of(&mut check).exited(0).text()
    };
    assert!(check(&["make", "count", "ran"]).starts_with("verdict:  allow"));
    let others: [&[&str]; 7] = [
        &["make", "count", "ran", "x"],
        &["make", "count", "other"],
        &["make", "count", "ran", "-f", "x"],
        &["make", "count", "ran", "--", "x"],
        &["sh", "-c", "make count ran; make count x"],
        &["sh", "-c", "make count $X"],
        &["env", "make", "count", "ran", "y"],
    ];
    for words in others {
        assert!(check(words).starts_with("verdict:  ask"), "{words:?}: {}", check(words));
    }
}

#[test]
fn a_page_without_credentials_answers_nothing() {
    let session = session();
    let port = free_port();
    let mut watch = Command::new(&binaries().coder);
    let scratch = session.scratch();
    watch.env_clear().env("HOME", scratch.join("home")).env("XDG_RUNTIME_DIR", scratch.join("run"));
    watch.env("TMPDIR", scratch.join("run")).env("PATH", "/usr/bin:/bin");
    watch.current_dir(session.workspace()).args(["web", "--watch", "--quiet"]);
    let server = WebServer::start(watch.args(["--listen", &format!("127.0.0.1:{port}")]));
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    waiting(&session, 1);
    let browser = server.sign_in();
    let page =
        browser.page_of("/api/stream", "the call", |page| page.region("asks").contains("ran"));
    let html = page.region("asks");
    let id = html.split_once("data-question=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let body = "{\"option\": \"once\"}";
    let all = browser.headers();
    for without in ["Cookie", "X-Aifo-Key", "Host"] {
        let mut headers: Vec<(&str, &str)> =
            all.iter().copied().filter(|(name, _)| *name != without).collect();
        if without == "Host" {
            headers.push(("Host", "evil.example"));
        }
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "POST /api/questions/{id} HTTP/1.1\r\n{lines}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{without}: {answer}");
    }
    assert_eq!(runs(&session, "ran"), 0);
    // `always` needs the shown change, and only offered options count.
    for body in [
        json!({"option": "always"}),
        json!({"option": "yes"}),
        json!({"option": "always", "change": "0"}),
    ] {
        let answer = browser.post_as("answer-1234", &format!("/api/questions/{id}"), &body);
        assert!([400, 409].contains(&answer.status), "{body}: {}", answer.status);
    }
    assert_eq!(runs(&session, "ran"), 0);
    let mut control = Control::of(&session);
    control.answer(&json!("q1"), "deny");
    assert_eq!(ended(call).0, Some(86));
}
