//! A rule applies to permission requests, to commands and to files in the same way
//! (`spec/acp.md#rules`, `spec/acp.md#entries`).

use std::fs;
use std::os::unix::fs::symlink;

use aifo_tests::Step;
use serde_json::{Value, json};

use crate::acp_agent::hosts::{PROFILE, file};
use crate::acp_agent::requests::answer;
use crate::acp_agent::{PromptTest, turn};

/// A kind of request.
enum Entry {
    /// `session/request_permission` for a call of this kind and input.
    Asks(&'static str, Value),
    /// `terminal/create`
    Runs(Value),
    /// `fs/read_text_file`
    Reads(&'static str),
    /// `fs/write_text_file`
    Writes(&'static str),
}

use Entry::{Asks, Reads, Runs, Writes};

impl Entry {
    fn steps(&self, index: usize, workspace: &str) -> Vec<Step> {
        let id = index.to_string();
        let within = |value: &Value| {
            let text = value.to_string().replace("\"@", &format!("\"{workspace}"));
            serde_json::from_str::<Value>(&text).unwrap()
        };
        match self {
            Asks(kind, input) => {
                let call = json!({"toolCallId": id, "title": "x", "kind": kind,
                    "rawInput": within(input)});
                vec![Step::ask(id, "session/request_permission", Step::permission(call))]
            }
            Runs(params) => {
                let mut params = within(params);
                params["sessionId"] = json!("$session");
                let terminal = json!({"sessionId": "$session",
                    "terminalId": format!("$answer:{id}/result/terminalId")});
                let ends =
                    Step::ask(format!("end {id}"), "terminal/wait_for_exit", terminal.clone());
                let shows = Step::ask(format!("output {id}"), "terminal/output", terminal);
                vec![Step::ask(id, "terminal/create", params), ends, shows]
            }
            Reads(path) => vec![file(&id, "fs/read_text_file", &format!("{workspace}/{path}"), "")],
            Writes(path) => {
                vec![file(&id, "fs/write_text_file", &format!("{workspace}/{path}"), "new")]
            }
        }
    }

    /// Returns whether a rule denied it.
    fn is_denied(&self, test: &PromptTest, index: usize) -> bool {
        let id = index.to_string();
        match self {
            Asks(..) => {
                let outcome = &answer(&test.agent, &id)["result"]["outcome"];
                match outcome["optionId"].as_str() {
                    Some("once") => false,
                    Some("no") => true,
                    _ => panic!("{outcome}"),
                }
            }
            Runs(_) => {
                let output = answer(&test.agent, &format!("output {id}"));
                let output = output["result"]["output"].as_str().unwrap().to_owned();
                output.contains("denied by policy")
            }
            Reads(_) | Writes(_) => {
                let answer = answer(&test.agent, &id);
                answer["error"].to_string().contains("denied by policy")
            }
        }
    }
}

const ALL: &str = "kind = '*'\nthen = 'allow'";

/// A workspace with a repository, links into it, and a program `make`.
fn test(rules: &[&str], entries: &[(Entry, bool)]) -> PromptTest {
    let test = PromptTest::with(&turn([]));
    let dir = test.setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&dir).unwrap();
    let rules: String = rules.iter().map(|rule| format!("[[rule]]\n{rule}\n")).collect();
    fs::write(dir.join("config.toml"), format!("{rules}{PROFILE}")).unwrap();
    let workspace = test.setup.workspace();
    fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    fs::create_dir_all(workspace.join("src")).unwrap();
    fs::write(workspace.join(".git/config"), "old").unwrap();
    fs::write(workspace.join("src/a"), "old").unwrap();
    symlink(".git/config", workspace.join("file-link")).unwrap();
    symlink("../.git", workspace.join("src/link")).unwrap();
    let workspace = workspace.into_os_string().into_string().unwrap();
    let steps = entries.iter().enumerate();
    let steps = steps.flat_map(|(index, (entry, _))| entry.steps(index, &workspace));
    test.agent.plays(&turn(steps.chain([Step::stop("end_turn")]).collect::<Vec<_>>()));
    test
}

#[track_caller]
fn check(rules: &[&str], entries: &[(Entry, bool)]) -> PromptTest {
    let test = test(rules, entries);
    test.ask(&[]).answered("");
    for (index, (entry, denied)) in entries.iter().enumerate() {
        assert_eq!(entry.is_denied(&test, index), *denied, "{rules:?}: entry {index}");
    }
    test
}

#[test]
fn a_denied_command_is_denied_at_every_entry_and_in_every_spelling() {
    let asks = |input| Asks("execute", input);
    let compound = "cd . && make CC=gcc";
    check(
        &[ALL, "kind = '*'\nrun = 'make CC=gcc'\nexact = true\nthen = 'deny'"],
        &[
            (asks(json!({"command": "make CC=gcc"})), true),
            (asks(json!({"command": ["make", "CC=gcc"]})), true),
            (asks(json!({"command": "make", "args": ["CC=gcc"]})), true),
            (asks(json!({"command": ["bash", "-lc", "make  'CC=gcc'"]})), true),
            (asks(json!({"command": ["/bin/sh", "-l", "-c", "make CC=gcc"]})), true),
            (asks(json!({"command": compound})), true),
            (asks(json!({"command": "make CC=gcc", "cmd": "true"})), true),
            (asks(json!({"command": "make CC=clang"})), false),
            (Runs(json!({"command": "make", "args": ["CC=gcc"]})), true),
            (Runs(json!({"command": "make CC=gcc"})), true),
            (Runs(json!({"command": "bash", "args": ["-lc", "make CC=gcc"]})), true),
            (Runs(json!({"command": "/bin/dash", "args": ["-l", "-c", "make CC=gcc"]})), true),
            (Runs(json!({"command": "bash -c 'make CC=gcc'"})), true),
            (Runs(json!({"command": compound})), true),
            (Runs(json!({"command": "echo", "args": ["make CC=gcc"]})), false),
        ],
    );
}

#[test]
fn a_denied_path_is_denied_at_every_entry_and_behind_every_link() {
    let edits = |path: &str| Asks("edit", json!({"path": path}));
    let test = check(
        &[ALL, "path = '.git'\nthen = 'deny'"],
        &[
            (edits("@/.git/config"), true),
            (edits("@/file-link"), true),
            (edits("src/link/new"), true),
            (edits("@/src/a"), false),
            (Writes(".git/config"), true),
            (Writes(".git/new/er"), true),
            (Writes("src/../.git/config"), true),
            (Writes("src/link/config"), true),
            (Writes("src/link/new/er"), true),
            (Writes("src/a"), false),
            (Reads(".git/config"), true),
            (Reads("file-link"), true),
            (Reads("src/link/config"), true),
            (Reads("src/a"), false),
            (Runs(json!({"command": "true", "cwd": "@/.git"})), true),
            (Runs(json!({"command": "true", "cwd": "@/src/link/hooks"})), true),
            (Runs(json!({"command": "true", "cwd": "@/src"})), false),
        ],
    );
    let workspace = test.setup.workspace();
    assert_eq!(fs::read_to_string(workspace.join(".git/config")).unwrap(), "old");
    assert!(!workspace.join(".git/new").exists(), "no file is created");
    assert_eq!(fs::read_to_string(workspace.join("src/a")).unwrap(), "new");
}

#[test]
fn a_denied_kind_is_denied_at_every_entry() {
    check(
        &[ALL, "kind = ['edit', 'execute']\nthen = 'deny'"],
        &[
            (Asks("edit", json!({"path": "src/a"})), true),
            (Asks("read", json!({"path": "src/a"})), false),
            (Writes("src/a"), true),
            (Reads("src/a"), false),
            (Runs(json!({"command": "true"})), true),
        ],
    );
}

#[test]
fn only_what_is_all_of_a_command_is_allowed() {
    let asks = |input| Asks("execute", json!({"command": input}));
    check(
        &[
            "kind = 'read'\nthen = 'allow'",
            "kind = '*'\nrun = 'make x'\nexact = true\nthen = 'allow'",
            "kind = 'edit'\npath = 'src'\nthen = 'allow'",
        ],
        &[
            (asks(json!("make x")), false),
            (asks(json!(["make", "x"])), false),
            (asks(json!(["bash", "-lc", "make x"])), false),
            (asks(json!(["bash", "-l", "-c", "make x"])), false),
            (asks(json!("make x; rm y")), true),
            (asks(json!("make x > y")), true),
            (asks(json!("make x\nrm y")), true),
            (asks(json!("A=1 make x")), true),
            (asks(json!("make x $(rm y)")), true),
            (asks(json!(["bash", "-lc", "make x", "y"])), true),
            (asks(json!(["/tmp/bash", "-lc", "make x"])), true),
            (Asks("read", json!({"path": "src/a"})), false),
            (Asks("read", json!({"path": "src/a", "command": "rm y"})), true),
            (Asks("read", json!({"path": "src/a", "command": "a", "cmd": "b"})), true),
            (Asks("edit", json!({"path": "src/a"})), false),
            (Asks("edit", json!({"path": "src/a", "command": "str_replace"})), false),
            (Asks("edit", json!({"path": "src/a", "command": "make"})), true),
            (Asks("execute", json!({"path": "src/a", "command": "view"})), true),
            (Asks("edit", json!({"path": "src/link/config"})), true),
        ],
    );
}
