//! The wire log.

use std::fs;
use std::os::unix::fs::MetadataExt;

use aifo_tests::Step;
use serde_json::{Value, json};

use crate::acp_agent::{PromptTest, turn};

#[test]
fn a_turn_is_logged_in_a_private_file() {
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
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (member, count) in [("log", 1), ("decision", 1), ("text", 2)] {
        let found = lines.iter().filter(|line| !line[member].is_null()).count();
        assert_eq!(found, count, "{member}: {text}");
    }
    let has = |word: &str| lines.iter().any(|line| line["frame"].to_string().contains(word));
    assert!(has("session/prompt") && has("World") && has("end_turn"), "{text}");
}
