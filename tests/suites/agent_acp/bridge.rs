//! Real agents through `aifo-coder acp`.

use std::fs;

use aifo_tests::model::{Agent, Script};
use aifo_tests::{AgentFixture, Editor};
use serde_json::{Value, json};

use super::{
    MADE, MAKE, decide, fails_for_unknown_sessions, fixtures, initialize, new_session, permission,
    ran_since_last_check, said, send_prompt, wait_until_loadable,
};

/// Starts `aifo-coder acp` with the fixture's agent, with the wire log in this scratch directory.
pub(crate) fn editor(fixture: &AgentFixture, log: &str) -> Editor {
    let mut acp = fixture.command("acp");
    acp.arg("--wire-log").arg(fixture.containers.setup().scratch().join(log)).arg(fixture.name());
    Editor::start(&mut acp)
}

/// The frames of the wire log.
pub(crate) fn log(fixture: &AgentFixture, dir: &str) -> Vec<Value> {
    let dir = fixture.containers.setup().scratch().join(dir);
    let parts = fs::read_dir(dir).unwrap().map(|part| part.unwrap().path());
    let text: String = parts.map(|part| fs::read_to_string(part).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs a turn in which every permission is allowed; returns the stop reason and the text.
#[track_caller]
pub(crate) fn turn(editor: &mut Editor, session: &str) -> (Value, String) {
    let before = editor.received().len();
    let prompt = send_prompt(editor, session, "Please do as the script says.");
    let respond = loop {
        let message = editor.wait_for("the end of the turn", |message| {
            let is_answer = message["id"] == prompt && message.get("method").is_none();
            is_answer || message["method"] == "session/request_permission"
        });
        match message.get("method") {
            None => break message,
            Some(_) => decide(editor, &message, "allow_once"),
        }
    };
    let received = editor.received();
    assert!(respond.get("error").is_none(), "{respond}");
    (respond["result"]["stopReason"].clone(), said(&received[before..]))
}

/// The stop reason of a cancelled turn.
fn after_cancel(agent: Agent) -> &'static str {
    match agent {
        Agent::Openhands => "end_turn",
        _ => "cancelled",
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_editor_allows_cancels_and_goes_on_in_one_session() {
    let test = "an_editor_allows_cancels_and_goes_on_in_one_session";
    let script = Script::new().shell(MAKE).say("First it is made.").shell(MAKE).say("Last of all.");
    for (fixture, model) in fixtures(test, &script) {
        let name = fixture.name();
        let mut editor = editor(&fixture, "log");
        initialize(&mut editor);
        let session = new_session(&mut editor, &fixture);

        let (why, text) = turn(&mut editor, &session);
        assert_eq!(why, "end_turn", "{name}");
        assert!(text.trim_end().ends_with("First it is made."), "{name}: {text}");
        assert!(model.results()[0].output.contains(MADE), "{name}: {:?}", model.results());
        assert!(ran_since_last_check(&fixture), "{name}");

        let prompt = send_prompt(&mut editor, &session, "Once more, please.");
        let last_id = permission(&mut editor);
        editor.notify("session/cancel", &json!({"sessionId": session}));
        let cancelled = editor.response(prompt).unwrap();
        assert_eq!(cancelled["stopReason"], after_cancel(fixture.agent), "{name}");
        // Sent after aifo's own answer; reaches no agent.
        decide(&mut editor, &last_id, "allow_once");

        // The agent has reported the cancelled call to its model, otherwise the model would repeat
        // it.
        let (why, text) = turn(&mut editor, &session);
        assert_eq!(why, "end_turn", "{name}");
        assert!(text.trim_end().ends_with("Last of all."), "{name}: {text}");
        assert!(!text.contains("First"), "{name}: {text}");

        let received = editor.received();
        assert!(received.iter().all(Value::is_object), "{name}: {received:?}");
        let outcome = editor.finish();
        assert_eq!(outcome.code(), Some(0), "{name}: {}", outcome.stderr);
        fixture.assert_clean();
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_editor_that_leaves_while_a_permission_waits_takes_all_along() {
    let test = "an_editor_that_leaves_while_a_permission_waits_takes_all_along";
    let script = Script::new().say("Here we are.").shell(MAKE).say("Nobody hears this.");
    for (fixture, _model) in fixtures(test, &script) {
        let name = fixture.name();
        let mut first = editor(&fixture, "first");
        let agent = initialize(&mut first);
        assert_eq!(agent["agentCapabilities"]["loadSession"], true, "{name}: {agent}");
        let session = new_session(&mut first, &fixture);
        let (_, text) = turn(&mut first, &session);
        assert!(text.trim_end().ends_with("Here we are."), "{name}: {text}");
        assert_eq!(first.finish().code(), Some(0), "{name}");
        fixture.assert_clean();

        wait_until_loadable(fixture.agent);
        let mut second = editor(&fixture, "second");
        initialize(&mut second);
        let load = json!({"sessionId": session, "cwd": fixture.workspace(), "mcpServers": []});
        let load = second.request("session/load", &load);
        second.response(load).unwrap_or_else(|e| panic!("{name}: {e} {}", second.stderr()));
        send_prompt(&mut second, &session, "Go on, please.");
        permission(&mut second);
        let outcome = second.finish();
        assert_eq!(outcome.code(), Some(0), "{name}: {}", outcome.stderr);
        fixture.assert_clean();
        assert!(!ran_since_last_check(&fixture), "{name}");

        let lines = log(&fixture, "second");
        let last_id = lines.iter().map(|line| &line["frame"]);
        let last_id = last_id.filter(|frame| frame["method"] == "session/request_permission");
        let last_id: Vec<_> = last_id.map(|frame| &frame["id"]).collect();
        assert_eq!(last_id.len(), 1, "{name}: {last_id:?}");
        let answers = lines.iter().filter(|line| line["dir"] == "out").map(|line| &line["frame"]);
        let answers: Vec<_> = answers
            .filter(|frame| frame.get("method").is_none() && frame["id"] == *last_id[0])
            .map(|frame| &frame["result"]["outcome"]["outcome"])
            .collect();
        assert_eq!(answers, ["cancelled"], "{name}");
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_session_that_is_not_there_cannot_be_loaded() {
    let test = "a_session_that_is_not_there_cannot_be_loaded";
    for (fixture, _model) in fixtures(test, &Script::new().say("Here we are.")) {
        let name = fixture.name();
        let mut editor = editor(&fixture, "log");
        initialize(&mut editor);
        let nobody = "00000000-0000-4000-8000-000000000000";
        let load = json!({"sessionId": nobody, "cwd": fixture.workspace(), "mcpServers": []});
        let load = editor.request("session/load", &load);
        let loaded = editor.response(load);
        assert_eq!(
            loaded.is_err(),
            fails_for_unknown_sessions(fixture.agent),
            "{name}: {loaded:?}"
        );
        // The agent still works.
        let session = new_session(&mut editor, &fixture);
        let (_, text) = turn(&mut editor, &session);
        assert!(text.trim_end().ends_with("Here we are."), "{name}: {text}");
        assert_eq!(editor.finish().code(), Some(0), "{name}");
        fixture.assert_clean();
    }
}
