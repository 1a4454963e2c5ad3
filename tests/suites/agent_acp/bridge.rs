//! `aifo-coder acp`: an editor is at the agent.

use std::fs;

use aifo_tests::model::{Agent, Script};
use aifo_tests::{Editor, Site};
use serde_json::{Value, json};

use super::{
    MADE, MAKE, decide, has_run, introduced, knows_its_sessions, let_it_be_loadable, opened,
    permission, prompted, said, sites,
};

/// `aifo-coder acp` of the site's agent, whose connection is logged in this folder of the scratch.
pub(crate) fn editor(site: &Site, log: &str) -> Editor {
    let mut acp = site.command("acp");
    acp.arg("--wire-log").arg(site.containers.setup().scratch().join(log)).arg(site.name());
    Editor::start(&mut acp)
}

/// What went over the agent's pipes, as the log has it.
pub(crate) fn log(site: &Site, folder: &str) -> Vec<Value> {
    let folder = site.containers.setup().scratch().join(folder);
    let parts = fs::read_dir(folder).unwrap().map(|part| part.unwrap().path());
    let text: String = parts.map(|part| fs::read_to_string(part).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Goes through a turn in which every permission is allowed: why it stopped, and what was said.
#[track_caller]
pub(crate) fn turn(editor: &mut Editor, session: &str) -> (Value, String) {
    let before = editor.heard().len();
    let prompt = prompted(editor, session, "Please do as the script says.");
    let answer = loop {
        let message = editor.hear("the end of the turn", |message| {
            let is_answer = message["id"] == prompt && message.get("method").is_none();
            is_answer || message["method"] == "session/request_permission"
        });
        match message.get("method") {
            None => break message,
            Some(_) => decide(editor, &message, "allow_once"),
        }
    };
    let heard = editor.heard();
    assert!(answer.get("error").is_none(), "{answer}");
    (answer["result"]["stopReason"].clone(), said(&heard[before..]))
}

/// Why a turn has stopped that was cancelled, in the agent's word.
fn after_cancel(agent: Agent) -> &'static str {
    match agent {
        Agent::Openhands => "end_turn",
        _ => "cancelled",
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_editor_allows_cancels_and_goes_on_in_one_session() {
    let story = "an_editor_allows_cancels_and_goes_on_in_one_session";
    let script = Script::new().shell(MAKE).say("First it is made.").shell(MAKE).say("Last of all.");
    for (site, model) in sites(story, &script) {
        let name = site.name();
        let mut editor = editor(&site, "log");
        introduced(&mut editor);
        let session = opened(&mut editor, &site);

        let (why, text) = turn(&mut editor, &session);
        assert_eq!(why, "end_turn", "{name}");
        assert!(text.trim_end().ends_with("First it is made."), "{name}: {text}");
        assert!(model.results()[0].output.contains(MADE), "{name}: {:?}", model.results());
        assert!(has_run(&site), "{name}");

        let prompt = prompted(&mut editor, &session, "Once more, please.");
        let asked = permission(&mut editor);
        editor.tell("session/cancel", &json!({"sessionId": session}));
        let cancelled = editor.answered(prompt).unwrap();
        assert_eq!(cancelled["stopReason"], after_cancel(site.agent), "{name}");
        // The editor's own answer comes after ours, and reaches nobody.
        decide(&mut editor, &asked, "allow_once");

        // What was cancelled the agent has reported to its model, or the model has it done again.
        let (why, text) = turn(&mut editor, &session);
        assert_eq!(why, "end_turn", "{name}");
        assert!(text.trim_end().ends_with("Last of all."), "{name}: {text}");
        assert!(!text.contains("First"), "{name}: {text}");

        let heard = editor.heard();
        assert!(heard.iter().all(Value::is_object), "{name}: {heard:?}");
        let outcome = editor.leave();
        assert_eq!(outcome.code(), Some(0), "{name}: {}", outcome.stderr);
        site.is_clean();
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_editor_that_leaves_while_a_permission_waits_takes_all_along() {
    let story = "an_editor_that_leaves_while_a_permission_waits_takes_all_along";
    let script = Script::new().say("Here we are.").shell(MAKE).say("Nobody hears this.");
    for (site, _model) in sites(story, &script) {
        let name = site.name();
        let mut first = editor(&site, "first");
        let agent = introduced(&mut first);
        assert_eq!(agent["agentCapabilities"]["loadSession"], true, "{name}: {agent}");
        let session = opened(&mut first, &site);
        let (_, text) = turn(&mut first, &session);
        assert!(text.trim_end().ends_with("Here we are."), "{name}: {text}");
        assert_eq!(first.leave().code(), Some(0), "{name}");
        site.is_clean();

        let_it_be_loadable(site.agent);
        let mut second = editor(&site, "second");
        introduced(&mut second);
        let load = json!({"sessionId": session, "cwd": site.workspace(), "mcpServers": []});
        let load = second.ask("session/load", &load);
        second.answered(load).unwrap_or_else(|e| panic!("{name}: {e} {}", second.stderr()));
        prompted(&mut second, &session, "Go on, please.");
        permission(&mut second);
        let outcome = second.leave();
        assert_eq!(outcome.code(), Some(0), "{name}: {}", outcome.stderr);
        site.is_clean();
        assert!(!has_run(&site), "{name}");

        let lines = log(&site, "second");
        let asked = lines.iter().map(|line| &line["frame"]);
        let asked = asked.filter(|frame| frame["method"] == "session/request_permission");
        let asked: Vec<_> = asked.map(|frame| &frame["id"]).collect();
        assert_eq!(asked.len(), 1, "{name}: {asked:?}");
        let answers = lines.iter().filter(|line| line["dir"] == "out").map(|line| &line["frame"]);
        let answers: Vec<_> = answers
            .filter(|frame| frame.get("method").is_none() && frame["id"] == *asked[0])
            .map(|frame| &frame["result"]["outcome"]["outcome"])
            .collect();
        assert_eq!(answers, ["cancelled"], "{name}");
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_session_that_is_not_there_cannot_be_loaded() {
    let story = "a_session_that_is_not_there_cannot_be_loaded";
    for (site, _model) in sites(story, &Script::new().say("Here we are.")) {
        let name = site.name();
        let mut editor = editor(&site, "log");
        introduced(&mut editor);
        let nobody = "00000000-0000-4000-8000-000000000000";
        let load = json!({"sessionId": nobody, "cwd": site.workspace(), "mcpServers": []});
        let load = editor.ask("session/load", &load);
        let loaded = editor.answered(load);
        assert_eq!(loaded.is_err(), knows_its_sessions(site.agent), "{name}: {loaded:?}");
        // And it is as good an agent as before.
        let session = opened(&mut editor, &site);
        let (_, text) = turn(&mut editor, &session);
        assert!(text.trim_end().ends_with("Here we are."), "{name}: {text}");
        assert_eq!(editor.leave().code(), Some(0), "{name}");
        site.is_clean();
    }
}
