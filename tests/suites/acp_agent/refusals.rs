//! Editors whose agent cannot be started.
//!
//! Proves `spec/acp-commands.md#acp`, `spec/acp-commands.md#failures`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aifo_tests::{AcpAgent, Editor, Outcome, Script, SessionSetup, Step};
use serde_json::{Value, json};

/// Starts it and expects that `initialize` fails with this reason and remedy, in the message, in
/// the data and on stderr.
#[track_caller]
fn check(coder: &mut Command, code: i32, reason: &str, remedy: &str) {
    let mut editor = Editor::start(coder);
    let early = editor.request("session/list", &json!({}));
    let introduced = editor.request("initialize", &json!({"protocolVersion": 1}));
    let error = editor.response(early).unwrap_err();
    assert_eq!(editor.response(introduced).unwrap_err(), error);
    assert_eq!(error["code"], -32603, "{error}");
    let text = error["message"].as_str().unwrap();
    assert!(text.contains(reason) && text.contains(remedy), "{text}");
    assert!(error["data"]["details"].as_str().unwrap().contains(reason), "{error}");
    assert!(error["data"]["hint"].as_str().unwrap_or_default().contains(remedy), "{error}");
    // The process ends by itself.
    let ended = editor.wait_for_end();
    ended.exited(code);
    assert!(ended.stderr.contains(reason) && ended.stderr.contains(remedy), "{ended:?}");
}

fn acp(setup: &SessionSetup, args: &[&str]) -> Command {
    let mut coder = setup.coder();
    coder.arg("acp").args(args);
    coder
}

#[test]
fn the_reason_is_the_answer_to_initialize() {
    let setup = SessionSetup::new();
    let rows: [(&[&str], i32, &str, &str); 4] = [
        (&["--backend", "local", "nosuch"], 2, "nosuch", "aifo-coder agents"),
        (&["--backend", "nosuch", "gemini"], 2, "nosuch", ""),
        (&["--backend", "local", "--agent-command", "/no/such"], 86, "cannot start '/no/such'", ""),
        (&["--backend", "docker", "gemini"], 86, "docker", ""),
    ];
    for (args, code, reason, remedy) in rows {
        let mut coder = acp(&setup, args);
        coder.env("DOCKER_HOST", "unix:///no/such.sock");
        check(&mut coder, code, reason, remedy);
    }
    fs::write(setup.workspace().join(".aifo.toml"), "nonsense = 1\n").unwrap();
    check(&mut acp(&setup, &["--backend", "local", "gemini"]), 86, "nonsense", "known keys");
}

#[test]
fn a_workspace_that_is_taken_is_a_reason() {
    let setup = SessionSetup::new();
    let agent = AcpAgent::new(&Script::conforming());
    let dir = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), PROFILE).unwrap();
    let line = agent.command_line();
    let args = ["--backend", "local", "--agent-command", &line];
    let mut first = Editor::start(&mut acp(&setup, &args));
    let introduced = first.request("initialize", &json!({"protocolVersion": 1}));
    first.response(introduced).unwrap();
    check(&mut acp(&setup, &args), 86, "workspace", "--force-share");
    first.finish().exited(0);
}

const PROFILE: &str = "\
[agents.aifo-test-agent]
command = [\"aifo-test-agent\"]
[agents.aifo-test-agent.acp]
command = [\"aifo-test-agent\"]
";

#[test]
fn ids_come_back_as_they_were_and_nothing_else_is_answered() {
    let setup = SessionSetup::new();
    let mut coder = acp(&setup, &["--backend", "local", "nosuch"]);
    let mut child = coder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let said = "\u{feff}[{\"method\":\"a\"},{\"id\":\"x\",\"method\":\"b\"}]\nnoise\n{\"id\":7,\"result\":{}}\n\
        {\"id\":\"\\ud800\",\"method\":\"initialize\"}\n";
    stdin.write_all(said.as_bytes()).unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let answers: Vec<Value> =
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, ["x", "\u{fffd}"], "{answers:?}");
    assert_eq!(child.wait().unwrap().code(), Some(2), "although its stdin is open");
}

#[test]
fn an_editor_that_says_nothing_is_not_waited_for_long() {
    let setup = SessionSetup::new();
    let args = ["--backend", "local", "nosuch"];
    Outcome::of(&mut acp(&setup, &args)).exited(2);
    let mut child = acp(&setup, &args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn an_agent_that_ends_at_once_is_a_reason() {
    let agent = AcpAgent::new(&Script::conforming().at_start([Step::Stderr(3), Step::Exit(3)]));
    let setup = SessionSetup::new();
    let args = ["--backend", "local", "--agent-command", &agent.command_line()];
    let mut editor = Editor::start(&mut acp(&setup, &args));
    aifo_tests::eventually("it has ended", || !agent.pids().is_empty() && agent.alive().is_empty());
    let introduced = editor.request("initialize", &json!({"protocolVersion": 1}));
    let error = editor.response(introduced).unwrap_err();
    let text = error["message"].as_str().unwrap();
    assert!(text.contains("exit status 3"), "{text}");
    editor.wait_for_end().exited(1);
}
