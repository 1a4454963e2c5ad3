//! An editor that has left, and then has no more time.

use aifo_tests::{AcpAgent, Editor, Group, Script, Setup, Signal, Step, eventually};
use serde_json::json;

use crate::requests::answer;
use crate::turn;

#[test]
fn who_is_told_to_serve_serves_whatever_the_profile_says() {
    let setup = Setup::new();
    let file = setup.workspace().join("a");
    std::fs::write(&file, "text").unwrap();
    let read = json!({"sessionId": "$session", "path": file});
    let asks = vec![Step::ask("r", "fs/read_text_file", read), Step::stop("end_turn")];
    let agent = AcpAgent::new(&turn(asks));
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local", "--files", "aifo"]);
    coder.args(["--agent-command", &agent.command_line()]);
    let mut editor = Editor::start(&mut coder);
    let introduced = editor.request("initialize", &json!({"protocolVersion": 1}));
    editor.response(introduced).unwrap();
    let cwd = setup.workspace();
    let opened = editor.request("session/new", &json!({"cwd": cwd, "mcpServers": []}));
    let session = editor.response(opened).unwrap()["sessionId"].clone();
    let prompt = json!([{"type": "text", "text": "go"}]);
    let prompted =
        editor.request("session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    editor.response(prompted).unwrap();
    assert_eq!(answer(&agent, "r")["result"]["content"], "text");
}

#[test]
fn term_ends_an_agent_at_once_that_takes_its_time_to_end() {
    let stays = [Step::IgnoreSignals, Step::Spawn(Group::Agents), Step::Hang];
    let agent = AcpAgent::new(&Script::polite().at_end(stays));
    let setup = Setup::new();
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local", "--agent-command", &agent.command_line()]);
    let mut editor = Editor::start(&mut coder);
    let introduced = editor.request("initialize", &json!({"protocolVersion": 1}));
    editor.response(introduced).unwrap();
    editor.close_stdin();
    eventually("the agent does not end", || agent.pids().len() == 2);
    // Without TERM it would be killed in the end, and the editor have gone.
    assert_eq!(editor.end_by(Signal::SIGTERM).code(), Some(128 + 15));
    assert_eq!(agent.alive(), [0; 0]);
}
