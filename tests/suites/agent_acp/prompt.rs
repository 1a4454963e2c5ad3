//! Real agents through `aifo-coder prompt`.

use aifo_tests::model::{Agent, Script};
use aifo_tests::{AgentFixture, Editor, Outcome, Running};
use serde_json::Value;

use super::{
    MADE, MAKE, fails_for_unknown_sessions, fixtures, ran_since_last_check, wait_until_loadable,
};

/// Runs `aifo-coder prompt`; checks that nothing of its session is left.
#[track_caller]
fn prompt(fixture: &AgentFixture, options: &[&str]) -> Outcome {
    let mut prompt = fixture.command("prompt");
    prompt.args(options).args([fixture.name(), "Please do as the script says."]);
    let outcome = Running::start(&mut prompt).finish_within(Editor::PATIENCE);
    fixture.assert_clean();
    outcome
}

/// The reports; the last one must be final.
#[track_caller]
fn reports(outcome: &Outcome) -> Vec<Value> {
    let text = outcome.text();
    let all: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert!(all.last().is_some_and(|last| last["type"] == "final"), "{}{text}", outcome.stderr);
    all
}

/// The reports of a type.
fn of_type<'a>(reports: &'a [Value], name: &str) -> Vec<&'a Value> {
    reports.iter().filter(|report| report["type"] == name).collect()
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_allowed_call_runs_in_its_sidecar_and_the_session_can_be_resumed() {
    let test = "an_allowed_call_runs_in_its_sidecar_and_the_session_can_be_resumed";
    let script = Script::new().shell(MAKE).say("It is made.").say("It was made before.");
    for (fixture, model) in fixtures(test, &script) {
        let name = fixture.name();
        let outcome = prompt(&fixture, &["--yes-to", "all", "--format", "json"]);
        let (all, stderr) = (reports(&outcome), &outcome.stderr);
        let last = of_type(&all, "final")[0];
        assert_eq!(outcome.code(), Some(0), "{name}: {last} {stderr}");
        assert_eq!(last["stop_reason"], "end_turn", "{name}: {last}");
        let text = last["text"].as_str().unwrap_or_default();
        assert!(text.trim_end().ends_with("It is made."), "{name}: {last}");
        let results = model.results();
        assert!(results.iter().any(|it| it.output.contains(MADE)), "{name}: {results:?}");
        assert!(ran_since_last_check(&fixture), "{name}: {last} {stderr}");
        let last_id = of_type(&all, "permission");
        assert!(!last_id.is_empty(), "{name}: {all:?}");
        let decided = of_type(&all, "decision");
        assert_eq!(decided.len(), last_id.len(), "{name}: {all:?}");
        assert!(decided.iter().all(|it| it["option"].is_string()), "{name}: {decided:?}");
        assert_eq!(of_type(&all, "agent")[0]["loads_sessions"], true, "{name}: {all:?}");

        wait_until_loadable(fixture.agent);
        let resumed = prompt(&fixture, &["--yes-to", "all", "--resume"]);
        let (text, stderr) = (resumed.text(), &resumed.stderr);
        assert_eq!(resumed.code(), Some(0), "{name}: {text} {stderr}");
        assert!(text.ends_with("It was made before.\n"), "{name}: {text} {stderr}");
        // Earlier turns are neither printed nor sent to the model again.
        assert!(!text.contains("It is made."), "{name}: {text}");
        assert!(!stderr.contains(MAKE) && !stderr.contains("new one"), "{name}: {stderr}");
        assert!(!ran_since_last_check(&fixture), "{name}: {text} {stderr}");
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_missing_session_is_replaced_by_a_new_one_and_reported() {
    let test = "a_missing_session_is_replaced_by_a_new_one_and_reported";
    for (fixture, _model) in fixtures(test, &Script::new().say("Here we are.")) {
        let name = fixture.name();
        let nobody = "--resume=00000000-0000-4000-8000-000000000000";
        let outcome = prompt(&fixture, &[nobody]);
        let (text, stderr) = (outcome.text(), &outcome.stderr);
        assert_eq!(outcome.code(), Some(0), "{name}: {text} {stderr}");
        assert!(text.ends_with("Here we are.\n"), "{name}: {text} {stderr}");
        let is_reported = stderr.contains("starting a new one");
        assert_eq!(is_reported, fails_for_unknown_sessions(fixture.agent), "{name}: {stderr}");
    }
}

/// The exit code after a denial: some agents stop then.
fn after_denial(agent: Agent) -> i32 {
    match agent {
        Agent::Codex => 8,
        _ => 0,
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_call_without_a_rule_is_denied_reported_and_not_run() {
    let script = Script::new().shell(MAKE).say("So be it.");
    for (fixture, model) in
        fixtures("a_call_without_a_rule_is_denied_reported_and_not_run", &script)
    {
        let name = fixture.name();
        let outcome = prompt(&fixture, &[]);
        let (text, stderr) = (outcome.text(), &outcome.stderr);
        assert_eq!(outcome.code(), Some(after_denial(fixture.agent)), "{name}: {text} {stderr}");
        let message = stderr.lines().find(|line| line.starts_with("aifo-coder: denied "));
        let message = message.unwrap_or_else(|| panic!("{name}: {stderr}"));
        // openhands sends no command.
        assert!(message.contains(MAKE) || fixture.agent == Agent::Openhands, "{name}: {message}");
        assert!(
            message.contains("--yes-to ") && message.ends_with(" allows it"),
            "{name}: {message}"
        );
        assert!(!ran_since_last_check(&fixture), "{name}: {text} {stderr}");
        let results = model.results();
        assert!(results.iter().all(|it| !it.output.contains(MADE)), "{name}: {results:?}");
    }
}
