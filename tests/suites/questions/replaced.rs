//! Directories and scripts that are replaced while their call waits for approval.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use aifo_tests::{Connection, Mailbox, Outcome, Running, Session, SessionSetup, Step, Tool};
use aifo_tests::{eventually, host};
use serde_json::json;

use super::editor::{EditorTest, create, of_terminal, setup};
use super::rules::configure;
use super::{Control, answer_next, ended, session, shim, spawn};

/// Exchanges the directory `outer/asked` of a call for another one.
type Attack = fn(&Path);

const ATTACKS: [(&str, Attack); 6] = [
    ("a link to another directory", |outer| {
        fs::rename(outer.join("asked"), outer.join("moved")).unwrap();
        symlink("other", outer.join("asked")).unwrap();
    }),
    ("a link to its parent", |outer| {
        fs::rename(outer.join("asked"), outer.join("moved")).unwrap();
        symlink(".", outer.join("asked")).unwrap();
    }),
    ("another directory", |outer| {
        fs::rename(outer.join("asked"), outer.join("moved")).unwrap();
        fs::rename(outer.join("other"), outer.join("asked")).unwrap();
    }),
    ("a new directory, with the same inode number if the kernel uses it again", |outer| {
        fs::remove_dir(outer.join("asked")).unwrap();
        fs::create_dir(outer.join("asked")).unwrap();
    }),
    ("a parent that is a link", |outer| {
        let evil = outer.with_extension("evil");
        fs::create_dir_all(evil.join("asked")).unwrap();
        fs::rename(outer, outer.with_extension("moved")).unwrap();
        symlink(&evil, outer).unwrap();
    }),
    ("the same directory, below a parent that is a link", |outer| {
        let moved = outer.with_extension("moved");
        fs::rename(outer, &moved).unwrap();
        symlink(&moved, outer).unwrap();
    }),
];

fn directories(workspace: &Path, name: &str) -> PathBuf {
    let outer = workspace.join(name);
    for directory in ["asked", "other"] {
        fs::create_dir_all(outer.join(directory)).unwrap();
    }
    outer
}

/// A call of one of the frontends.
enum Call {
    Shim(Child),
    Plain(Connection),
}

impl Call {
    fn start(session: &Session, version: &str, directory: &Path, word: &str) -> Self {
        match version {
            "3" => {
                let mut call = shim(session, version, &["count", word]);
                call.current_dir(directory);
                Call::Shim(spawn(call))
            }
            version => {
                let call = session.post("/exec").proto(version).field("tool", "make");
                let call = call.field("cwd", directory).field("arg", "count").field("arg", word);
                Call::Plain(session.send(&call))
            }
        }
    }

    /// Its exit code and message.
    fn end(self) -> (u8, String) {
        match self {
            Call::Shim(child) => {
                let (code, stdout, stderr) = ended(child);
                (code.unwrap().try_into().unwrap(), stdout + &stderr)
            }
            Call::Plain(connection) => {
                let answer = connection.answer();
                (answer.exit_code().unwrap().parse().unwrap(), answer.text())
            }
        }
    }
}

