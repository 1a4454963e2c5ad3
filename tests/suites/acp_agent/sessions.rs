//! Sessions: opened late, early, and again.

use aifo_tests::{Script, Step};
use serde_json::json;

use crate::acp_agent::{PromptTest, turn};

#[test]
fn updates_that_come_before_their_session_are_applied() {
    let commands = json!({"sessionUpdate": "available_commands_update", "availableCommands": []});
    let early = |session: &str| {
        let params = json!({"sessionId": session, "update": commands});
        Step::Send(json!({"method": "session/update", "params": params}))
    };
    let script = Script::conforming().on(
        "session/new",
        [early("session-1"), early("foreign"), Step::Answer(json!({"sessionId": "session-1"}))],
    );
    let result = PromptTest::with(&script).ask(&[]);
    result.answered("Hello World");
    let updates = result.all("update");
    assert_eq!(updates.len(), 1, "{result:?}");
    assert_eq!(updates[0]["kind"], "available_commands_update");
}

#[test]
fn a_history_is_no_answer_and_turns_do_not_share() {
    let call = Step::tool_call("t", "ls", "completed");
    let script = Script::conforming()
        .on("session/load", [Step::say("old "), call.clone(), Step::Answer(json!({}))])
        .on("session/prompt", [Step::say("new"), Step::stop("end_turn")]);
    let test = PromptTest::with(&script);
    test.ask(&[]).answered("new");
    let result = test.ask(&["--resume"]);
    result.answered("new");
    assert_eq!(result.end()["updates"], json!({"agent_message_chunk": 1}));
    assert_eq!(result.all("draft")[0]["history"], true);
    let loads = test.agent.received_of("session/load");
    assert_eq!(loads.len(), 1);
    assert_eq!(loads[0]["params"]["sessionId"], "session-1");
    assert_eq!(test.agent.received_of("session/new").len(), 1);
}

#[test]
fn a_session_that_cannot_be_loaded_is_a_new_one() {
    let failing = Script::conforming()
        .on("session/load", [Step::Error(-32603, "No previous sessions found".into())]);
    let test = PromptTest::with(&failing);
    let result = test.ask(&["--resume=earlier"]);
    result.answered("Hello World");
    assert!(result.outcome.stderr.contains("No previous sessions found"), "{result:?}");
    let unable =
        Script::conforming().on("initialize", [Step::Answer(json!({"protocolVersion": 1}))]);
    let test = PromptTest::with(&unable);
    test.ask(&["--resume=earlier"]).answered("Hello World");
    assert_eq!(test.agent.received_of("session/load"), Vec::<serde_json::Value>::new());
}

#[test]
fn the_prompt_and_the_directory_are_sent() {
    let test = PromptTest::with(&turn([Step::stop("end_turn")]));
    test.ask(&[]).answered("");
    let opened = &test.agent.received_of("session/new")[0]["params"];
    assert_eq!(opened["cwd"].as_str(), test.setup.workspace().to_str());
    let prompt = &test.agent.received_of("session/prompt")[0]["params"]["prompt"];
    assert_eq!(*prompt, json!([{"type": "text", "text": "hello"}]));
}
