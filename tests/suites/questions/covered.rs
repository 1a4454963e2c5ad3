//! One question for a command and the calls that it runs (`spec/questions.md#answers`).

use std::fs;

use aifo_tests::{Step, eventually};
use serde_json::{Value, json};

use super::editor::{EditorTest, create, of_terminal, setup};

/// The number of questions so far.
fn asked(test: &EditorTest) -> usize {
    let received = test.editor.received();
    received.iter().filter(|it| it["method"] == "session/request_permission").count()
}

#[test]
fn a_wrapper_is_asked_once_with_the_call_that_it_runs() {
    let rows: [(&str, &[&str]); 3] = [
        ("env", &["A=1", "make", "count", "a"]),
        ("timeout 9 nice make count b", &[]),
        ("sh", &["-c", "cd sub && env make count ../c"]),
    ];
    let mut steps = Vec::new();
    for (number, (command, args)) in rows.iter().enumerate() {
        let id = format!("c{number}");
        steps.push(create(&id, command, args));
        steps.push(of_terminal(&format!("w{number}"), "terminal/wait_for_exit", &id));
    }
    steps.push(create("d", "env", &["make", "count", "d"]));
    steps.push(of_terminal("x", "terminal/wait_for_exit", "d"));
    steps.push(Step::WaitForWord("end".to_owned()));
    let setup = setup();
    fs::create_dir(setup.workspace().join("sub")).unwrap();
    let mut test = EditorTest::with(setup, steps, "make count d");
    for (number, (command, _)) in rows.iter().enumerate() {
        let request = test.question();
        let title = request["params"]["toolCall"]["title"].to_string();
        assert!(title.contains(command.split(' ').next().unwrap()), "{title}");
        test.answer(&request, "once");
        eventually("it ends", || !test.agent.answers(format!("w{number}")).is_empty());
    }
    assert!(test.has("a") && test.has("b") && test.has("c"));
    // A denied one covers nothing.
    let request = test.question();
    test.answer(&request, "deny");
    eventually("it ends", || !test.agent.answers("x").is_empty());
    test.go();
    let request = test.question();
    assert_eq!(request["params"]["toolCall"]["rawInput"]["command"], json!(["make", "count", "d"]));
    test.answer(&request, "deny");
    test.exited("86\n");
    assert!(!test.has("d"));
    assert_eq!(asked(&test), rows.len() + 2);
    test.agent.release("end");
}

#[test]
fn an_allowed_permission_covers_the_calls_of_the_agents_own_shell() {
    let text = "timeout 9 make count a && env make count b";
    // gemini sends the command as the title only.
    for input in [json!({"command": text}), json!(null)] {
        covers_the_calls_of_the_agents_own_shell(text, &input);
    }
}

#[track_caller]
fn covers_the_calls_of_the_agents_own_shell(text: &str, input: &Value) {
    let call = json!({"toolCallId": "t", "title": text, "kind": "execute", "rawInput": input});
    let steps = vec![
        Step::ask("p", "session/request_permission", Step::permission(call)),
        Step::WaitForWord("ran".to_owned()),
        create("c", text, &[]),
        of_terminal("w", "terminal/wait_for_exit", "c"),
    ];
    let mut test = EditorTest::start(steps, &format!("({text}); make count a"));
    let request = test.question();
    test.answer(&request, "once");
    test.go();
    // The last call is another run.
    let request = test.question();
    assert_eq!(request["params"]["toolCall"]["rawInput"]["command"], json!(["make", "count", "a"]));
    assert!(test.has("b"), "the calls of the text have run");
    test.answer(&request, "deny");
    test.exited("86\n");
    // So is a terminal.
    test.agent.release("ran");
    let request = test.question();
    assert_eq!(request["params"]["toolCall"]["rawInput"]["command"], json!(["sh", "-c", text]));
    test.answer(&request, "deny");
    eventually("it ends", || !test.agent.answers("w").is_empty());
    let runs = ["a", "b"].map(|name| test.file(name).lines().count());
    assert_eq!(runs, [1, 1]);
    assert_eq!(asked(&test), 3);
}

#[test]
fn a_title_that_hides_the_command_covers_nothing() {
    let long = format!("make count a{}", " ".repeat(400));
    let rows = [
        ("ls\nmake count a", json!(null), "execute"),
        ("ls \u{202e}; make count a", json!(null), "execute"),
        (long.as_str(), json!(null), "execute"),
        ("Run make count a", json!(null), "execute"),
        ("make count a", json!(null), "other"),
        ("make count a", json!({"command": "ls"}), "execute"),
        ("make count a", json!({"description": "x"}), "execute"),
    ];
    for (title, input, kind) in rows {
        let call = json!({"toolCallId": "t", "title": title, "kind": kind, "rawInput": input});
        let steps = vec![
            Step::ask("p", "session/request_permission", Step::permission(call)),
            Step::WaitForWord("end".to_owned()),
        ];
        let mut test = EditorTest::start(steps, "make count a");
        let request = test.question();
        test.answer(&request, "once");
        test.go();
        let request = test.question();
        let asked = &request["params"]["toolCall"]["rawInput"]["command"];
        assert_eq!(asked, &json!(["make", "count", "a"]), "{title:?} {input}");
        test.answer(&request, "deny");
        test.exited("86\n");
        test.agent.release("end");
    }
}
