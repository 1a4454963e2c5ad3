//! Editors that disconnect while a turn runs or ends.

use aifo_tests::{AcpAgent, Editor, Group, Script, SessionSetup, Signal, Step, eventually};
use serde_json::json;

use crate::acp_agent::requests::answer;
use crate::acp_agent::turn;

#[test]
fn an_option_to_serve_overrides_the_agents_profile() {
    let setup = SessionSetup::new();
    let file = setup.workspace().join("a");
    std::fs::write(&file, "text").unwrap();
    let read = json!({"sessionId": "$session", "path": file});
    let asks = vec![Step::ask("r", "fs/read_text_file", read), Step::stop("end_turn")];
    let agent = AcpAgent::new(&turn(asks));
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local", "--files", "aifo"]);
    coder.args(["--agent-command", &agent.command_line()]);
    let mut editor = Editor::start(&mut coder);
    let initialize = editor.request("initialize", &json!({"protocolVersion": 1}));
    editor.response(initialize).unwrap();
    let cwd = setup.workspace();
    let opened = editor.request("session/new", &json!({"cwd": cwd, "mcpServers": []}));
    let session = editor.response(opened).unwrap()["sessionId"].clone();
    let prompt = json!([{"type": "text", "text": "go"}]);
    let prompt = editor.request("session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    editor.response(prompt).unwrap();
    assert_eq!(answer(&agent, "r")["result"]["content"], "text");
}

/// An editor and an agent with a session, without sidecars.
#[track_caller]
fn with_session(setup: &SessionSetup, agent: &AcpAgent, options: &[&str]) -> Editor {
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local"]).args(options);
    coder.args(["--agent-command", &agent.command_line()]);
    let mut editor = Editor::start(&mut coder);
    let initialize = editor.request("initialize", &json!({"protocolVersion": 1}));
    editor.response(initialize).unwrap();
    let opened =
        editor.request("session/new", &json!({"cwd": setup.workspace(), "mcpServers": []}));
    editor.response(opened).unwrap();
    editor
}

#[test]
fn an_editor_that_leaves_between_turns_leaves_no_request_unanswered() {
    let call = json!({"toolCallId": "t", "title": "make", "kind": "execute"});
    let sleeps = json!({"sessionId": "$session", "command": "/bin/sleep", "args": ["1000"]});
    let id = json!({"sessionId": "$session", "terminalId": "$answer:c/result/terminalId"});
    let agent = AcpAgent::new(&turn([
        Step::ask("c", "terminal/create", sleeps),
        Step::request("w", "terminal/wait_for_exit", id),
        Step::stop("end_turn"),
        Step::request("p", "session/request_permission", Step::permission(call)),
        Step::request("e", "elicitation/create", json!({"sessionId": "$session"})),
    ]));
    let setup = SessionSetup::new();
    let mut editor = with_session(&setup, &agent, &["--terminals", "aifo"]);
    let prompt = json!([{"type": "text", "text": "go"}]);
    let prompt =
        editor.request("session/prompt", &json!({"sessionId": "session-1", "prompt": prompt}));
    editor.response(prompt).unwrap();
    editor.wait_for("the last request", |message| message["method"] == "elicitation/create");
    editor.finish().exited(0);
    let cancelled = json!({"outcome": {"outcome": "cancelled"}});
    assert_eq!(answer(&agent, "p")["result"], cancelled);
    for id in ["w", "e"] {
        let answer = answer(&agent, id);
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
    }
    assert_eq!(agent.alive(), [0; 0]);
}

/// Starts a prompt of an agent whose requests the editor serves.
fn served_by_the_editor(setup: &SessionSetup, agent: &AcpAgent, options: &[&str]) -> Editor {
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local", "--files", "editor"]).args(options);
    coder.args(["--agent-command", &agent.command_line()]);
    let mut editor = Editor::start(&mut coder);
    let able = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    let init = json!({"protocolVersion": 1, "clientCapabilities": able});
    let initialize = editor.request("initialize", &init);
    editor.response(initialize).unwrap();
    let opened =
        editor.request("session/new", &json!({"cwd": setup.workspace(), "mcpServers": []}));
    editor.response(opened).unwrap();
    let prompt = json!([{"type": "text", "text": "go"}]);
    editor.request("session/prompt", &json!({"sessionId": "session-1", "prompt": prompt}));
    editor
}

#[test]
fn an_editor_gets_no_path_through_a_link_out_of_the_workspace() {
    let setup = SessionSetup::new();
    let (workspace, home) = (setup.workspace(), setup.scratch().join("home"));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join(".bashrc"), "").unwrap();
    std::fs::create_dir(workspace.join("src")).unwrap();
    let links =
        [("out", home.to_str().unwrap()), ("up", "../.."), ("in", "src"), ("none", "src/no")];
    for (link, target) in links {
        std::os::unix::fs::symlink(target, workspace.join(link)).unwrap();
    }
    let outside = ["out/.bashrc", "out/new", "up/x", "none", "../x"];
    let write = |id: &str, path: &str| {
        let path = workspace.join(path);
        let params = json!({"sessionId": "$session", "path": path, "content": ""});
        Step::ask(id, "fs/write_text_file", params)
    };
    let mut steps: Vec<Step> = outside.iter().map(|path| write(path, path)).collect();
    steps.extend([write("last", "in/new/file"), Step::stop("end_turn")]);
    let agent = AcpAgent::new(&turn(steps));
    let mut editor = served_by_the_editor(&setup, &agent, &[]);
    let sent = editor.wait_for("a request", |message| message["method"] == "fs/write_text_file");
    let workspace = workspace.canonicalize().unwrap();
    assert_eq!(sent["params"]["path"], json!(workspace.join("src/new/file")));
    editor.respond(&sent, &json!(null));
    editor.finish().exited(0);
    for id in outside {
        assert!(answer(&agent, id)["error"]["code"].is_i64(), "{id}: {}", answer(&agent, id));
    }
    assert_eq!(answer(&agent, "last")["result"], json!(null));
}

