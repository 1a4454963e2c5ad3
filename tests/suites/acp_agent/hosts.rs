//! Requests of an agent for files and terminals.

use std::fs;
use std::os::unix::fs::symlink;

use aifo_tests::{Awaited, Step, binaries};
use serde_json::{Value, json};

use crate::acp_agent::requests::answer;
use crate::acp_agent::{PromptTest, turn};

/// A request for a file, with its id.
pub(crate) fn file(id: &str, method: &str, path: &str, content: &str) -> Step {
    Step::ask(id, method, json!({"sessionId": "$session", "path": path, "content": content}))
}

/// A request for the terminal that the request `create` created.
fn of_terminal(method: &str) -> Step {
    let terminal =
        json!({"sessionId": "$session", "terminalId": "$answer:create/result/terminalId"});
    Step::ask(method, method, terminal)
}

/// An agent that uses files and terminals, with steps that depend on the workspace path.
fn test(steps: impl FnOnce(&str) -> Vec<Step>) -> PromptTest {
    let test = PromptTest::with(&turn([]));
    let dir = test.setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), PROFILE).unwrap();
    let workspace = test.setup.workspace().into_os_string().into_string().unwrap();
    let steps = [steps(&workspace), vec![Step::stop("end_turn")]].concat();
    test.agent.plays(&turn(steps));
    test
}

pub(crate) const PROFILE: &str = r#"
[agents.aifo-test-agent]
image = "none:1"
command = ["aifo-test-agent"]

[agents.aifo-test-agent.acp]
command = ["aifo-test-agent"]
fs = true
terminal = true
"#;

#[test]
fn files_of_the_workspace_are_read_and_written() {
    let test = test(|workspace| {
        let path = format!("{workspace}/new/file");
        vec![
            file("w", "fs/write_text_file", &path, "one\ntwo\n"),
            file("r", "fs/read_text_file", &path, ""),
        ]
    });
    test.ask(&[]).answered("");
    assert_eq!(fs::read_to_string(test.setup.workspace().join("new/file")).unwrap(), "one\ntwo\n");
    assert_eq!(answer(&test.agent, "r")["result"]["content"], "one\ntwo\n");
    assert!(answer(&test.agent, "w").get("error").is_none());
}

#[test]
fn nothing_outside_of_the_workspace_is_touched() {
    let test = test(|workspace| {
        let outside = [
            "/etc/passwd".to_owned(),
            "relative".to_owned(),
            format!("{workspace}/../secret"),
            format!("{workspace}-evil/secret"),
            format!("{workspace}/link"),
            format!("{workspace}/directory/secret"),
        ];
        let both = |path: &String| {
            let id = |what: &str| format!("{what} {path}");
            [
                file(&id("r"), "fs/read_text_file", path, ""),
                file(&id("w"), "fs/write_text_file", path, "owned"),
            ]
        };
        outside.iter().flat_map(both).collect()
    });
    let (workspace, scratch) = (test.setup.workspace(), test.setup.scratch());
    let evil = scratch.join("workspace-evil");
    fs::create_dir(&evil).unwrap();
    let secrets = [scratch.join("secret"), evil.join("secret")];
    secrets.iter().for_each(|path| fs::write(path, "hunter2").unwrap());
    symlink(&secrets[0], workspace.join("link")).unwrap();
    symlink(scratch, workspace.join("directory")).unwrap();
    test.ask(&[]).answered("");
    let answers: Vec<Value> = test.agent.received();
    let answers: Vec<&Value> = answers.iter().filter(|message| message["id"].is_string()).collect();
    assert_eq!(answers.len(), 12);
    for answer in answers {
        assert!(answer["error"]["code"].is_i64(), "{answer}");
        assert!(!answer.to_string().contains("hunter2"));
    }
    for path in secrets {
        assert_eq!(fs::read_to_string(path).unwrap(), "hunter2");
    }
}

#[test]
fn a_terminal_runs_a_command() {
    let test = test(|_| {
        let command = json!({"sessionId": "$session", "command": "/bin/sh",
            "args": ["-c", "echo out; echo err >&2; exit 3"]});
        vec![
            Step::ask("create", "terminal/create", command),
            of_terminal("terminal/wait_for_exit"),
            of_terminal("terminal/output"),
            of_terminal("terminal/release"),
        ]
    });
    test.ask(&[]).answered("");
    assert_eq!(answer(&test.agent, "terminal/wait_for_exit")["result"]["exitCode"], 3);
    let output = answer(&test.agent, "terminal/output");
    assert_eq!(output["result"]["output"], "out\nerr\n");
    assert_eq!(output["result"]["truncated"], false);
    assert!(answer(&test.agent, "terminal/release").get("error").is_none());
}

#[test]
fn a_terminals_command_ends_with_the_agent() {
    let test = test(|_| Vec::new());
    let command = json!({"sessionId": "$session", "command": binaries().agent,
        "args": [test.agent.dir(), "agents"]});
    let terminal =
        json!({"sessionId": "$session", "terminalId": "$answer:create/result/terminalId"});
    let steps = [
        Step::ask("create", "terminal/create", command),
        Step::request("wait", "terminal/wait_for_exit", terminal),
        Step::WaitForWord("up".into()),
        Step::say("bye"),
        Step::stop("end_turn"),
        Step::WaitFor(Awaited::End),
    ];
    test.agent.plays(&turn(steps));
    let running = aifo_tests::Running::start(&mut test.prompt(&[]));
    aifo_tests::eventually("the command runs", || test.agent.alive().len() == 2);
    test.agent.release("up");
    test.result(running.finish()).answered("bye");
}
