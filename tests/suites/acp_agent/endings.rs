//! Endings of an agent at any time: the prompt fails at once with the reason, and nothing is left.

use aifo_tests::{Group, Script, Step};
use serde_json::json;

use crate::{Stage, turn};

/// A conforming agent with processes that would never end.
fn with_company(script: Script) -> Script {
    script.at_start([Step::Spawn(Group::Agents), Step::Spawn(Group::Own)])
}

/// Ends the agent in each state of a connection.
#[track_caller]
fn check(ending: &Step, words: &[&str]) {
    let said = Step::Stderr(100);
    let last = |before: &[Step]| [before, &[said.clone(), ending.clone()]].concat();
    let asking = Step::request(
        1,
        "session/request_permission",
        Step::permission(json!({"toolCallId": "t"})),
    );
    let scripts = [
        Script::polite().on("initialize", last(&[])),
        Script::polite().on("session/new", last(&[])),
        turn(last(&[])),
        turn(last(&[Step::say("half an ans")])),
        turn(last(&[asking])),
        turn(last(&[Step::Fill(b'x', 100_000)])),
    ];
    for script in scripts {
        let stage = Stage::with(&with_company(script));
        let told = stage.ask(&[]);
        told.failed(words).failed(&["eeee"]);
        assert_eq!(stage.agent.pids().len(), 3);
    }
}

#[test]
fn it_exits_with_success_in_any_state() {
    check(&Step::Exit(0), &["exit status: 0"]);
}

#[test]
fn it_fails_in_any_state() {
    check(&Step::Exit(7), &["exit status: 7"]);
}

#[test]
fn it_is_killed_in_any_state() {
    check(&Step::Die(9), &["signal: 9"]);
}

#[test]
fn it_ends_before_it_has_read_anything() {
    let noise = Step::line("kimi acp is deprecated, use kimi-code");
    let stage = Stage::with(&Script::default().at_start([noise, Step::Exit(1)]));
    stage.ask(&[]).failed(&["kimi acp is deprecated", "exit status: 1"]);
}

#[test]
fn a_half_answer_is_told_as_far_as_it_came() {
    let stage = Stage::with(&turn([Step::say("half an ans"), Step::Exit(1)]));
    let told = stage.ask(&[]);
    told.failed(&[]);
    assert_eq!(told.end()["text"], "half an ans");
    assert!(told.end()["error"]["message"].is_string());
}

#[test]
fn its_company_goes_with_it_after_a_turn() {
    let script = with_company(Script::polite());
    let stage = Stage::with(&script);
    stage.ask(&[]).answered("Hello World");
    assert_eq!(stage.agent.pids().len(), 3);
}

#[test]
fn one_that_does_not_end_with_its_stdin_is_ended() {
    let script = with_company(Script::polite()).at_end([Step::IgnoreSignals, Step::Hang]);
    Stage::with(&script).ask(&[]).answered("Hello World");
}

#[test]
fn one_that_floods_stderr_is_heard() {
    let flood = Step::Stderr(8 << 20);
    let script = Script::polite()
        .at_start([flood.clone()])
        .on("session/prompt", [flood, Step::say("heard"), Step::stop("end_turn")]);
    Stage::with(&script).ask(&[]).answered("heard");
}

#[test]
fn one_that_does_not_read_is_given_up() {
    // The prompt is longer than pipes hold.
    let script =
        Script::polite().on("session/new", [Step::Answer(json!({"sessionId": "s"})), Step::Hang]);
    let stage = Stage::with(&script);
    let mut prompt = stage.prompt(&["--timeout", "1"]);
    // An argument has at most 128 KiB.
    let long = stage.setup.scratch().join("prompt");
    std::fs::write(&long, "x".repeat(1 << 20)).unwrap();
    let mut args: Vec<_> = prompt.get_args().map(ToOwned::to_owned).collect();
    args.pop();
    prompt = stage.setup.coder();
    prompt.args(args).arg("-").stdin(std::fs::File::open(long).unwrap());
    let told = stage.told(aifo_tests::Running::start(&mut prompt).finish());
    told.outcome.exited(124);
    assert_eq!(told.end()["cancelled"], "too_long");
}

#[test]
fn one_that_cannot_be_started_is_told() {
    let stage = Stage::with(&Script::polite());
    let mut prompt = stage.setup.coder();
    prompt.args(["prompt", "--backend", "local", "--agent-command", "/no/such/agent", "hello"]);
    let outcome = aifo_tests::Outcome::of(&mut prompt);
    outcome.exited(86);
    assert!(outcome.stderr.contains("cannot start '/no/such/agent'"), "{outcome:?}");
}
