//! `prompt` and `acp` in a pod (`spec/kubernetes.md#agents-over-acp`).

use std::fs;
use std::path::Path;

use aifo_tests::{
    AcpAgent, Editor, Outcome, Running, Script, Signal, Step, Terminal, eventually, send_signal,
};
use serde_json::{Value, json};

use super::Cluster;

impl Cluster {
    /// An ACP agent in a pod whose workspace is uploaded.
    fn agent(&self, command: &str, agent: &AcpAgent, flags: &[&str]) -> std::process::Command {
        let line = agent.command_line();
        let words = [command, "--backend", "kubernetes", "--image", "i", "--toolchain", "rust"];
        self.coder(&[&words[..], &["--agent-command", &line], flags].concat())
    }

    /// The path of the workspace in the pod.
    fn pods(&self, path: &str) -> String {
        self.directory.join("files").join(path).to_str().unwrap().to_owned()
    }

    fn own(&self, path: &str) -> String {
        let workspace = self.setup.workspace().canonicalize().unwrap();
        workspace.join(path).to_str().unwrap().to_owned()
    }
}

fn turn(steps: impl Into<Vec<Step>>) -> Script {
    Script::conforming().on("session/prompt", steps)
}

#[track_caller]
fn open(editor: &mut Editor, cwd: &str) -> Value {
    let initialize = editor.request("initialize", &json!({"protocolVersion": 1}));
    editor.response(initialize).unwrap();
    let opened = editor.request("session/new", &json!({"cwd": cwd, "mcpServers": []}));
    editor.response(opened).unwrap()["sessionId"].clone()
}

fn prompt(editor: &mut Editor, session: &Value) -> i64 {
    let text = json!([{"type": "text", "text": "go"}]);
    editor.request("session/prompt", &json!({"sessionId": session, "prompt": text}))
}

/// The editor has its own paths, the agent those of the pod.
#[test]
fn an_editor_works_with_its_own_paths_and_has_the_files_after_each_turn() {
    let cluster = Cluster::new();
    fs::create_dir(cluster.setup.workspace().join("src")).unwrap();
    fs::write(cluster.setup.workspace().join("src/a"), "before").unwrap();
    let file = cluster.pods("src/a");
    let write = json!({"sessionId": "$session", "path": file, "content": "after"});
    let call =
        json!({"toolCallId": "t", "title": "edit", "kind": "edit", "locations": [{"path": file}]});
    let agent = AcpAgent::new(&turn([
        Step::ask("p", "session/request_permission", Step::permission(call)),
        Step::ask("w", "fs/write_text_file", write),
        Step::stop("end_turn"),
    ]));
    let mut editor = Editor::start(&mut cluster.agent("acp", &agent, &["--files", "aifo"]));
    let session = open(&mut editor, &cluster.own("src"));
    assert_eq!(agent.received_of("session/new")[0]["params"]["cwd"], json!(cluster.pods("src")));
    let turn = prompt(&mut editor, &session);
    let request = editor.wait_for("a permission request", |message| {
        message["method"] == "session/request_permission"
    });
    let location = &request["params"]["toolCall"]["locations"][0]["path"];
    assert_eq!(*location, json!(cluster.own("src/a")));
    let option = request["params"]["options"][0]["optionId"].clone();
    editor.respond(&request, &json!({"outcome": {"outcome": "selected", "optionId": option}}));
    assert_eq!(editor.response(turn).unwrap()["stopReason"], "end_turn");
    // Before the session's end.
    assert_eq!(fs::read_to_string(cluster.own("src/a")).unwrap(), "after");
    assert_eq!(cluster.read("deleted"), "");
    let elsewhere = editor.request("session/new", &json!({"cwd": "/", "mcpServers": []}));
    let error = editor.response(elsewhere).unwrap_err()["message"].to_string();
    assert!(
        error.contains(cluster.own("").trim_end_matches('/')),
        "the workspace is the editor's: {error}"
    );
    let load = json!({"sessionId": session, "cwd": cluster.own(""), "mcpServers": []});
    let loaded = editor.request("session/load", &load);
    editor.response(loaded).unwrap();
    assert!(editor.received().iter().all(Value::is_object), "stdout has only messages");
    let outcome = editor.finish();
    outcome.exited(0);
    assert!(outcome.stderr.contains("1 file written"), "{}", outcome.stderr);
    assert!(!cluster.read("deleted").is_empty(), "the pod is deleted");
}

#[test]
fn a_failed_start_answers_the_editor() {
    let cluster = Cluster::new();
    cluster.put("refusal", "error: You must be logged in to the server (Unauthorized)");
    let agent = AcpAgent::new(&turn([]));
    for (flags, cause, code) in [
        (&[][..], "the cluster does not accept your login", 86),
        (&["--files", "editor"], "--files editor has no effect in a pod", 2),
        (&["--terminals", "editor"], "the agent's files and terminals are in the pod", 2),
    ] {
        let mut editor = Editor::start(&mut cluster.agent("acp", &agent, flags));
        let initialize = editor.request("initialize", &json!({"protocolVersion": 1}));
        let error = editor.response(initialize).unwrap_err();
        assert!(error["message"].to_string().contains(cause), "{error}");
        assert!(error["data"]["hint"].is_string(), "{error}");
        editor.finish().exited(code);
    }
}

