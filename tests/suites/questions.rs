//! Calls that wait for a user's approval (`spec/questions.md`), with the judge of the example `ask`: a
//! call whose last argument is `ask` waits, one with `deny` is denied.

mod approve;
mod chaos;
mod covered;
mod editor;
mod forged;
mod mailbox;
mod mixed;
mod red_team;
mod replaced;
mod rules;
mod terminal;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use aifo_tests::{DEADLINE, Outcome, Session, SessionSetup, Signal};
use aifo_tests::{eventually, fresh_id, send_signal};
use serde_json::{Value, json};

/// Starts a session in which an answer may take this many seconds.
#[track_caller]
fn session(secs: u64) -> Session {
    session_of(SessionSetup::new(), secs, None)
}

#[track_caller]
fn session_of(setup: SessionSetup, secs: u64, max_secs: Option<u64>) -> Session {
    let setup = setup.kinds(&["c-cpp"]);
    let mut serve = setup.example("ask");
    serve
        .arg(setup.workspace())
        .args([&secs.to_string(), "c-cpp"])
        .args(max_secs.map(|secs| secs.to_string()));
    setup.start_as(serve)
}

/// A client of the control socket.
struct Control(BufReader<UnixStream>);

impl Control {
    #[track_caller]
    fn of(session: &Session) -> Self {
        Control::at(&session_directory(session))
    }

    /// Connects to the session with this directory.
    #[track_caller]
    fn at(directory: &Path) -> Self {
        let stream = UnixStream::connect(directory.join("control.sock")).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Control(BufReader::new(stream))
    }

    #[track_caller]
    fn watching(session: &Session) -> Self {
        let mut control = Control::of(session);
        control.send(&json!({"watch": true}));
        control
    }

    #[track_caller]
    fn send(&mut self, request: &Value) {
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
    }

    /// The next line; `null` at the end.
    #[track_caller]
    fn next(&mut self) -> Value {
        let mut line = String::new();
        match self.0.read_line(&mut line).unwrap() {
            0 => Value::Null,
            _ => serde_json::from_str(&line).unwrap(),
        }
    }

    /// Waits for a question and returns it.
    #[track_caller]
    fn question(&mut self) -> Value {
        let line = self.next();
        assert!(line["question"].is_object(), "{line}");
        line["question"].clone()
    }

    #[track_caller]
    fn answer(&mut self, id: &Value, option: &str) -> Value {
        self.send(&json!({"answer": id, "option": option}));
        self.next()
    }
}

fn session_directory(session: &Session) -> PathBuf {
    let runtime = session.scratch().join("run");
    let mut entries = std::fs::read_dir(runtime).unwrap().flatten().map(|entry| entry.path());
    entries.find(|path| path.join("control.sock").exists()).expect("a session with rules")
}

