//! Endings of an agent at any time: the prompt fails at once with the reason, and nothing is left.

use aifo_tests::{Group, Script, Step};
use serde_json::json;

use crate::acp_agent::{PromptTest, turn};

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
        Script::conforming().on("initialize", last(&[])),
        Script::conforming().on("session/new", last(&[])),
        turn(last(&[])),
        turn(last(&[Step::say("half an ans")])),
        turn(last(&[asking])),
        turn(last(&[Step::Fill(b'x', 100_000)])),
    ];
    for script in scripts {
        let test = PromptTest::with(&with_company(script));
        let result = test.ask(&[]);
        result.failed(words).failed(&["eeee"]);
        assert_eq!(test.agent.pids().len(), 3);
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
    let test = PromptTest::with(&Script::default().at_start([noise, Step::Exit(1)]));
    test.ask(&[]).failed(&["kimi acp is deprecated", "exit status: 1"]);
}

#[test]
fn a_partial_answer_is_reported() {
    let test = PromptTest::with(&turn([Step::say("half an ans"), Step::Exit(1)]));
    let result = test.ask(&[]);
    result.failed(&[]);
    assert_eq!(result.end()["text"], "half an ans");
    assert!(result.end()["error"]["message"].is_string());
}

#[test]
fn its_company_goes_with_it_after_a_turn() {
    let script = with_company(Script::conforming());
    let test = PromptTest::with(&script);
    test.ask(&[]).answered("Hello World");
    assert_eq!(test.agent.pids().len(), 3);
}

#[test]
fn one_that_does_not_end_with_its_stdin_is_ended() {
    let script = with_company(Script::conforming()).at_end([Step::IgnoreSignals, Step::Hang]);
    PromptTest::with(&script).ask(&[]).answered("Hello World");
}

#[test]
fn one_that_floods_stderr_still_answers() {
    let flood = Step::Stderr(8 << 20);
    let script = Script::conforming()
        .at_start([flood.clone()])
        .on("session/prompt", [flood, Step::say("heard"), Step::stop("end_turn")]);
    PromptTest::with(&script).ask(&[]).answered("heard");
}

#[test]
fn one_that_does_not_read_is_given_up() {
    // The prompt is longer than pipes hold.
    let script = Script::conforming()
        .on("session/new", [Step::Answer(json!({"sessionId": "s"})), Step::Hang]);
    let test = PromptTest::with(&script);
    let mut prompt = test.prompt(&["--timeout", "1"]);
    // An argument has at most 128 KiB.
    let long = test.setup.scratch().join("prompt");
    std::fs::write(&long, "x".repeat(1 << 20)).unwrap();
    let mut args: Vec<_> = prompt.get_args().map(ToOwned::to_owned).collect();
    args.pop();
    prompt = test.setup.coder();
    prompt.args(args).arg("-").stdin(std::fs::File::open(long).unwrap());
    let result = test.result(aifo_tests::Running::start(&mut prompt).finish());
    result.outcome.exited(124);
    assert_eq!(result.end()["cancelled"], "too_long");
}

#[test]
fn one_that_cannot_be_started_is_reported() {
    let test = PromptTest::with(&Script::conforming());
    let mut prompt = test.setup.coder();
    prompt.args(["prompt", "--backend", "local", "--agent-command", "/no/such/agent", "hello"]);
    let outcome = aifo_tests::Outcome::of(&mut prompt);
    outcome.exited(86);
    assert!(outcome.stderr.contains("cannot start '/no/such/agent'"), "{outcome:?}");
}
