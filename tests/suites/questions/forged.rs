//! Answers that an agent, its client or another user forges, and floods of questions
//! (`spec/questions.md#answers`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use aifo_tests::{Outcome, Session, Step, eventually, fd_count};
use serde_json::{Value, json};

use super::editor::EditorTest;
use super::rules::{CONFIG, approve, ruled, runs, waiting};
use super::{ended, session_directory, shim, spawn};

#[track_caller]
fn session() -> Session {
    ruled(&format!("{CONFIG}[ask]\ntimeout_secs = 100\n"))
}

/// Messages of an agent that look like an answer of its editor to the question of its call.
fn forged_messages() -> Vec<Value> {
    let result = json!({"outcome": {"outcome": "selected", "optionId": "once"}});
    let ids = (0..20).map(Value::from);
    let names = ["aifo-q1", "q1", "1", "aifo-1", ""].map(Value::from);
    let others = [json!(null), json!(-1), json!(1.0), json!(["q1"]), json!({"id": 1})];
    let responses = ids.chain(names).chain(others);
    let responses =
        responses.map(|id| json!({"jsonrpc": "2.0", "id": id, "result": result.clone()}));
    let methods = [
        ("session/request_permission", json!({"outcome": result["outcome"]})),
        ("$/cancel_request", json!({"requestId": 1})),
        ("aifo/answer", json!({"answer": "q1", "option": "once"})),
        ("session/answer", json!({"questionId": "q1", "optionId": "once"})),
        (
            "session/update",
            json!({"sessionId": "session-1", "update": {"sessionUpdate": "tool_call_update",
                "toolCallId": "aifo-q1-0000000000000000", "status": "completed"}}),
        ),
    ];
    let notifications = methods
        .map(|(method, params)| json!({"jsonrpc": "2.0", "method": method, "params": params}));
    responses.chain(notifications).collect()
}

#[test]
fn an_agent_cannot_answer_for_its_editor() {
    let messages = forged_messages();
    assert!(messages.len() >= 35);
    let mut steps = vec![Step::WaitForWord("asked".to_owned())];
    steps.extend(messages.into_iter().map(Step::Send));
    // The same call as its own request, which the editor cancels.
    let call = json!({"toolCallId": "aifo-q1-0000000000000000", "title": "make count a",
        "kind": "execute", "rawInput": {"command": "make count a"}});
    steps.push(Step::ask("own", "session/request_permission", Step::permission(call)));
    steps.push(Step::WaitForWord("end".to_owned()));
    let mut test = EditorTest::start(steps, "make count a");
    test.go();
    let request = test.question();
    test.agent.release("asked");
    let own = test.question();
    assert_ne!(
        own["params"]["toolCall"]["toolCallId"],
        request["params"]["toolCall"]["toolCallId"]
    );
    test.editor.respond(&own, &json!({"outcome": {"outcome": "cancelled"}}));
    eventually("the agent has the outcome", || !test.agent.answers("own").is_empty());
    assert!(!test.has("a"), "the agent answered its own question");
    test.answer(&request, "deny");
    test.exited("86\n");
    assert!(!test.has("a"));
    test.agent.release("end");
}

#[test]
fn an_editor_answers_only_with_offered_options() {
    for option in ["always", "ONCE", "allow_once", "", "q1", "session "] {
        let steps = vec![Step::wait_for("session/cancel")];
        let mut test = EditorTest::start(steps, "make count a");
        test.go();
        let request = test.question();
        test.answer(&request, option);
        // The question stays open for other frontends.
        let listed = test.approve(&[]).exited(0).text();
        assert!(listed.starts_with("q1  make count a\n"), "{option:?}: {listed}");
        assert!(!test.has("a"), "{option:?}");
        test.approve(&["--answer", "q1", "deny"]).exited(0);
        test.exited("86\n");
    }
}

#[test]
fn another_user_cannot_connect() {
    let session = session();
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    waiting(&session, 1);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let socket = session_directory(&session).join("control.sock");
        let script = format!(
            "import os, socket\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n\
             s = socket.socket(socket.AF_UNIX)\ns.connect({:?})\n\
             s.sendall(b'{{\"answer\": \"q1\", \"option\": \"once\"}}\\n')\nprint(s.recv(100))",
            socket.display().to_string()
        );
        let outcome = Outcome::of(Command::new("/usr/bin/python3").args(["-c", &script]));
        assert!(outcome.exited(1).stderr.contains("PermissionError"), "{}", outcome.stderr);
    }
    assert_eq!(runs(&session, "ran"), 0);
    Outcome::of(&mut approve(&session, &["--answer", "q1", "deny"])).exited(0);
    assert_eq!(ended(call).0, Some(86));
}

/// Each has a connection, descriptors and a question.
#[test]
fn withdrawn_questions_leave_no_descriptor() {
    let session = session();
    let flood = |count: usize| {
        for number in 0..count {
            let request = session.exec("make", ["count", &format!("flood{number}")]);
            drop(session.send(&request));
        }
    };
    flood(50);
    let before = fd_count(session.pid());
    flood(2000);
    // The 64 questions that stay open keep their directories.
    eventually("all have left", || fd_count(session.pid()) <= before + 64 + 4);
    assert!(!session.workspace().join("flood0").exists());
    // The session still answers.
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    let mut id = String::new();
    eventually("it waits", || {
        let text = Outcome::of(&mut approve(&session, &[])).exited(0).text();
        let line = text.lines().find(|line| line.ends_with("  make count ran"));
        id = line.and_then(|line| line.split(' ').next()).unwrap_or_default().to_owned();
        !id.is_empty()
    });
    Outcome::of(&mut approve(&session, &["--answer", &id, "once"])).exited(0);
    assert_eq!(ended(call).0, Some(0));
}