/// The directories below the workspace with a file of this name.
fn marked(workspace: &Path, name: &str) -> Vec<String> {
    fn walk(directory: &Path, name: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), name, found);
            } else if entry.file_type().unwrap().is_file() && entry.file_name() == name {
                found.push(directory.display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    walk(workspace, name, &mut found);
    found
}

#[test]
fn a_call_whose_directory_is_replaced_does_not_run() {
    let session = session(300);
    for (number, (attack, replace)) in ATTACKS.iter().enumerate() {
        for version in ["3", "2", "1"] {
            let word = format!("ask-{number}-{version}");
            let outer = directories(&session.workspace(), &word);
            let call = Call::start(&session, version, &outer.join("asked"), &word);
            let question = Control::watching(&session).question();
            replace(&outer);
            Control::of(&session).answer(&question["id"], "once");
            let (code, message) = call.end();
            assert_eq!(code, 86, "{attack}, version {version}: {message}");
            assert!(message.contains("was replaced while the call waited"), "{message}");
            assert_eq!(marked(&session.workspace(), &word), [""; 0], "{attack}, version {version}");
        }
    }
}

#[test]
fn a_link_to_the_directory_is_shown_and_run_without_it() {
    let session = session(300);
    let outer = directories(&session.workspace(), "linked");
    for version in ["3", "2", "1"] {
        let (link, word) = (outer.join("link"), format!("ask-{version}"));
        symlink("asked", &link).unwrap();
        // A shell's PWD has the link.
        let mut command = shim(&session, "3", &["count", &word]);
        command.current_dir(&link).env("PWD", &link);
        let call = match version {
            "3" => Call::Shim(spawn(command)),
            version => Call::start(&session, version, &link, &word),
        };
        let question = Control::watching(&session).question();
        assert_eq!(question["directory"], json!(outer.join("asked")));
        fs::remove_file(&link).unwrap();
        symlink("other", &link).unwrap();
        Control::of(&session).answer(&question["id"], "once");
        let (code, message) = call.end();
        assert_eq!(code, 0, "{message}");
        assert_eq!(
            marked(&session.workspace(), &word),
            [outer.join("asked").display().to_string()]
        );
        fs::remove_file(&link).unwrap();
    }
}

/// A link that changes all the time, before the question and after it.
#[test]
fn a_call_runs_in_the_directory_that_its_question_shows() {
    let session = session(300);
    let outer = directories(&session.workspace(), "flips");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let targets = ["asked", "other"].into_iter().cycle();
            for target in targets.take_while(|_| !done.load(Ordering::Relaxed)) {
                symlink(target, outer.join("new")).unwrap();
                fs::rename(outer.join("new"), outer.join("link")).unwrap();
            }
        });
        eventually("the link flips", || outer.join("link").exists());
        for round in 0..60 {
            let word = format!("ask-{round}");
            let call = Call::start(&session, "2", &outer.join("link"), &word);
            let shown = answer_next(&session, "once")["directory"].clone();
            assert_eq!(call.end().0, 0);
            assert_eq!(json!(marked(&outer, &word)), json!([shown]));
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_answer_for_the_session_holds_for_the_directory_that_was_shown() {
    let session = session(300);
    let outer = directories(&session.workspace(), "session");
    let run = |option: Option<&str>| {
        let call = Call::start(&session, "3", &outer.join("asked"), "ask-session");
        option.map(|option| answer_next(&session, option));
        call.end().0
    };
    assert_eq!([run(Some("session")), run(None)], [0, 0]);
    let moved = outer.join("moved");
    fs::rename(outer.join("asked"), &moved).unwrap();
    fs::create_dir(outer.join("asked")).unwrap();
    assert_eq!(run(Some("deny")), 86);
    fs::remove_dir(outer.join("asked")).unwrap();
    symlink(&moved, outer.join("asked")).unwrap();
    assert_eq!(run(Some("deny")), 86);
    fs::remove_file(outer.join("asked")).unwrap();
    fs::rename(&moved, outer.join("asked")).unwrap();
    assert_eq!(run(None), 0, "the same directory again");
}

#[test]
fn an_answer_to_a_client_that_left_holds_for_the_directory_that_was_shown() {
    let session = session(1);
    let outer = directories(&session.workspace(), "left");
    let run = || Call::start(&session, "3", &outer.join("asked"), "ask-left").end().0;
    assert_eq!(run(), 86);
    answer_next(&session, "once");
    fs::rename(outer.join("asked"), outer.join("moved")).unwrap();
    fs::rename(outer.join("other"), outer.join("asked")).unwrap();
    assert_eq!((run(), marked(&session.workspace(), "ask-left").len()), (86, 0));
    fs::rename(outer.join("asked"), outer.join("other")).unwrap();
    fs::rename(outer.join("moved"), outer.join("asked")).unwrap();
    assert_eq!(run(), 0);
}

#[test]
fn a_directory_that_cannot_be_opened_is_not_asked_about() {
    let session = session(300);
    let rows =
        [("missing", "No such file"), ("file", "Not a directory"), ("../..", "lies outside")];
    fs::write(session.workspace().join("file"), "").unwrap();
    symlink("loop", session.workspace().join("loop")).unwrap();
    for (name, reason) in rows.into_iter().chain([("loop", "Too many")]) {
        let call = Call::start(&session, "2", &session.workspace().join(name), "ask");
        let (code, message) = call.end();
        assert_eq!(code, 86, "{name}");
        assert!(message.contains(reason), "{name}: {message}");
    }
    let mut control = Control::of(&session);
    control.send(&json!({"list": true}));
    assert_eq!(control.next(), json!({"end": true}));
}

/// Replaces the content of a script, or the script, by the file `evil`.
const SCRIPT_ATTACKS: [(&str, Attack); 6] = [
    ("written in place", |script| fs::write(script, "echo evil # and longer\n").unwrap()),
    ("replaced", |script| fs::rename(script.with_file_name("evil"), script).unwrap()),
    ("a link", |script| {
        fs::remove_file(script).unwrap();
        symlink("evil", script).unwrap();
    }),
    ("a link to the same content, whose neighbours are others", |script| {
        fs::rename(script, script.with_file_name("other/x.py")).unwrap();
        symlink("other/x.py", script).unwrap();
    }),
    ("written in place, with the former time and length", |script| {
        let times = fs::metadata(script).unwrap();
        fs::write(script, "echo EVIL\n").unwrap();
        let times = fs::FileTimes::new().set_modified(times.modified().unwrap());
        fs::File::options().write(true).open(script).unwrap().set_times(times).unwrap();
    }),
    ("removed", |script| fs::remove_file(script).unwrap()),
];

#[test]
fn a_call_whose_script_is_replaced_does_not_run() {
    let python = Tool::File(b"#!/bin/sh\nexec /bin/sh \"$1\"\n".to_vec(), 0o755);
    let setup = SessionSetup::new().kinds(&["python"]).tool("python3", python);
    let mut serve = setup.example("ask");
    serve.arg(setup.workspace()).args(["300", "python"]);
    let session = setup.start_as(serve);
    let script = session.workspace().join("x.py");
    let call = |version: &str| {
        let mut call = session.shim("python3");
        call.args(["x.py", "ask"]).env("AIFO_SHIM_PROTO", version).env("AIFO_SHIM_SMART", "0");
        spawn(call)
    };
    for (attack, replace) in SCRIPT_ATTACKS {
        for version in ["3", "2", "1"] {
            fs::create_dir_all(session.workspace().join("other")).unwrap();
            fs::write(&script, "echo good\n").unwrap();
            fs::write(session.workspace().join("evil"), "echo evil\n").unwrap();
            let call = call(version);
            let question = Control::watching(&session).question();
            replace(&script);
            Control::of(&session).answer(&question["id"], "once");
            let (code, stdout, stderr) = ended(call);
            assert_eq!((code, &*stdout), (Some(86), ""), "{attack}: {stderr}");
            assert!(stderr.contains("x.py' was replaced while the call waited"), "{stderr}");
            let _ = fs::remove_file(&script);
        }
    }
    fs::write(&script, "echo good\n").unwrap();
    let allowed = call("3");
    answer_next(&session, "session");
    assert_eq!(ended(allowed).1, "good\n");
    // The answer is about the call, whatever the script contains next time.
    fs::write(&script, "echo next\n").unwrap();
    assert_eq!(ended(call("3")).1, "next\n");
}

#[test]
fn a_mailboxs_command_whose_directory_is_replaced_does_not_run() {
    let setup = host().tool("git", Tool::Fake);
    configure(&setup, "[[rule]]\nrun = \"git count\"\nthen = \"ask\"\n");
    let mailbox = Mailbox::of(setup, &["git"]);
    for (number, (attack, replace)) in ATTACKS.iter().enumerate() {
        let word = format!("ask-{number}");
        let outer = directories(&mailbox.setup().workspace(), &word);
        let mut client = mailbox.client("git");
        client.args(["count", &word]).current_dir(outer.join("asked"));
        let client = Running::start(&mut client);
        let approve =
            |args: &[&str]| Outcome::of(mailbox.setup().coder().arg("approve").args(args));
        let mut id = String::new();
        eventually("it is listed", || {
            let listed = approve(&[]).exited(0).text();
            id = listed.split_whitespace().next().unwrap_or_default().to_owned();
            listed.contains(&word)
        });
        replace(&outer);
        approve(&["--answer", &id, "once"]).exited(0);
        let outcome = client.finish();
        assert_eq!(outcome.code(), Some(125), "{attack}");
        assert!(outcome.stderr.contains("was replaced"), "{attack}: {}", outcome.stderr);
        assert_eq!(marked(&mailbox.setup().workspace(), &word), [""; 0], "{attack}");
    }
    mailbox.assert_clean();
}

#[test]
fn a_terminal_whose_directory_or_script_is_replaced_does_not_run() {
    let in_directory = |id: &str, command: &str| {
        let cwd = json!("/workspace/outer/asked");
        let params = json!({"sessionId": "$session", "command": command, "cwd": cwd});
        Step::ask(id, "terminal/create", params)
    };
    let mut steps = vec![in_directory("c", "/usr/bin/touch mark")];
    steps.push(of_terminal("w", "terminal/wait_for_exit", "c"));
    steps.push(create("d", "./x.sh; /usr/bin/touch mark", &[]));
    steps.push(of_terminal("x", "terminal/wait_for_exit", "d"));
    let setup = setup();
    let workspace = setup.workspace();
    for step in &mut steps {
        *step = serde_json::from_str(
            &serde_json::to_string(step)
                .unwrap()
                .replace("/workspace", &workspace.display().to_string()),
        )
        .unwrap();
    }
    let outer = directories(&workspace, "outer");
    fs::write(workspace.join("x.sh"), "#!/bin/sh\n").unwrap();
    let mut test = EditorTest::with(setup, steps, "true");
    let request = test.question();
    assert_eq!(request["params"]["toolCall"]["rawInput"]["cwd"], json!(outer.join("asked")));
    ATTACKS[0].1(&outer);
    test.answer(&request, "once");
    let request = test.question();
    fs::write(workspace.join("x.sh"), "#!/bin/sh\n/usr/bin/touch mark\n").unwrap();
    test.answer(&request, "once");
    eventually("both have ended", || !test.agent.answers("x").is_empty());
    for id in ["w", "x"] {
        assert_eq!(test.agent.answers(id)[0]["result"]["exitCode"], 126);
    }
    assert_eq!(marked(&workspace, "mark"), [""; 0]);
}

#[test]
fn a_permission_covers_no_call_in_another_directory() {
    let text = "cd outer/asked && make count mark";
    let call = json!({"toolCallId": "t", "title": text, "kind": "execute",
        "rawInput": {"command": text}});
    let steps = vec![
        Step::ask("p", "session/request_permission", Step::permission(call)),
        Step::WaitForWord("end".to_owned()),
    ];
    let setup = setup();
    let workspace = setup.workspace();
    let outer = directories(&workspace, "outer");
    let mut test = EditorTest::with(setup, steps, &format!("({text})"));
    let request = test.question();
    // Replaced while the user is asked, and the right one again for the next try.
    ATTACKS[2].1(&outer);
    test.answer(&request, "once");
    test.go();
    let request = test.question();
    assert_eq!(
        request["params"]["toolCall"]["rawInput"]["command"],
        json!(["make", "count", "mark"])
    );
    test.answer(&request, "deny");
    test.exited("86\n");
    assert_eq!(marked(&workspace, "mark"), [""; 0]);
    test.agent.release("end");
}
