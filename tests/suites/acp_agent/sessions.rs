//! Sessions: opened late, early, and again.

use aifo_tests::{Script, Step};
use serde_json::json;

use crate::{Stage, turn};

#[test]
fn updates_that_come_before_their_session_are_applied() {
    let commands = json!({"sessionUpdate": "available_commands_update", "availableCommands": []});
    let early = |session: &str| {
        let params = json!({"sessionId": session, "update": commands});
        Step::Send(json!({"method": "session/update", "params": params}))
    };
    let script = Script::polite().on(
        "session/new",
        [early("session-1"), early("foreign"), Step::Answer(json!({"sessionId": "session-1"}))],
    );
    let told = Stage::with(&script).ask(&[]);
    told.answered("Hello World");
    let updates = told.all("update");
    assert_eq!(updates.len(), 1, "{told:?}");
    assert_eq!(updates[0]["kind"], "available_commands_update");
}

#[test]
fn a_history_is_no_answer_and_turns_do_not_share() {
    let call = Step::tool_call("t", "ls", "completed");
    let script = Script::polite()
        .on("session/load", [Step::say("old "), call.clone(), Step::Answer(json!({}))])
        .on("session/prompt", [Step::say("new"), Step::stop("end_turn")]);
    let stage = Stage::with(&script);
    stage.ask(&[]).answered("new");
    let told = stage.ask(&["--resume"]);
    told.answered("new");
    assert_eq!(told.end()["updates"], json!({"agent_message_chunk": 1}));
    assert_eq!(told.all("draft")[0]["history"], true);
    let loads = stage.agent.received_of("session/load");
    assert_eq!(loads.len(), 1);
    assert_eq!(loads[0]["params"]["sessionId"], "session-1");
    assert_eq!(stage.agent.received_of("session/new").len(), 1);
}

#[test]
fn a_session_that_cannot_be_loaded_is_a_new_one() {
    let failing = Script::polite()
        .on("session/load", [Step::Error(-32603, "No previous sessions found".into())]);
    let stage = Stage::with(&failing);
    let told = stage.ask(&["--resume=earlier"]);
    told.answered("Hello World");
    assert!(told.outcome.stderr.contains("No previous sessions found"), "{told:?}");
    let unable = Script::polite().on("initialize", [Step::Answer(json!({"protocolVersion": 1}))]);
    let stage = Stage::with(&unable);
    stage.ask(&["--resume=earlier"]).answered("Hello World");
    assert_eq!(stage.agent.received_of("session/load"), Vec::<serde_json::Value>::new());
}

#[test]
fn the_prompt_and_the_directory_are_told() {
    let stage = Stage::with(&turn([Step::stop("end_turn")]));
    stage.ask(&[]).answered("");
    let opened = &stage.agent.received_of("session/new")[0]["params"];
    assert_eq!(opened["cwd"].as_str(), stage.setup.workspace().to_str());
    let prompt = &stage.agent.received_of("session/prompt")[0]["params"]["prompt"];
    assert_eq!(*prompt, json!([{"type": "text", "text": "hello"}]));
}