#[test]
fn the_answer_of_a_prompt_and_its_exit_code_are_the_agents() {
    let cluster = Cluster::new();
    for (reason, code) in [("end_turn", 0), ("refusal", 3)] {
        let agent = AcpAgent::new(&turn([Step::say("Hello"), Step::stop(reason)]));
        let outcome = Outcome::of(&mut cluster.agent("prompt", &agent, &["hi"]));
        assert_eq!((outcome.code(), &*outcome.text()), (Some(code), "Hello\n"), "{outcome:?}");
        assert!(!outcome.stderr.contains("command terminated"), "{}", outcome.stderr);
        let sent = &agent.received_of("session/prompt")[0]["params"]["prompt"][0]["text"];
        assert_eq!(sent, "hi");
        assert!(Path::new(&cluster.directory.join("deleted")).exists());
        let _ = fs::remove_file(cluster.directory.join("deleted"));
    }
    let line = ["prompt", "--backend", "kubernetes", "--agent-command", "a", "hi"];
    let error = Outcome::of(&mut cluster.coder(&line)).exited(2).stderr.clone();
    assert!(error.contains("hint: name it with --image"), "{error}");
}

#[test]
fn a_signal_or_a_lost_connection_ends_the_turn_and_its_files_are_fetched() {
    for (ending, code, error) in
        [(Some(Signal::SIGTERM), 143, ""), (None, 125, "is lost, and its command ends")]
    {
        let cluster = Cluster::new();
        let file = cluster.pods("made");
        let write = json!({"sessionId": "$session", "path": file, "content": "made"});
        let late =
            json!({"sessionId": "$session", "path": cluster.pods("late"), "content": "late"});
        let steps = [
            Step::ask("w", "fs/write_text_file", write),
            Step::say("written"),
            Step::wait_for("session/cancel"),
            Step::ask("l", "fs/write_text_file", late),
            Step::say("stopping"),
            Step::stop("cancelled"),
        ];
        let agent = AcpAgent::new(&turn(steps));
        let mut editor = Editor::start(&mut cluster.agent("acp", &agent, &["--files", "aifo"]));
        let session = open(&mut editor, &cluster.own(""));
        prompt(&mut editor, &session);
        editor.wait_for("its file", |message| message.to_string().contains("written"));
        let outcome = match ending {
            Some(signal) => editor.end_by(signal),
            None => {
                let kubectl = cluster.read("command").trim().parse().unwrap();
                send_signal(kubectl, Signal::SIGKILL);
                editor.wait_for_end()
            }
        };
        assert_eq!(outcome.code(), Some(code), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(error), "{}", outcome.stderr);
        assert_eq!(fs::read_to_string(cluster.own("made")).unwrap(), "made");
        if ending.is_some() {
            assert_eq!(agent.received_of("session/cancel").len(), 1);
            assert_eq!(fs::read_to_string(cluster.own("late")).unwrap(), "late");
        }
        assert!(!cluster.read("deleted").is_empty(), "the pod is deleted");
    }
}

/// The interrupt key of a terminal, which kubectl does not get.
#[test]
fn the_interrupt_key_cancels_a_prompt_and_its_last_output_is_shown() {
    let cluster = Cluster::new();
    let steps = [
        Step::say("so far"),
        Step::wait_for("session/cancel"),
        Step::say(", stopping"),
        Step::stop("cancelled"),
    ];
    let agent = AcpAgent::new(&turn(steps));
    let terminal = Terminal::sized(160, 24);
    let run = terminal.start(&cluster.agent("prompt", &agent, &["--format", "json", "-"]));
    terminal.press("go\r\x04");
    terminal.expect("so far").press("\x03");
    assert_eq!(run.finish(), Ok(130), "{}", terminal.shown());
    terminal.expect(", stopping").expect("\"stop_reason\":\"cancelled\"");
    let sent = &agent.received_of("session/prompt")[0]["params"]["prompt"][0]["text"];
    assert_eq!(sent.as_str().unwrap().trim_end(), "go");
    assert!(!cluster.read("deleted").is_empty(), "the pod is deleted");
}

#[test]
fn a_second_signal_deletes_the_pod_at_once() {
    let cluster = Cluster::new();
    let steps =
        [Step::say("working"), Step::IgnoreSignals, Step::wait_for("session/cancel"), Step::Hang];
    let agent = AcpAgent::new(&turn(steps));
    let run = Running::start(&mut cluster.agent("prompt", &agent, &["hi"]));
    run.expect("working");
    run.signal(Signal::SIGTERM);
    eventually("the turn is cancelled", || !agent.received_of("session/cancel").is_empty());
    assert_eq!(cluster.read("deleted"), "", "the agent has time to end");
    run.signal(Signal::SIGTERM);
    eventually("the pod is deleted", || !cluster.read("deleted").is_empty());
    assert!(!agent.alive().is_empty(), "before the end of the agent's time");
    run.finish().exited(143);
}
