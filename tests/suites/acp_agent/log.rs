//! The wire log replays to the same reports.

use std::fs;
use std::os::unix::fs::MetadataExt;

use aifo_tests::{AcpAgent, Editor, Outcome, SessionSetup, Step};
use serde_json::{Value, json};

use crate::acp_agent::{PromptResult, PromptTest, turn};

#[test]
fn a_log_replays_to_the_same_turn() {
    let call = json!({"toolCallId": "t", "title": "make", "kind": "execute"});
    let steps = [
        Step::line("Loading..."),
        Step::Stderr(50),
        Step::say("Hello "),
        Step::ask("p", "session/request_permission", Step::permission(call)),
        Step::tool_update("t", "failed"),
        Step::ask("q", "unheard/of", json!({"apiKey": "hunter2"})),
        Step::say("World"),
        Step::stop("end_turn"),
        Step::say("!"),
    ];
    let test = PromptTest::with(&turn(steps));
    let dir = test.setup.scratch().join("wire");
    let result = test.ask(&["--wire-log", dir.to_str().unwrap()]);
    result.answered("Hello World!");
    let files: Vec<_> = fs::read_dir(&dir).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].metadata().unwrap().mode() & 0o777, 0o600);
    let text = fs::read_to_string(files[0].path()).unwrap();
    assert!(text.contains("eeee") && !text.contains("hunter2"), "{text}");
    let mut replay = test.setup.coder();
    replay.args(["acp", "replay", "--format", "json"]).arg(files[0].path());
    let replayed = PromptResult::of(Outcome::of(&mut replay));
    replayed.outcome.exited(0);
    assert_eq!(replayed.all("misfit"), Vec::<&Value>::new());
    // Excludes reports that only the replay or only the live run has.
    let is_common = |report: &&Value| {
        !["sent", "stderr", "closed", "decision"].iter().any(|name| report["type"] == *name)
    };
    let plain = |report: &Value| {
        let mut report = report.clone();
        let members = report.as_object_mut().unwrap();
        members.remove("at");
        members.remove("line");
        report
    };
    let common = |result: &PromptResult| -> Vec<Value> {
        result.reports.iter().filter(is_common).map(plain).collect()
    };
    assert_eq!(common(&replayed), common(&result));
}

#[test]
fn the_log_of_an_editors_agent_replays_queued_prompts() {
    let agent = AcpAgent::new(&turn([Step::say("."), Step::stop("end_turn")]));
    let setup = SessionSetup::new();
    let dir = setup.scratch().join("wire");
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local", "--agent-command", &agent.command_line()]);
    coder.arg("--wire-log").arg(&dir);
    let mut editor = Editor::start(&mut coder);
    // It does not wait for responses, so all prompts but the first are queued.
    editor.request("initialize", &json!({"protocolVersion": 1}));
    editor.request("session/new", &json!({"cwd": setup.workspace(), "mcpServers": []}));
    let prompt = json!([{"type": "text", "text": "go"}]);
    let params = json!({"sessionId": "session-1", "prompt": prompt});
    let mut ids = [0; 5];
    for id in &mut ids {
        *id = editor.request("session/prompt", &params);
    }
    for id in ids {
        assert_eq!(editor.response(id).unwrap()["stopReason"], "end_turn");
    }
    editor.finish().exited(0);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().flatten().collect();
    let mut replay = setup.coder();
    replay.args(["acp", "replay", "--format", "json"]).arg(files[0].path());
    let replayed = PromptResult::of(Outcome::of(&mut replay));
    assert_eq!(replayed.all("misfit"), Vec::<&Value>::new());
    replayed.outcome.exited(0);
    let texts: Vec<_> = replayed.all("final").iter().map(|end| end["text"].clone()).collect();
    assert_eq!(texts, ["."; 5]);
}