#[test]
fn a_request_outside_of_the_schema_needs_to_be_allowed() {
    let steps = vec![
        Step::ask("no", "_vendor/run", json!({"command": "sh"})),
        Step::ask("yes", "_vendor/show", json!({})),
        Step::stop("end_turn"),
    ];
    let (setup, agent) = (SessionSetup::new(), AcpAgent::new(&turn(steps)));
    let mut editor = served_by_the_editor(&setup, &agent, &["--allow-request", "_vendor/show"]);
    let sent = editor.wait_for("a request", |message| {
        message["method"].as_str().is_some_and(|method| method.starts_with("_vendor/"))
    });
    assert_eq!(sent["method"], "_vendor/show");
    editor.respond(&sent, &json!({"shown": true}));
    editor.finish().exited(0);
    assert_eq!(answer(&agent, "no")["error"]["code"], -32601);
    assert_eq!(answer(&agent, "yes")["result"]["shown"], true);
}

#[test]
fn an_agent_of_a_later_version_is_refused() {
    let agent = AcpAgent::new(
        &Script::conforming().on("initialize", [Step::Answer(json!({"protocolVersion": 2}))]),
    );
    let setup = SessionSetup::new();
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local", "--agent-command", &agent.command_line()]);
    let mut editor = Editor::start(&mut coder);
    let initialize = editor.request("initialize", &json!({"protocolVersion": 2}));
    let error = editor.response(initialize).unwrap_err();
    let text = error["message"].as_str().unwrap();
    assert!(text.contains("version 2") && text.contains("\nhint: "), "{error}");
    assert_eq!(agent.received_of("initialize")[0]["params"]["protocolVersion"], 1);
    editor.finish().exited(0);
}

#[test]
fn term_ends_an_agent_at_once_that_takes_its_time_to_end() {
    let stays = [Step::IgnoreSignals, Step::Spawn(Group::Agents), Step::Hang];
    let agent = AcpAgent::new(&Script::conforming().at_end(stays));
    let setup = SessionSetup::new();
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local", "--agent-command", &agent.command_line()]);
    let mut editor = Editor::start(&mut coder);
    let initialize = editor.request("initialize", &json!({"protocolVersion": 1}));
    editor.response(initialize).unwrap();
    editor.close_stdin();
    eventually("the agent does not end", || agent.pids().len() == 2);
    // Without TERM, the agent would be killed after the deadline.
    assert_eq!(editor.end_by(Signal::SIGTERM).code(), Some(128 + 15));
    assert_eq!(agent.alive(), [0; 0]);
}