/// Answers the next question.
#[track_caller]
fn answer_next(session: &Session, option: &str) -> Value {
    let question = Control::watching(session).question();
    let answered = Control::of(session).answer(&question["id"], option);
    assert_eq!(answered, json!({"answered": question["id"]}));
    question
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[track_caller]
fn ended(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// `make say hello ask` through the shim, by this version of the protocol.
fn shim(session: &Session, version: &str, args: &[&str]) -> Command {
    let mut shim = session.shim("make");
    shim.args(args).env("AIFO_SHIM_PROTO", version);
    shim
}

#[test]
fn a_denied_call_does_not_run() {
    let session = session(300);
    let outcome = Outcome::of(session.shim("make").args(["count", &session.file("ran"), "deny"]));
    let text = "aifo-shim: denied by rule 'make': it is shared; hint: do not repeat this call; choose \
                another way or report to the user\n";
    assert_eq!((outcome.exited(86).text().as_str(), &*outcome.stderr), ("", text));
    let answer = session.answer(&session.exec("make", ["say", "deny"]).proto("1"));
    assert_eq!((answer.status(), answer.exit_code()), (403, Some("86")));
    assert!(!session.workspace().join("ran").exists());
    assert_eq!(session.answer(&session.exec("make", ["say", "hi"])).text(), "hi\n");
}

#[test]
fn an_allowed_call_runs_on_its_own_descriptors() {
    let session = session(300);
    let call = spawn(shim(&session, "3", &["say", "hello", "ask"]));
    let question = answer_next(&session, "once");
    let expected = json!({
        "id": "q1", "argv": ["make", "say", "hello", "ask"], "directory": session.workspace(),
        "reason": "rule 'make': it is shared", "left": false,
    });
    assert_eq!(question, expected);
    let waiting =
        "aifo: waiting for approval: make say hello ask; answer with: aifo-coder approve\n";
    assert_eq!(ended(call), (Some(0), "hello ask\n".to_owned(), waiting.to_owned()));
}

#[test]
fn versions_1_and_2_wait_silently() {
    let session = session(300);
    for version in ["1", "2"] {
        let call = session.send(&session.exec("make", ["say", version, "ask"]).proto(version));
        answer_next(&session, "once");
        let answer = call.answer();
        assert_eq!((answer.status(), answer.text()), (200, format!("{version} ask\n")));
    }
}

#[test]
fn a_user_denies() {
    let session = session(300);
    let hints = [
        ("deny", "do not repeat this call; choose another way or report to the user"),
        ("end", "end your turn and wait for the user"),
    ];
    for (option, hint) in hints {
        let call = spawn(session_call(&session, option));
        answer_next(&session, option);
        let (code, stdout, stderr) = ended(call);
        assert_eq!((code, &*stdout), (Some(86), ""));
        let refused = format!(
            "aifo-shim: denied by the user: make say {option} ask (rule 'make': it is shared); hint: {hint}\n"
        );
        assert!(stderr.ends_with(&refused), "{stderr}");
    }
}

fn session_call(session: &Session, word: &str) -> Command {
    shim(session, "3", &["say", word, "ask"])
}

#[test]
fn without_an_answer_the_call_is_denied_and_its_repetition_can_be_covered() {
    for (secs, waited) in [(0, ""), (1, " within 1 s")] {
        let session = session(secs);
        let outcome = Outcome::of(&mut session_call(&session, "a"));
        let refused = format!("not approved{waited}: make say a ask");
        assert!(outcome.exited(86).stderr.contains(&refused), "{}", outcome.stderr);
        let question = answer_next(&session, "once");
        assert_eq!(question["left"], json!(true));
        assert_eq!(Outcome::of(&mut session_call(&session, "a")).exited(0).text(), "a ask\n");
        Outcome::of(&mut session_call(&session, "a")).exited(86);
    }
}

#[test]
fn the_descriptors_of_a_call_whose_client_left_are_closed() {
    let session = session(300);
    let mut control = Control::watching(&session);
    for version in ["3", "2"] {
        let mut call = spawn(shim(&session, version, &["say", version, "ask"]));
        let question = control.question();
        let mut stdout = call.stdout.take().unwrap();
        call.kill().unwrap();
        call.wait().unwrap();
        // The reader of `tool | tee` ends at once.
        let mut read = Vec::new();
        std::io::Read::read_to_end(&mut stdout, &mut read).unwrap();
        assert_eq!(read, b"");
        let left = control.question();
        assert_eq!((&left["id"], &left["left"]), (&question["id"], &json!(true)));
    }
}

#[test]
fn signals_end_the_wait() {
    let session = session(300);
    let mut control = Control::watching(&session);
    for (version, signal) in [("3", Signal::SIGINT), ("3", Signal::SIGTERM), ("2", Signal::SIGTERM)]
    {
        let mut call = spawn(shim(&session, version, &["say", "x", "ask"]));
        let question = control.question();
        send_signal(call.id().cast_signed(), signal);
        let status = call.wait().unwrap();
        use std::os::unix::process::ExitStatusExt;
        let ended = status.signal().or(status.code().map(|code| code - 128));
        assert_eq!(ended, Some(signal as i32), "version {version}: {status}");
        // The next call takes the question over.
        assert_eq!(control.question()["left"], json!(true));
        let _ = question;
    }
}

#[test]
fn a_signal_request_ends_the_wait() {
    let session = session(300);
    let id = fresh_id();
    let call = session.send(&session.exec("make", ["say", "ask"]).id(&id));
    Control::watching(&session).question();
    assert_eq!(session.signal(&id, "TERM").status(), 204);
    let answer = call.answer();
    assert_eq!((answer.status(), answer.exit_code()), (409, Some("143")));
    assert_eq!(answer.text(), "signal TERM ended the wait for approval; nothing ran\n");
}

#[test]
fn at_most_64_calls_wait() {
    let session = session(300);
    let calls: Vec<_> = (0..64)
        .map(|number| session.send(&session.exec("make", ["say", &number.to_string(), "ask"])))
        .collect();
    let mut control = Control::of(&session);
    eventually("all wait", || {
        control.send(&json!({"list": true}));
        let mut count = 0;
        while control.next()["question"].is_object() {
            count += 1;
        }
        count == 64
    });
    let answer = session.answer(&session.exec("make", ["say", "64", "ask"]));
    assert_eq!((answer.status(), answer.exit_code()), (429, Some("86")));
    assert_eq!(answer.text(), "too many calls wait for approval: the limit is 64\n");
    assert_eq!(session.answer(&session.exec("make", ["say", "hi"])).text(), "hi\n", "others run");
    drop(calls);
}

#[test]
fn a_call_that_no_sidecar_runs_is_not_asked() {
    let session = session(300);
    let answer = session.answer(&session.exec("ls", ["ask"]));
    assert_eq!(answer.status(), 403);
    let mut control = Control::of(&session);
    control.send(&json!({"list": true}));
    assert_eq!(control.next(), json!({"end": true}));
}

#[test]
fn a_long_call_is_not_asked() {
    let session = session(300);
    let long = "x".repeat(256 * 1024);
    let answer = session.answer(&session.exec("make", ["say", &long, "ask"]));
    assert_eq!(answer.status(), 403);
    assert!(answer.text().starts_with("the call is too long"), "{}", answer.text());
}

#[test]
fn an_answer_for_the_session_covers_identical_calls() {
    let session = session(300);
    let call = spawn(shim(&session, "3", &["say", "late", "ask"]));
    answer_next(&session, "session");
    assert_eq!(ended(call).0, Some(0));
    for _ in 0..2 {
        let outcome = Outcome::of(&mut shim(&session, "3", &["say", "late", "ask"]));
        assert_eq!((outcome.exited(0).text().as_str(), &*outcome.stderr), ("late ask\n", ""));
    }
}

#[test]
fn the_time_limit_starts_with_the_tool() {
    let session = session_of(SessionSetup::new(), 300, Some(1));
    let call = spawn(shim(&session, "3", &["say", "late", "ask"]));
    let question = Control::watching(&session).question();
    // Another call reaches its limit meanwhile.
    Outcome::of(&mut shim(&session, "3", &["wait"])).exited(124);
    Control::of(&session).answer(&question["id"], "once");
    assert_eq!(ended(call).0, Some(0));
}
